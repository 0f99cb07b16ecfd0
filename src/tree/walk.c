#include "tree/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/sha256.h"
#include "tree/apply.h"
#include "tree/dirs.h"

#define IGNORE_FILE ".gitignore"
#define IGNORE_MAX  (1u << 20)   /* bytes of one; a longer one is not read */
#define SUM_CHUNK   (256u << 10) /* read at once */

/* A folder that is being read: its names in order, and where we are. */
struct names {
    struct buf text;  /* terminated names, one after another */
    const char **all; /* sorted */
    size_t n, next;
    struct arena arena;     /* of .ignore */
    struct exclude *ignore; /* what its .gitignore says, or NULL */
};

struct walk {
    const struct walk_req *req;
    tree_entry_fn *each;
    void *arg;
    struct dirs dirs;
    struct names *names; /* one for each level of dirs */
    size_t n, cap;
    struct buf path; /* of the entry that is looked at */
    char target[TREE_PATH_MAX + 1];
    char *chunk; /* for sums */
    uint64_t seen;
};

/* ---- folders -------------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

struct collect {
    struct names *to;
    bool ignore_file;
};

static bool add_name(void *arg, const char *name)
{
    struct collect *c = arg;
    if (str_starts(str_from(name), S(TREE_TEMP_PREFIX))) {
        return true;
    }
    c->ignore_file = c->ignore_file || strcmp(name, IGNORE_FILE) == 0;
    buf_add(&c->to->text, (struct str){name, strlen(name) + 1});
    c->to->n++;
    return !c->to->text.cut;
}

static void sort_names(struct names *names)
{
    const char *p = names->text.p;
    if (names->n == 0) {
        return;
    }
    names->all = xcalloc(names->n, sizeof *names->all);
    for (size_t i = 0; i < names->n; i++) {
        names->all[i] = p;
        p += strlen(p) + 1;
    }
    qsort(names->all, names->n, sizeof *names->all, by_bytes);
}

/* False: it is no file, too long or cannot be read. */
static bool read_text(int dir, const char *name, struct buf *to)
{
    int fd own_fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat is;
    if (fd < 0 || fstat(fd, &is) < 0 || !S_ISREG(is.st_mode)) {
        return false;
    }
    for (;;) {
        char *room = buf_room(to, 4096);
        struct err ignored;
        ssize_t n = room != NULL ? fd_read(fd, room, 4096, &ignored) : -1;
        if (n <= 0) {
            return n == 0;
        }
        to->len += (size_t)n;
    }
}

/* A list that cannot be read says nothing: so with git. */
static void read_ignore(struct names *names, int dir, struct str base)
{
    struct buf lines own_buf = {0};
    struct err ignored;
    buf_init(&lines, IGNORE_MAX);
    if (read_text(dir, IGNORE_FILE, &lines)) {
        names->ignore = exclude_new(&names->arena, EXCLUDE_GIT);
        (void)!exclude_add_text(names->ignore, base, buf_str(&lines), &ignored);
    }
}

static void leave(struct walk *w)
{
    struct names *top = &w->names[--w->n];
    buf_fini(&top->text);
    free(top->all);
    arena_fini(&top->arena);
}

/* Reads the names of the folder that dirs is in. -1 with errno. */
static int enter(struct walk *w)
{
    if (w->n == w->cap) {
        w->cap = w->cap > 0 ? w->cap * 2 : 16;
        w->names = xrealloc(w->names, w->cap, sizeof *w->names);
    }
    struct names *top = &w->names[w->n++];
    struct collect c = {.to = top};
    int fd = dirs_fd(&w->dirs);
    *top = (struct names){0};
    buf_init(&top->text, SIZE_MAX / 2);
    arena_init(&top->arena, 1u << 30);
    if (fd < 0 || dirs_each_name(fd, add_name, &c) < 0) {
        int why = errno;
        leave(w);
        errno = why;
        return -1;
    }
    sort_names(top);
    if (w->req->gitignore && c.ignore_file) {
        read_ignore(top, fd, dirs_path(&w->dirs));
    }
    return 0;
}

/* ---- entries --------------------------------------------------------------------- */

static bool left_out(const struct walk *w, struct str path, bool is_dir)
{
    enum exclude_answer said = EXCLUDE_UNSAID;
    if (w->req->exclude != NULL) {
        said = exclude_ask(w->req->exclude, path, is_dir);
    }
    for (size_t i = w->n; i-- > 0 && said == EXCLUDE_UNSAID;) {
        if (w->names[i].ignore != NULL) {
            said = exclude_ask(w->names[i].ignore, path, is_dir);
        }
    }
    return said == EXCLUDE_OUT;
}

/* What is gone, or is something else by now, was never there. */
static int not_read(const struct walk *w, struct str path, int errnum, struct err *e)
{
    if (errnum == ENOENT || errnum == ENOTDIR || errnum == ELOOP || w->req->unreadable == NULL) {
        return 0;
    }
    return w->req->unreadable(w->req->arg, path, errnum, e);
}

static int emit(struct walk *w, const struct tree_entry *entry, struct err *e)
{
    w->seen++;
    if (w->req->max_entries > 0 && w->seen > w->req->max_entries) {
        return err_set(e, ERR_LIMIT,
                       "the folder holds more than %llu files and folders; choose a smaller one, "
                       "or leave some out by excludes",
                       (unsigned long long)w->req->max_entries);
    }
    return w->each(w->arg, entry, e);
}

static int tick(const struct walk *w, struct err *e)
{
    return w->req->tick != NULL ? w->req->tick(w->req->arg, e) : 0;
}

