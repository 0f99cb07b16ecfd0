/*
 * anybox cp: one file into a box or out of one.
 *
 * What leaves a box is only bytes: the local name comes from what the user typed, and
 * an existing file is replaced as a whole or not at all.
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
#include "cli.h"

#define FILE_MAX_BYTES (1ll << 40)

struct place {
    struct str box; /* empty: on this machine */
    struct str path;
};

/* "BOX:path"; a local path with a colon in its first part is written "./a:b". */
static struct place read_place(struct str s)
{
    struct str path;
    struct str box = str_cut(s, ':', &path);

    if (box.len == 0 || !path.p || str_has(box, '/')) {
        return (struct place){.path = s};
    }
    return (struct place){.box = box, .path = path};
}

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

static int folders_come_later(struct err *e, struct str path)
{
    return err_set(e, ERR_UNSUPPORTED,
                   "'%.*s' is a folder; cp copies single files, folders come with `" PROGRAM
                   " sync` in a later version. Until then pack it: tar -c folder | " PROGRAM
                   " exec BOX tar -x",
                   STR_ARG(path));
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

static int copy_in(struct session *s, struct str from, const struct place *to, struct err *e)
{
    struct stat st;
    struct file_info written;
    struct str path;

    int fd own_fd = open(arena_cstr(&s->arena, from), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return err_sys(e, errno, "open '%.*s'", STR_ARG(from));
    }
    if (S_ISDIR(st.st_mode)) {
        return folders_come_later(e, from);
    }
    struct box *box CLEANUP(box_unref_p) = cli_find(s, to->box, e);
    if (!box || target_in_box(s, box, from, to->path, &path, e) < 0) {
        return -1;
    }
    const struct source source = {read_local, &fd, S_ISREG(st.st_mode) ? -1 : fd};
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

static int copy_out(struct session *s, const struct place *from, struct str to, struct err *e)
{
    struct file_info info;
    struct str target;
    char suffix[17];

    struct box *box CLEANUP(box_unref_p) = cli_find(s, from->box, e);
    if (!box || box_file_stat(box, &s->ctx, from->path, &info, e) < 0) {
        return -1;
    }
    if (info.type == FILE_DIR) {
        return folders_come_later(e, from->path);
    }
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

int cmd_cp(struct cli *cli, int argc, char **argv)
{
    int status = EXIT_SUCCESS;
    struct err e;

    int at = cli_options(cli, NULL, 0, argc, argv, &status);
    if (at < 0) {
        return status;
    }
    if (argc - at != 2) {
        return cli_misused(cli, "it takes a source and a target, one of them as BOX:PATH");
    }
    const struct place from = read_place(str_from(argv[at]));
    const struct place to = read_place(str_from(argv[at + 1]));
    if ((from.box.len > 0) == (to.box.len > 0)) {
        return cli_misused(cli, "exactly one of source and target is BOX:PATH; a local name with "
                                "a colon is written ./a:b");
    }
    struct session session own_session = {0};
    if (session_open(&session, cli, STR_EMPTY, &e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    int done = from.box.len > 0 ? copy_out(&session, &from, to.path, &e)
                                : copy_in(&session, from.path, &to, &e);
    return done < 0 ? cli_fail(cli, EXIT_FAILURE, "%s", e.msg) : EXIT_SUCCESS;
}
