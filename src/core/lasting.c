#include "core/lasting.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "base/proc.h"
#include "base/sha256.h"
#include "core/forward.h"
#include "core/transfer.h"
#include "core/worker.h"

#define START_MS  20000
#define LOOK_MS   60000 /* between two looks whether something listens */
#define NAME_LEN  32
#define PORT_TEXT 16

/* ---- the file that says where it is ------------------------------------------------------- */

/* Owners and ids are no file names; their hash is. */
static struct str file_of(const struct services *s, struct arena *a, const struct lasting *what)
{
    unsigned char hash[SHA256_SIZE];
    char hex[SHA256_HEX_SIZE];
    struct sha256 h;

    sha256_init(&h);
    sha256_add(&h, what->owner);
    sha256_add(&h, (struct str){"", 1});
    sha256_add(&h, what->box_id);
    sha256_end(&h, hash);
    return arena_printf(a, "%.*s/forwards/%.*s-%u", STR_ARG(s->config->state_dir), NAME_LEN,
                        sha256_hex(hash, hex), (unsigned)what->port);
}

static int open_file(const struct services *s, struct arena *a, const struct lasting *what,
                     struct err *e)
{
    struct str path = file_of(s, a, what);
    int fd;

    if (fd_mkdirs(arena_cstr(a, path_dir(path)), 0700, e) < 0) {
        return -1;
    }
    fd = open(arena_cstr(a, path), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? err_sys(e, errno, "open %.*s", STR_ARG(path)) : fd;
}

/* The port of who holds the file; 0: nobody does. */
static uint16_t held_port(int fd)
{
    char text[PORT_TEXT];
    struct err ignored;
    int64_t port = 0;
    ssize_t n;

    if (flock(fd, LOCK_SH | LOCK_NB) == 0) {
        (void)flock(fd, LOCK_UN);
        return 0;
    }
    n = pread(fd, text, sizeof(text), 0);
    if (n <= 0 || str_to_i64((struct str){text, (size_t)n}, 1, UINT16_MAX, &port, &ignored) < 0) {
        return 0;
    }
    return (uint16_t)port;
}

/* ---- who wants one ------------------------------------------------------------------------- */

/* What the new process says first: its port, or why not. */
static int hear(const struct ctx *ctx, int fd, uint16_t *local, struct err *e)
{
    const struct ctx shorter = {ctx->arena, ctx->cancel, clock_mono_ms() + START_MS};
    struct buf text own_buf = {0};
    int64_t port;

    buf_init(&text, 4096);
    while (!str_has(buf_str(&text), '\n')) {
        struct pollfd said = {.fd = fd, .events = POLLIN};
        char *room = buf_room(&text, 512);
        ssize_t n;

        if (room == NULL || ctx_wait(&shorter, &said, 1, 0, e) < 0) {
            return err_wrap(e, "start a process for the port");
        }
        n = read(fd, room, 512);
        if (n <= 0) {
            break;
        }
        text.len += (size_t)n;
    }
    if (str_to_i64(buf_str(&text), 1, UINT16_MAX, &port, e) < 0) {
        return err_set(e, ERR_UNREACHABLE, "the process for the port ended: %.*s",
                       STR_ARG(str_head(str_trim(buf_str(&text)), 300)));
    }
    *local = (uint16_t)port;
    return 0;
}

static int start(const struct services *s, const struct ctx *ctx, const struct lasting *what,
                 uint16_t *local, struct err *e)
{
    const char *const argv[] = {
        "anybox",      "forward-worker",
        "--owner",     arena_cstr(ctx->arena, what->owner),
        "--box",       arena_cstr(ctx->arena, what->box_id),
        "--port",      arena_printf(ctx->arena, "%u", (unsigned)what->port).p,
        "--config-fd", "3",
        NULL};
    int ends[2];
    pid_t pid = 0;
    int rc;

    if (pipe2(ends, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "make a pipe");
    }
    int ours own_fd = ends[0];
    int theirs own_fd = ends[1];
    const struct worker_order order = {
        .program = WORKER_PROGRAM, .argv = argv, .out_fd = theirs, .err_fd = theirs};

    rc = worker_spawn(s, ctx, &order, &pid, e);
    if (pid != 0) {
        transfers_adopt(s->transfers, pid);
    }
    (void)close(take_fd(&theirs));
    return rc < 0 ? -1 : hear(ctx, ours, local, e);
}

int lasting_open(const struct services *s, const struct ctx *ctx, const struct lasting *what,
                 uint16_t *local, struct err *e)
{
    int file own_fd = open_file(s, ctx->arena, what, e);

    if (file < 0) {
        return -1;
    }
    *local = held_port(file);
    return *local != 0 ? 0 : start(s, ctx, what, local, e);
}

/* ---- the process --------------------------------------------------------------------------- */

static int say_port(int file, int say_fd, uint16_t port, struct err *e)
{
    char text[PORT_TEXT];
    int n = snprintf(text, sizeof(text), "%u\n", (unsigned)port);
    struct str line = {text, (size_t)n};

    if (ftruncate(file, 0) < 0 || pwrite(file, text, line.len, 0) != n) {
        return err_sys(e, errno, "write down the port");
    }
    if (fd_write_all(say_fd, line, e) < 0) {
        return -1;
    }
    return 0;
}

/* Until the box ends, or nothing has listened for long: always -1, with the reason. */
static int look_after(struct forward *f, struct box *box, const struct lasting *what,
                      struct cancel *cancel, struct err *e)
{
    int64_t heard_ms = clock_mono_ms();

