/*
 * output_file.c - the files of kept outputs: <state>/outputs/<box id>/<id> for stdout and
 * <id>.err for stderr.
 *
 * Making one removes the oldest ids of the box beyond OUTPUT_FILES. Other processes may
 * do the same at the same time, so a file that is gone already is no error. Names are
 * checked to be hex digits wherever they come from, so that none is a path.
 */
#include "core/output_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "core/output.h"

#define ID_LEN     OUTPUT_ID_LEN
#define BOX_ID_MAX 72

/* ---- names --------------------------------------------------------------------------- */

static bool hex_only(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.p[i];

        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) {
            return false;
        }
    }
    return s.len > 0;
}

/* An id that id_hex() may have made, or that of its stderr. Never a path. */
static bool valid_file(struct str name)
{
    struct str suffix = str_skip(name, ID_LEN);

    return name.len >= ID_LEN && hex_only(str_head(name, ID_LEN)) &&
           (suffix.len == 0 || str_eq(suffix, S(".err")));
}

static bool valid_box(struct str id)
{
    return id.len <= BOX_ID_MAX && hex_only(id);
}

static char *folder_path(struct str state_dir, struct str box_id)
{
    struct buf path own_buf = {0};

    buf_init(&path, 8192);
    buf_addf(&path, "%.*s/outputs", STR_ARG(state_dir));
    if (box_id.len > 0) {
        buf_addf(&path, "/%.*s", STR_ARG(box_id));
    }
    return buf_take(&path);
}

/* ---- pruning ------------------------------------------------------------------------- */

struct kept_id {
    char id[ID_LEN + 1];
    int64_t mtime_ns;
};

static int newest_first(const void *a, const void *b)
{
    const struct kept_id *x = a;
    const struct kept_id *y = b;

    return x->mtime_ns < y->mtime_ns ? 1 : x->mtime_ns > y->mtime_ns ? -1 : 0;
}

/* One more file: counts with its id, which is as new as the newest of its files. */
static void note_file(struct kept_id **ids, size_t *n, const char *name, const struct stat *st)
{
    int64_t mtime = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;

    for (size_t i = 0; i < *n; i++) {
        if (memcmp((*ids)[i].id, name, ID_LEN) == 0) {
            (*ids)[i].mtime_ns = (*ids)[i].mtime_ns > mtime ? (*ids)[i].mtime_ns : mtime;
            return;
        }
    }
    *ids = xrealloc(*ids, *n + 1, sizeof(**ids));
    memcpy((*ids)[*n].id, name, ID_LEN);
    (*ids)[*n].id[ID_LEN] = '\0';
    (*ids)[*n].mtime_ns = mtime;
    (*n)++;
}

static void remove_id(int dir, const char *id)
{
    char stderr_name[ID_LEN + 5];

    (void)snprintf(stderr_name, sizeof(stderr_name), "%s.err", id);
    (void)unlinkat(dir, id, 0);
    (void)unlinkat(dir, stderr_name, 0);
}

static void prune(const char *folder, const char *own_id)
{
    own_mem struct kept_id *ids = NULL;
    size_t n = 0;
    DIR *dir = opendir(folder);
    const struct dirent *entry;

    if (dir == NULL) {
        return;
    }
    for (entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        struct stat st;

        if (valid_file(str_from(entry->d_name)) &&
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            note_file(&ids, &n, entry->d_name, &st);
        }
    }
    if (n > OUTPUT_FILES) {
        qsort(ids, n, sizeof(*ids), newest_first);
    }
    for (size_t i = OUTPUT_FILES; i < n; i++) {
        if (strcmp(ids[i].id, own_id) != 0) {
            remove_id(dirfd(dir), ids[i].id);
        }
    }
    (void)closedir(dir);
}

/* ---- making one ---------------------------------------------------------------------- */

char *output_folder(struct str state_dir, struct str box_id)
{
    return valid_box(box_id) ? folder_path(state_dir, box_id) : NULL;
}

