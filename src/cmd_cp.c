/*
 * anybox cp: a file or a folder into a box or out of one.
 *
 * Of a file only bytes leave a box: the local name comes from what the user typed, and an
 * existing file is replaced as a whole or not at all. A folder is a sync of all that is in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/own.h"
#include "base/path.h"
#include "cli_sync.h"

#define FILE_MAX_BYTES (1ll << 40)

/* The last part of a path, where it names a file. */
static int file_name(struct str path, struct str *out, struct err *e)
{
    struct str name = path_base(path);

    if (name.len == 0 || str_eq(name, S(".")) || str_eq(name, S("..")) || str_eq(name, S("/"))) {
        return err_set(e, ERR_INVALID, "'%.*s' does not name a file", STR_ARG(path));
    }
    *out = name;
    return 0;
}

/* ---- into a box --------------------------------------------------------- */

static ssize_t read_local(void *arg, char *to, size_t cap, struct err *e)
{
    return fd_read(*(const int *)arg, to, cap, e);
}

/* Where it goes: into the folder when the path names one, else to that very path. */
static int target_in_box(struct session *s, struct box *box, struct str local, struct str path,
                         struct str *out, struct err *e)
{
    struct file_info info;
    struct str name = STR_EMPTY;
    struct err missing;

    *out = path;
    bool is_folder = path.len == 0 || str_ends(path, S("/"));
    if (!is_folder && box_file_stat(box, &s->ctx, path, &info, &missing) == 0) {
        is_folder = info.type == FILE_DIR;
    }
    if (!is_folder) {
        return 0;
    }
    if (file_name(local, &name, e) < 0) {
        return -1;
    }
    *out = path_join(&s->arena, path, name);
    return 0;
}

static int copy_in(struct session *s, struct box *box, struct str from, const struct place *to,
                   struct err *e)
{
    struct stat st;
    struct file_info written;
    struct str path;

    int fd own_fd = open(arena_cstr(&s->arena, from), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return err_sys(e, errno, "open '%.*s'", STR_ARG(from));
    }
    if (target_in_box(s, box, from, to->path, &path, e) < 0) {
        return -1;
    }
    bool is_file = S_ISREG(st.st_mode);
    const struct source source = {
        .read = read_local, .arg = &fd, .fd = is_file ? -1 : fd, .size = is_file ? st.st_size : 0};
    return box_file_write(box, &s->ctx, path, st.st_mode & 0777, FILE_PARENTS, &source, &written,
                          e);
}

/* ---- out of a box ------------------------------------------------------- */

static int write_local(void *arg, enum stream from, struct str bytes, struct err *e)
{
    (void)from;
    return fd_write_all(*(const int *)arg, bytes, e);
}

static int target_here(struct session *s, struct str remote, struct str path, struct str *out,
                       struct err *e)
{
    struct stat st;
    struct str name = STR_EMPTY;

    *out = path;
    bool is_folder = str_ends(path, S("/"));
    if (stat(arena_cstr(&s->arena, path), &st) == 0) {
        is_folder = S_ISDIR(st.st_mode);
    }
    if (!is_folder) {
        return 0;
    }
    if (file_name(remote, &name, e) < 0) {
        return -1;
    }
    *out = path_join(&s->arena, path, name);
    return 0;
}

static int fetch(struct session *s, struct box *box, struct str remote, const char *temporary,
                 const char *target, struct err *e)
{
    struct file_info info;

    int fd own_fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return err_sys(e, errno, "create '%s'", target);
    }
    const struct sink sink = {write_local, NULL, &fd};
    if (box_file_read(box, &s->ctx, remote, 0, FILE_MAX_BYTES, &sink, &info, e) < 0) {
        return -1;
    }
    /* Never set-user-id or the like: the box chose these bits. */
    if (fchmod(fd, info.mode & 0777) < 0 || rename(temporary, target) < 0) {
        return err_sys(e, errno, "write '%s'", target);
    }
    return 0;
}

