/*
 * worker.c - a worker: one forked process for one connection's file requests, or for one
 * connection to a port.
 *
 * It has the payload's uid, no capability, the filter and the box's mounts, and nothing
 * of PID 1's but the connection. So it can do what code in the box could do, and a path
 * needs no checking. It blocks; whoever is silent for too long is left.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "boxinit/box.h"
#include "boxinit/files.h"
#include "boxinit/ids.h"
#include "boxinit/limits.h"

#define SILENCE_S 600
#define READ_SIZE (256u << 10)
#define ARENA_MAX (64u << 20)

int worker_next(struct worker *w, struct frame *out, struct err *e)
{
    buf_drop(w->in, w->used);
    w->used = 0;
    while (true) {
        ssize_t n = wire_parse(buf_str(w->in), out, e);
        size_t size;
        char *room;

        if (n < 0) {
            return -1;
        }
        if (n > 0) {
            w->used = (size_t)n;
            atomic_store(w->used_ms, clock_mono_ms());
            return 0;
        }
        size = w->in->max - w->in->len < READ_SIZE ? w->in->max - w->in->len : READ_SIZE;
        room = size > 0 ? buf_room(w->in, size) : NULL;
        if (room == NULL) {
            return err_set(e, ERR_PROTOCOL, "a frame is too long");
        }
        n = fd_read(w->fd, room, size, e);
        if (n < 0) {
            return -1;
        }
        if (n == 0) {
            return err_set(e, ERR_CANCELLED, "the client is gone");
        }
        w->in->len += (size_t)n;
    }
}

int worker_flush(struct worker *w, struct err *e)
{
    size_t sent = 0;

    while (sent < w->out.len) {
        ssize_t n = send(w->fd, w->out.p + sent, w->out.len - sent, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            buf_clear(&w->out);
            return err_sys(e, errno, "send");
        }
        sent += (size_t)n;
    }
    buf_clear(&w->out);
    w->said_ms = clock_mono_ms();
    return 0;
}

static uint8_t entry_type(mode_t mode)
{
    if (S_ISREG(mode)) {
        return ENTRY_FILE;
    }
    if (S_ISDIR(mode)) {
        return ENTRY_DIR;
    }
    return S_ISLNK(mode) ? ENTRY_LINK : ENTRY_OTHER;
}

void worker_put_entry(struct worker *w, struct str path, const struct stat *is)
{
    struct wire_out o = wire_begin(&w->out, FRAME_ENTRY);

    wire_str(&o, path);
    wire_u8(&o, entry_type(is->st_mode));
    wire_u32(&o, is->st_mode & 07777);
    wire_u64(&o, (uint64_t)is->st_size);
    wire_u64(&o, (uint64_t)is->st_mtim.tv_sec);
    (void)!wire_end(&o); /* paths are bounded and the buffer is flushed early */
}

void worker_put_ok(struct worker *w, uint8_t more)
{
    struct wire_out o = wire_begin(&w->out, FRAME_OK);

    wire_u8(&o, more);
    (void)!wire_end(&o);
}

/* Which places of a box are the payload's own; on a host that is nobody's to say. */
static const char *own_places(const struct worker *w)
{
    return w->spec->is_plain ? "" : "; " BOX_WORK_DIR ", " BOX_HOME " and /tmp are its own";
}

static int no_space(const struct worker *w, struct str path, const char *doing, struct err *e)
{
    if (w->spec->is_plain) {
        return err_set(e, ERR_LIMIT, "%s \"%.*s\": no space left there; remove something", doing,
                       STR_ARG(path));
    }
    return err_set(e, ERR_LIMIT,
                   "%s \"%.*s\": no space left in the sandbox (disk limit %llu MiB); remove "
                   "something, or make a sandbox with more disk",
                   doing, STR_ARG(path), (unsigned long long)(w->spec->disk_bytes >> 20));
}

int worker_fail(const struct worker *w, int errnum, struct str path, const char *doing,
                struct err *e)
{
    int rc;