/* 1: summed; 0: told as unreadable; -1. */
static int sum_file(struct walk *w, int fd, struct tree_entry *entry, struct err *e)
{
    struct sha256 hash;
    uint64_t size = 0;
    if (w->chunk == NULL) {
        w->chunk = xmalloc(SUM_CHUNK);
    }
    sha256_init(&hash);
    for (;;) {
        ssize_t n = pread(fd, w->chunk, SUM_CHUNK, (off_t)size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return not_read(w, entry->path, errno, e);
        }
        if (n == 0) {
            break;
        }
        sha256_add(&hash, (struct str){w->chunk, (size_t)n});
        size += (uint64_t)n;
        if (tick(w, e) < 0) {
            return -1;
        }
    }
    sha256_end(&hash, entry->sum);
    entry->has_sum = true;
    entry->size = size;
    return 1;
}

static int open_file(int dir, const char *name, struct tree_entry *entry)
{
    int fd own_fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct str path = entry->path;
    struct stat is;
    if (fd < 0 || fstat(fd, &is) < 0) {
        return -1;
    }
    tree_entry_from(entry, &is);
    entry->path = path;
    return take_fd(&fd);
}

static int visit_file(struct walk *w, int dir, const char *name, struct tree_entry *entry,
                      struct err *e)
{
    if (w->req->sums) {
        int fd own_fd = open_file(dir, name, entry);
        if (fd < 0) {
            return not_read(w, entry->path, errno, e);
        }
        if (entry->type == TREE_FILE) {
            int summed = sum_file(w, fd, entry, e);
            if (summed <= 0) {
                return summed;
            }
        }
    }
    return emit(w, entry, e);
}

static int visit_link(struct walk *w, int dir, const char *name, struct tree_entry *entry,
                      struct err *e)
{
    ssize_t n = readlinkat(dir, name, w->target, sizeof w->target);
    if (n < 0) {
        return errno == EINVAL ? 0 : not_read(w, entry->path, errno, e);
    }
    if (n > TREE_PATH_MAX) {
        return not_read(w, entry->path, ENAMETOOLONG, e);
    }
    entry->target = (struct str){w->target, (size_t)n};
    return emit(w, entry, e);
}

static int visit_dir(struct walk *w, const char *name, struct tree_entry *entry, struct err *e)
{
    if (dirs_enter(&w->dirs, str_from(name)) < 0) {
        return not_read(w, entry->path, errno, e);
    }
    if (enter(w) < 0) {
        int why = errno;
        dirs_leave(&w->dirs);
        return not_read(w, entry->path, why, e);
    }
    return emit(w, entry, e);
}

static void set_path(struct walk *w, const char *name)
{
    buf_clear(&w->path);
    buf_add(&w->path, dirs_path(&w->dirs));
    if (w->path.len > 0) {
        buf_addc(&w->path, '/');
    }
    buf_add(&w->path, str_from(name));
}

static int visit(struct walk *w, const char *name, struct err *e)
{
    struct tree_entry entry;
    struct stat is;
    int dir = dirs_fd(&w->dirs);
    set_path(w, name);
    struct str path = buf_str(&w->path);
    if (dir < 0 || fstatat(dir, name, &is, AT_SYMLINK_NOFOLLOW) < 0) {
        return not_read(w, path, errno, e);
    }
    if (path.len > TREE_PATH_MAX) {
        return not_read(w, str_head(path, TREE_PATH_MAX), ENAMETOOLONG, e);
    }
    tree_entry_from(&entry, &is);
    entry.path = path;
    if (left_out(w, path, entry.type == TREE_DIR)) {
        if (w->req->excluded != NULL) {
            w->req->excluded(w->req->arg, path, entry.type == TREE_DIR);
        }
        return 0;
    }
    switch (entry.type) {
    case TREE_DIR: return visit_dir(w, name, &entry, e);
    case TREE_FILE: return visit_file(w, dir, name, &entry, e);
    case TREE_LINK: return visit_link(w, dir, name, &entry, e);
    case TREE_OTHER: break;
    }
    return emit(w, &entry, e);
}

static int visit_root(struct walk *w, struct err *e)
{
    struct tree_entry entry;
    struct stat is;
    if (fstat(w->req->root_fd, &is) < 0) {
        return err_sys(e, errno, "look at the folder");
    }
    tree_entry_from(&entry, &is);
    if (entry.type == TREE_DIR && enter(w) < 0) {
        return err_sys(e, errno, "list the folder");
    }
    if (entry.type == TREE_FILE && w->req->sums) {
        int summed = sum_file(w, w->req->root_fd, &entry, e);
        if (summed <= 0) {
            return summed;
        }
    }
    return emit(w, &entry, e);
}

static int visit_all(struct walk *w, struct err *e)
{
    if (visit_root(w, e) < 0) {
        return -1;
    }
    while (w->n > 0) {
        struct names *top = &w->names[w->n - 1];
        if (top->next == top->n) {
            leave(w);
            dirs_leave(&w->dirs);
            continue;
        }
        if (tick(w, e) < 0 || visit(w, top->all[top->next++], e) < 0) {
            return -1;
        }
    }
    return 0;
}

int tree_walk(const struct walk_req *req, tree_entry_fn *each, void *arg, struct err *e)
{
    struct walk *w own_mem = xcalloc(1, sizeof *w);
    w->req = req;
    w->each = each;
    w->arg = arg;
    dirs_init(&w->dirs, req->root_fd);
    buf_init(&w->path, TREE_PATH_MAX + 1 + DIRS_NAME);
    int rc = visit_all(w, e);
    while (w->n > 0) {
        leave(w);
    }
    dirs_fini(&w->dirs);
    buf_fini(&w->path);
    free(w->names);
    free(w->chunk);
    return rc;
}