int output_file_new(const char *folder, const char *id, const char *suffix)
{
    struct buf path own_buf = {0};
    struct err ignored = {0};
    int fd;

    if (fd_mkdirs(folder, 0700, &ignored) < 0) {
        return -1;
    }
    buf_init(&path, 8192);
    buf_addf(&path, "%s/%s%s", folder, id, suffix);
    if (path.cut) {
        return -1;
    }
    fd = open(path.p, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) {
        prune(folder, id);
    }
    return fd;
}

/* ---- reading it later ---------------------------------------------------------------- */

int output_unknown(struct str id, struct err *e)
{
    return err_set(
        e, ERR_NOT_FOUND,
        "there is no output \"%.*s\": the whole output of the last %d commands of a "
        "sandbox is kept, for as long as the sandbox lives. Run the command again, into a file",
        STR_ARG(str_head(id, 40)), OUTPUT_FILES);
}

/* The file of that name in whichever box's folder, whose id is copied; -1: in none. */
static int find_file(const char *outputs, const char *name, char box_id[BOX_ID_MAX + 1])
{
    DIR *dir = opendir(outputs);
    const struct dirent *entry;
    int found = -1;

    if (dir == NULL) {
        return -1;
    }
    for (entry = readdir(dir); entry != NULL && found < 0; entry = readdir(dir)) {
        own_fd int box = -1;

        if (!valid_box(str_from(entry->d_name))) {
            continue;
        }
        box = openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (box >= 0) {
            found = openat(box, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        }
        if (found >= 0) {
            (void)snprintf(box_id, BOX_ID_MAX + 1, "%.*s", BOX_ID_MAX, entry->d_name);
        }
    }
    (void)closedir(dir);
    return found;
}

static int read_piece(int fd, int64_t from, int64_t max, struct arena *arena, struct str *bytes,
                      struct err *e)
{
    char *to = arena_alloc(arena, (size_t)max + 1, 1);
    size_t len = 0;

    while (len < (size_t)max) {
        ssize_t n = pread(fd, to + len, (size_t)max - len, from + (int64_t)len);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return err_sys(e, errno, "read the kept output");
        }
        if (n == 0) {
            break;
        }
        len += (size_t)n;
    }
    *bytes = (struct str){to, len};
    return 0;
}

int output_box(struct str state_dir, struct str id, struct arena *arena, struct str *box_id,
               struct err *e)
{
    own_mem char *outputs = folder_path(state_dir, STR_EMPTY);
    char found[BOX_ID_MAX + 1];
    own_fd int fd = -1;

    if (valid_file(id)) {
        fd = find_file(outputs, arena_cstr(arena, id), found);
    }
    if (fd < 0) {
        return output_unknown(id, e);
    }
    *box_id = arena_str(arena, str_from(found));
    return 0;
}

int output_read(struct str state_dir, struct str id, int64_t from, int64_t max, struct arena *arena,
                struct str *bytes, int64_t *size, struct err *e)
{
    own_mem char *outputs = folder_path(state_dir, STR_EMPTY);
    char box_id[BOX_ID_MAX + 1];
    own_fd int fd = -1;
    struct stat st;

    if (!valid_file(id)) {
        return output_unknown(id, e);
    }
    fd = find_file(outputs, arena_cstr(arena, id), box_id);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return output_unknown(id, e);
    }
    max = max < OUTPUT_FILE_MAX ? max : OUTPUT_FILE_MAX;
    from = from < (int64_t)st.st_size ? from : (int64_t)st.st_size;
    if (read_piece(fd, from, max, arena, bytes, e) < 0) {
        return -1;
    }
    *size = st.st_size;
    return 0;
}

void output_drop(struct str state_dir, struct str box_id)
{
    own_mem char *folder = folder_path(state_dir, box_id);
    struct err ignored = {0};

    if (valid_box(box_id)) {
        (void)!fd_remove_tree(AT_FDCWD, folder, &ignored);
    }
}
