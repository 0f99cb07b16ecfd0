/* outer.c - the outer process: see boxinit.c. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "boxinit/copy.h"
#include "boxinit/host.h"
#include "boxinit/ids.h"
#include "boxinit/image.h"
#include "boxinit/stack.h"

#define SAY_MAX 1024 /* a struct err fits */

static int say(struct buf *frame, struct err *e)
{
    ssize_t n = send(CONTROL_FD, frame->p, frame->len, MSG_NOSIGNAL);

    if (n != (ssize_t)frame->len) {
        return err_set(e, ERR_CANCELLED, "nobody wants the sandbox any more");
    }
    return 0;
}

int box_say(uint8_t frame, struct err *e)
{
    struct buf said own_buf = {0};

    buf_init(&said, SAY_MAX);
    struct wire_out w = wire_begin(&said, frame);
    (void)!wire_end(&w);
    return say(&said, e);
}

static struct wire_out begin_fail(struct buf *to, const struct err *why)
{
    struct wire_out w = wire_begin(to, FRAME_FAIL);

    wire_u8(&w, (uint8_t)why->kind);
    wire_u32(&w, (uint32_t)why->sys);
    wire_str(&w, str_from(why->msg));
    return w;
}

void box_put_fail(struct buf *to, const struct err *why)
{
    struct wire_out w = begin_fail(to, why);

    (void)!wire_end(&w); /* a struct err fits */
}

void box_say_failed(enum setup_step step, const struct err *why)
{
    struct buf said own_buf = {0};
    struct err ignored;

    buf_init(&said, SAY_MAX);
    struct wire_out w = begin_fail(&said, why);
    wire_u8(&w, (uint8_t)step);
    (void)!wire_end(&w);
    (void)!say(&said, &ignored);
}

int box_say_born(pid_t pid, struct err *e)
{
    struct buf said own_buf = {0};

    buf_init(&said, SAY_MAX);
    struct wire_out w = wire_begin(&said, FRAME_BORN);
    wire_u32(&w, (uint32_t)pid);
    (void)!wire_end(&w);
    return say(&said, e);
}

static int cloexec_all(struct err *e)
{
    if (close_range(KEEP_FD + 1, ~0u, 0) < 0 ||
        close_range(SPEC_FD, KEEP_FD, CLOSE_RANGE_CLOEXEC) < 0) {
        return err_sys(e, errno, "close what was inherited");
    }
    return 0;
}

/* The inner process, the pipe that lets it go on, and the one that tells of its network. */
struct inner {
    pid_t pid;
    int go, net_made;
    enum setup_step step; /* what is being done */
};

static int start_inner(const struct spec *spec, const struct box_fds *fds, struct inner *out,
                       struct err *e)
{
    struct host_groups groups = HOST_NO_GROUPS;
    bool net = spec->net_program != NULL;
    int go[2];
    int net_made[2];

    /* A socket: a descriptor may come with the word. */
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, go) < 0 ||
        pipe2(net_made, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "pipe");
    }
    /* Another process is to follow us into them, then: slirp4netns. */
    if (host_open_groups(spec, !net, &groups, e) < 0 || (net && host_join(&groups, e) < 0)) {
        return -1;
    }
    if (net) {
        host_close_groups(&groups);
    }
    out->step = SETUP_NAMESPACES;
    out->pid = host_clone(spec, &groups);
    if (out->pid == 0) {
        (void)close(go[1]);
        (void)close(net_made[0]);
        host_be_inner(spec, fds, &groups, go[0], net_made[1]);
    }
    host_close_groups(&groups);
    if (out->pid < 0) {
        return err_sys(e, errno, "make the sandbox's namespaces");
    }
    out->step = SETUP_IDS;
    (void)close(go[0]);
    (void)close(net_made[1]);
    out->go = go[1];
    out->net_made = net_made[0];
    return 0;
}

/* Root is the one who can show an image with the owners of the box. *tree stays -1 where
 * the inner process can open it itself, or there is none. */
static int open_image(const struct spec *spec, pid_t pid, int *tree, struct err *e)
{
    char path[64];

    if (spec->image == NULL || spec->uid_mode != UIDS_WRITE) {
        return 0;
    }
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
    int user_ns own_fd = open(path, O_RDONLY | O_CLOEXEC);
    if (user_ns < 0) {
        return err_sys(e, errno, "open the sandbox's user namespace");
    }
    *tree = image_open(spec->image, user_ns, e);
    return *tree < 0 ? -1 : 0;
}

/* The inner process, its uids, and the word to go on. From then on it speaks for itself. */
static int make_inner(const struct spec *spec, struct stack *stack, struct inner *inner,
                      struct err *e)
{
    struct box_fds fds = BOX_NO_FDS;
    int lives[2] = {-1, -1};

    if (host_open(spec, &fds, e) < 0) {
        return -1;
    }
    if (spec->net_program != NULL && pipe2(lives, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "pipe");
    }
    stack->box_lives = lives[0];
    fds.net = lives[1];
    if (start_inner(spec, &fds, inner, e) < 0 || ids_map(spec, inner->pid, e) < 0) {
        return -1;
    }
    inner->step = SETUP_OTHER;
    if (spec->net_program != NULL && stack_open(stack, inner->pid, e) < 0) {
        return -1;
    }
    int tree own_fd = -1;
    if (open_image(spec, inner->pid, &tree, e) < 0 || box_say_born(inner->pid, e) < 0) {
        return -1;
    }
    return tree >= 0 ? image_send(inner->go, tree, e) : fd_write_all(inner->go, S("g"), e);
}

/* When the inner process has made its side of the network. If it ends instead, it has said
 * why. */
static int make_network(const struct spec *spec, const struct stack *stack,
                        const struct inner *inner, struct err *e)
{
    char byte;
    ssize_t n = fd_read(inner->net_made, &byte, 1, e);

    if (n <= 0) {
        return (int)n;
    }
    if (stack_start(stack, spec, e) < 0) {
        return -1;
    }
    return fd_write_all(inner->go, S("g"), e);
}

static int make_box(struct inner *inner, struct err *e)
{
    struct stack stack = {-1, -1, -1};
    struct arena a own_arena = {0};
    struct spec spec;

    arena_init(&a, 64u << 20);
    if (host_reset_process(e) < 0 || spec_read(SPEC_FD, &a, &spec, e) < 0 ||
        copy_for(&spec, e) < 0 || cloexec_all(e) < 0 || make_inner(&spec, &stack, inner, e) < 0) {
        return -1;
    }
    return spec.net_program != NULL ? make_network(&spec, &stack, inner, e) : 0;
}

int box_make(void)
{
    struct inner inner = {-1, -1, -1, SETUP_OTHER};
    struct err e;

    if (make_box(&inner, &e) == 0) {
        return 0;
    }
    if (inner.pid > 0) {
        (void)kill(inner.pid, SIGKILL);
        (void)waitpid(inner.pid, NULL, 0);
    }
    box_say_failed(inner.step, &e);
    return 1;
}