    for (;;) {
        struct arena arena own_arena = {0};
        struct ctx ctx = {&arena, cancel, clock_mono_ms() + LOOK_MS};
        struct err ignored;

        arena_init(&arena, 1u << 20);
        if (forward_wait(f, &ctx, e) < 0 && e->kind != ERR_TIMEOUT) {
            return -1;
        }
        ctx.deadline_ms = clock_mono_ms() + LOOK_MS;
        int fd own_fd = box_port_dial(box, &ctx, what->port, &ignored);
        if (fd >= 0) {
            heard_ms = clock_mono_ms();
        }
        if (clock_mono_ms() - heard_ms > LASTING_QUIET_MS) {
            return err_set(e, ERR_NOT_FOUND, "nothing listens at port %u any more",
                           (unsigned)what->port);
        }
    }
}

static struct forward *open_port(const struct services *s, struct box *box, struct str id,
                                 const struct lasting *what, struct err *e)
{
    struct forward_req req = {.box = box, .id = id, .port = what->port, .local = what->port};
    struct forward *f = what->port >= 1024 ? forward_open(s->forwards, &req, e) : NULL;

    if (f == NULL) {
        req.local = 0;
        f = forward_open(s->forwards, &req, e);
    }
    return f;
}

int lasting_work(const struct services *s, struct cancel *cancel, const struct lasting *what,
                 int say_fd, struct err *e)
{
    const struct box_want want = {.id = what->box_id};
    struct arena arena own_arena = {0};
    struct ctx ctx = {.arena = &arena, .cancel = cancel};
    struct scope scope;
    struct forward *f;
    struct str id;
    int rc = -1;

    arena_init(&arena, 16u << 20);
    int file own_fd = open_file(s, &arena, what, e);
    if (file < 0) {
        return -1;
    }
    if (flock(file, LOCK_EX | LOCK_NB) < 0) {
        return err_set(e, ERR_EXISTS, "another process has this port already");
    }
    scope_init(&scope, what->owner, STR_EMPTY);
    struct box *box CLEANUP(box_unref_p) = boxes_find(s->boxes, &ctx, &scope, &want, &id, e);
    f = box != NULL ? open_port(s, box, id, what, e) : NULL;
    if (f != NULL) {
        rc = say_port(file, say_fd, forward_local(f), e);
        (void)close(say_fd);
        rc = rc < 0 ? -1 : look_after(f, box, what, cancel, e);
        forward_close(f);
    }
    (void)unlink(arena_cstr(&arena, file_of(s, &arena, what)));
    scope_fini(&scope);
    return rc;
}