static int copy_out(struct session *s, struct box *box, const struct place *from, struct str to,
                    struct err *e)
{
    struct str target;
    char suffix[17];

    if (target_here(s, from->path, to, &target, e) < 0) {
        return -1;
    }
    id_hex(suffix, 8);
    struct str temporary = arena_printf(&s->arena, "%.*s.anybox-%s", STR_ARG(target), suffix);
    if (fetch(s, box, from->path, temporary.p, arena_cstr(&s->arena, target), e) < 0) {
        (void)unlink(temporary.p);
        return -1;
    }
    return 0;
}

/* ---- folders -------------------------------------------------------------- */

/* Into a folder that is there it goes under its own name, as with cp -r. One without a name of its own
 * (".", "~") goes into it as it is. */
static struct str below(struct session *s, struct str folder, struct str name)
{
    if (str_eq(name, S(".")) || str_eq(name, S("..")) || str_eq(name, S("/")) ||
        str_eq(name, S("~")) || name.len == 0) {
        return folder;
    }
    return path_join(&s->arena, folder, name);
}

static bool is_folder_here(struct session *s, struct str path)
{
    struct stat st;

    return stat(arena_cstr(&s->arena, path), &st) == 0 && S_ISDIR(st.st_mode);
}

static bool is_folder_there(struct session *s, struct box *box, struct str path)
{
    struct file_info info;
    struct err ignored;

    return box_file_stat(box, &s->ctx, path, &info, &ignored) == 0 && info.type == FILE_DIR;
}

/* Everything that is in it, also what a sync leaves out by itself. */
static int copy_folder(const struct cli *cli, struct session *s, struct box *box,
                       const struct place *from, const struct place *to)
{
    static const struct str all[] = {{"!*", 2}};
    bool up = to->box.len > 0;
    struct sync_job job = {
        .direction = up ? SYNC_UP : SYNC_DOWN, .excludes = all, .n_excludes = COUNTOF(all)};
    struct str here = up ? from->path : to->path;
    struct str there = up ? to->path : from->path;
    struct err e;

    there = there.len > 0 ? there : S(".");
    if (up && (str_ends(there, S("/")) || is_folder_there(s, box, there))) {
        there = below(s, there, path_base(here));
    }
    if (!up && (str_ends(here, S("/")) || is_folder_here(s, here))) {
        here = below(s, here, path_base(there));
    }
    job.remote = there;
    if (cli_local(s, here, &job.local, &e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    return cli_sync(cli, s, box, &job, false);
}

static int copy(const struct cli *cli, struct session *s, const struct place *from,
                const struct place *to)
{
    bool up = to->box.len > 0;
    struct err e;
    int done;
    struct box *box CLEANUP(box_unref_p) = cli_find(s, up ? to->box : from->box, &e);

    if (!box) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    if (up ? is_folder_here(s, from->path)
           : is_folder_there(s, box, from->path.len > 0 ? from->path : S("."))) {
        return copy_folder(cli, s, box, from, to);
    }
    done = up ? copy_in(s, box, from->path, to, &e) : copy_out(s, box, from, to->path, &e);
    return done < 0 ? cli_fail(cli, EXIT_FAILURE, "%s", e.msg) : EXIT_SUCCESS;
}

int cmd_cp(struct cli *cli, int argc, char **argv)
{
    int status = EXIT_SUCCESS;
    struct place from;
    struct place to;
    struct err e;

    int at = cli_options(cli, NULL, 0, argc, argv, &status);
    if (at < 0) {
        return status;
    }
    if (argc - at != 2) {
        return cli_misused(cli, "it takes a source and a target, one of them as BOX:PATH");
    }
    status = cli_places(cli, (const char *const[]){argv[at], argv[at + 1]}, &from, &to);
    if (status != EXIT_SUCCESS) {
        return status;
    }
    struct session session own_session = {0};
    if (session_open(&session, cli, STR_EMPTY, &e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    return copy(cli, &session, &from, &to);
}