    path = str_head(path, 300);
    switch (errnum) {
    case ENOENT:
        rc = err_set(e, ERR_NOT_FOUND, "\"%.*s\" does not exist in the sandbox", STR_ARG(path));
        break;
    case ENOTDIR:
        rc = err_set(e, ERR_INVALID, "\"%.*s\": a part of it is not a folder", STR_ARG(path));
        break;
    case EISDIR: rc = err_set(e, ERR_INVALID, "\"%.*s\" is a folder", STR_ARG(path)); break;
    case EACCES:
    case EPERM:
        rc = err_set(e, ERR_DENIED, "%s \"%.*s\": the sandbox's user may not%s", doing,
                     STR_ARG(path), own_places(w));
        break;
    case EROFS:
        rc = err_set(e, ERR_DENIED, "\"%.*s\" is in a read-only part of the sandbox%s",
                     STR_ARG(path), own_places(w));
        break;
    case ENOSPC:
    case EDQUOT: rc = no_space(w, path, doing, e); break;
    case EEXIST:
        rc = err_set(e, ERR_EXISTS, "\"%.*s\" exists already in the sandbox", STR_ARG(path));
        break;
    case ELOOP: rc = err_set(e, ERR_INVALID, "\"%.*s\": too many links", STR_ARG(path)); break;
    case ENAMETOOLONG:
        rc = err_set(e, ERR_INVALID, "\"%.*s\": a name in it is too long", STR_ARG(path));
        break;
    default: rc = err_sys(e, errnum, "%s \"%.*s\"", doing, STR_ARG(path)); break;
    }
    e->sys = errnum;
    return rc;
}

static int answer(struct worker *w, const struct request *r, struct err *e)
{
    switch (r->type) {
    case FRAME_STAT: return files_stat(w, r, e);
    case FRAME_LIST: return files_list(w, r, e);
    case FRAME_READ: return files_read(w, r, e);
    case FRAME_WRITE: return files_write(w, r, e);
    case FRAME_MKDIR: return files_mkdir(w, r, e);
    case FRAME_REMOVE: return files_remove(w, r, e);
    case FRAME_TREE_LIST: return trees_list(w, r, e);
    case FRAME_TREE_GET: return trees_get(w, r, e);
    case FRAME_TREE_PUT: return trees_put(w, r, e);
    case FRAME_TREE_PRUNE: return trees_prune(w, r, e);
    case FRAME_TREE_PART_PUT: return trees_part_put(w, r, e);
    case FRAME_TREE_PART_GET: return trees_part_get(w, r, e);
    default:
        return err_set(e, ERR_PROTOCOL, "request %u on a connection for file requests", r->type);
    }
}

/* One request. False: the conversation is over. */
static bool serve_one(struct worker *w)
{
    struct frame frame;
    struct request r;
    struct err e;
    bool go_on = true;
    int rc;

    arena_fini(&w->arena);
    if (worker_next(w, &frame, &e) < 0) {
        if (e.kind == ERR_PROTOCOL) {
            box_put_fail(&w->out, &e);
            (void)!worker_flush(w, &e);
        }
        return false;
    }
    rc = request_parse(frame, &w->arena, &r, &e);
    if (rc == 0) {
        r.path = arena_str(&w->arena, r.path); /* more frames may follow into the buffer */
        r.name = arena_str(&w->arena, r.name);
        r.temp = arena_str(&w->arena, r.temp);
        rc = answer(w, &r, &e);
    }
    if (rc < 0) {
        box_put_fail(&w->out, &e);
        go_on = e.kind != ERR_PROTOCOL && e.kind != ERR_CANCELLED;
    }
    return worker_flush(w, &e) == 0 && go_on;
}

static bool take_over(const struct spec *spec, int fd)
{
    struct timeval silence = {.tv_sec = SILENCE_S};
    sigset_t none;
    struct err e;

    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    /* dup2 to a low one, then everything above goes. */
    if (dup2(fd, 3) < 0 || close_range(4, ~0u, 0) < 0 || limits_apply(spec) != 0 ||
        ids_become_payload(spec) != 0) {
        return false;
    }
    (void)setsid();
    return fd_set_nonblock(3, false, &e) == 0 &&
           setsockopt(3, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof(silence)) == 0 &&
           setsockopt(3, SOL_SOCKET, SO_SNDTIMEO, &silence, sizeof(silence)) == 0;
}

void worker_serve(struct worker *w)
{
    while (serve_one(w)) {
    }
}

void worker_run(const struct spec *spec, int fd, struct buf *in, _Atomic int64_t *used_ms,
                bool is_dial)
{
    struct worker w = {.spec = spec, .fd = 3, .in = in, .used_ms = used_ms};

    if (!take_over(spec, fd)) {
        _exit(1);
    }
    buf_init(&w.out, OUT_MAX);
    arena_init(&w.arena, ARENA_MAX);
    if (is_dial) {
        dial_serve(&w);
        _exit(0);
    }
    worker_serve(&w);
    _exit(0);
}
