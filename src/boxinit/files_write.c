/*
 * files_write.c - replacing a file as a whole.
 *
 * The bytes go into a file without a name (O_TMPFILE), which gets one only when all of
 * them are there: a client that goes away, or a worker that is killed, leaves nothing.
 * A link is written through, as an editor that opens the path would do.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/own.h"
#include "base/path.h"
#include "boxinit/command.h"
#include "boxinit/files.h"

#define LINKS_MAX 40
#define MODE_NEW  0644

/* Where the file is to be, and what is there now. */
struct target {
    const char *path;
    const char *folder;
    bool exists;
    struct stat old;
};

/* The path behind the links that the last part of `path` may be. NULL: too many. */
static const char *behind_links(struct arena *a, const char *path, struct stat *is, bool *exists)
{
    for (int i = 0; i < LINKS_MAX; i++) {
        char to[PATH_MAX_BYTES];
        ssize_t n;

        *exists = lstat(path, is) == 0;
        if (!*exists || !S_ISLNK(is->st_mode)) {
            return path;
        }
        n = readlink(path, to, sizeof(to));
        if (n <= 0 || (size_t)n == sizeof(to)) {
            return NULL;
        }
        path = arena_cstr(a, path_join(a, path_dir(str_from(path)), (struct str){to, (size_t)n}));
    }
    return NULL;
}

static int check_old(struct worker *w, const struct request *r, const struct target *t,
                     struct err *e)
{
    if (!t->exists) {
        return 0;
    }
    if (S_ISDIR(t->old.st_mode)) {
        return err_set(e, ERR_INVALID, "\"%.*s\" is a folder; name a file in it", STR_ARG(r->path));
    }
    if (r->flags & WRITE_NEW) {
        return worker_fail(w, EEXIST, r->path, "write", e);
    }
    if (!S_ISREG(t->old.st_mode)) {
        return err_set(e, ERR_INVALID,
                       "\"%.*s\" is not a regular file but a pipe, socket or device",
                       STR_ARG(r->path));
    }
    if (access(t->path, W_OK) < 0) {
        return worker_fail(w, errno, r->path, "write", e);
    }
    return 0;
}

static int find_target(struct worker *w, const struct request *r, struct target *t, struct err *e)
{
    const char *path = command_path(w->spec, &w->arena, r->path);

    if (str_ends(r->path, S("/"))) {
        return err_set(e, ERR_INVALID, "\"%.*s\" names a folder; name a file in it",
                       STR_ARG(r->path));
    }
    t->path = behind_links(&w->arena, path, &t->old, &t->exists);
    if (t->path == NULL) {
        return worker_fail(w, ELOOP, r->path, "write", e);
    }
    t->folder = arena_cstr(&w->arena, path_dir(str_from(t->path)));
    if ((r->flags & WRITE_PARENTS) && fd_mkdirs(t->folder, 0755, e) < 0) {
        return e->sys != 0 ? worker_fail(w, e->sys, r->path, "make the folders of", e) : -1;
    }
    return check_old(w, r, t, e);
}

static int copy_old(struct worker *w, const struct request *r, const struct target *t, int to,
                    struct err *e)
{
    int from own_fd = open(t->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (from < 0) {
        return worker_fail(w, errno, r->path, "append to", e);
    }
    while (true) {
        ssize_t n = sendfile(to, from, NULL, 1u << 30);

        if (n < 0) {
            return worker_fail(w, errno, r->path, "append to", e);
        }
        if (n == 0) {
            return 0;
        }
    }
}

/* The chunks up to the empty one. After a failed write they are still taken, so that the
 * client hears why instead of a closed connection. */
static int take_chunks(struct worker *w, const struct request *r, int to, int why, struct err *e)
{
    while (true) {
        struct frame frame;
        struct request chunk;
        struct err ignored;

        if (worker_next(w, &frame, e) < 0 || request_parse(frame, &w->arena, &chunk, e) < 0) {
            return -1;
        }
        if (chunk.type != FRAME_CHUNK) {
            return err_set(e, ERR_PROTOCOL, "request %u in the middle of a file", chunk.type);
        }
        if (chunk.bytes.len == 0) {
            break;
        }
        if (why == 0 && fd_write_all(to, chunk.bytes, &ignored) < 0) {
            why = ignored.sys != 0 ? ignored.sys : EIO;
        }
    }
    return why != 0 ? worker_fail(w, why, r->path, "write", e) : 0;
}

/* The new file before it has the name that it is to have. */
struct spool {
    int fd;
    char part[PATH_MAX_BYTES + 64]; /* its name until then; "": it has none */
};

static void spool_fini(struct spool *s)
{
    if (s->fd >= 0) {
        (void)close(s->fd);
    }
    if (s->part[0] != '\0') {
        (void)unlink(s->part);
    }
}

static void name_part(const struct target *t, char part[PATH_MAX_BYTES + 64])
{
    char random[17];

    id_hex(random, 8);
    (void)snprintf(part, PATH_MAX_BYTES + 64, "%s/.anybox-%s.part", t->folder, random);
}

/* 0, or the errno. Overlays know files without a name since Linux 6.3. */
static int open_spool(const struct target *t, struct spool *s)
{
    s->fd = open(t->folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (s->fd >= 0 || errno != EOPNOTSUPP) {
        return s->fd >= 0 ? 0 : errno;
    }
    name_part(t, s->part);
    s->fd = open(s->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (s->fd < 0) {
        s->part[0] = '\0';
        return errno;
    }
    return 0;
}

static int rename_part(struct spool *s, const struct target *t, bool new_only)
{
    if (new_only) {
        return link(s->part, t->path) == 0 ? 0 : errno;
    }
    if (rename(s->part, t->path) < 0) {
        return errno;
    }
    s->part[0] = '\0';
    return 0;
}

/* Gives the file its name. 0, or the errno. */
static int give_name(struct spool *s, const struct target *t, bool new_only)
{
    char proc[64];

    if (s->part[0] != '\0') {
        return rename_part(s, t, new_only);
    }
    (void)snprintf(proc, sizeof(proc), "/proc/self/fd/%d", s->fd);
    if (!t->exists) {
        if (linkat(AT_FDCWD, proc, AT_FDCWD, t->path, AT_SYMLINK_FOLLOW) == 0) {
            return 0;
        }
        if (errno != EEXIST || new_only) {
            return errno;
        }
    }
    /* A name cannot be replaced by a link: by way of another one, then. */
    name_part(t, s->part);
    if (linkat(AT_FDCWD, proc, AT_FDCWD, s->part, AT_SYMLINK_FOLLOW) < 0) {
        s->part[0] = '\0';
        return errno;
    }
    return rename_part(s, t, false);
}

/* Says no, after the chunks that the client has sent without waiting. */
static int refuse(struct worker *w, const struct request *r, struct err *e)
{
    struct err why = *e;
    struct err gone;

    if (take_chunks(w, r, -1, EINVAL, &gone) < 0 &&
        (gone.kind == ERR_CANCELLED || gone.kind == ERR_PROTOCOL)) {
        *e = gone;
        return -1;
    }
    *e = why;
    return -1;
}

int files_write(struct worker *w, const struct request *r, struct err *e)
{
    struct target t = {.path = "", .folder = ""};
    mode_t mode = MODE_NEW;
    struct stat is;
    int why;

    if (find_target(w, r, &t, e) < 0) {
        return refuse(w, r, e);
    }
    if (r->mode != 0) {
        mode = r->mode & 07777;
    } else if (t.exists) {
        mode = t.old.st_mode & 07777;
    }
    struct spool s CLEANUP(spool_fini) = {.fd = -1};
    why = open_spool(&t, &s);
    if (why != 0) {
        (void)worker_fail(w, why, r->path, "write", e);
        return refuse(w, r, e);
    }
    if ((r->flags & WRITE_APPEND) && t.exists && copy_old(w, r, &t, s.fd, e) < 0) {
        return refuse(w, r, e);
    }
    if (take_chunks(w, r, s.fd, 0, e) < 0) {
        return -1;
    }
    if (fchmod(s.fd, mode) < 0) {
        return worker_fail(w, errno, r->path, "set the mode of", e);
    }
    why = give_name(&s, &t, (r->flags & WRITE_NEW) != 0);
    if (why != 0) {
        return worker_fail(w, why, r->path, "write", e);
    }
    if (fstat(s.fd, &is) < 0) {
        return worker_fail(w, errno, r->path, "look at", e);
    }
    worker_put_entry(w, r->path, &is);
    return 0;
}
