/* outer.c - the outer process: see boxinit.c. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "boxinit/box.h"
#include "boxinit/copy.h"
#include "boxinit/ids.h"
#include "boxinit/image.h"
#include "boxinit/limits.h"
#include "boxinit/process.h"
#include "boxinit/stack.h"

#define LISTEN_BACKLOG 128
#define SAY_MAX        1024 /* a struct err fits */

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

static int say_born(pid_t pid, struct err *e)
{
    struct buf said own_buf = {0};

    buf_init(&said, SAY_MAX);
    struct wire_out w = wire_begin(&said, FRAME_BORN);
    wire_u32(&w, (uint32_t)pid);
    (void)!wire_end(&w);
    return say(&said, e);
}

/* A child of a program must not inherit what its parent had set up for itself. */
static void reset_process(void)
{
    process_reset_signals();
    (void)signal(SIGPIPE, SIG_IGN);
    (void)umask(022);
}

static int cloexec_all(struct err *e)
{
    if (close_range(KEEP_FD + 1, ~0u, 0) < 0 ||
        close_range(SPEC_FD, KEEP_FD, CLOSE_RANGE_CLOEXEC) < 0) {
        return err_sys(e, errno, "close what was inherited");
    }
    return 0;
}

static int join_cgroup(const char *path, struct err *e)
{
    int fd own_fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0 || write(fd, "0", 1) != 1) {
        return err_sys(e, errno, "join the cgroup %s", path);
    }
    return 0;
}

/* The folder of a cgroup of version 2, which alone has this file; else -1. */
static int open_unified(const char *procs)
{
    char path[PATH_MAX_BYTES + 16];
    size_t dir = strlen(procs) - strlen(path_base(str_from(procs)).p);

    (void)snprintf(path, sizeof(path), "%.*scgroup.events", (int)dir, procs);
    if (access(path, F_OK) < 0) {
        return -1;
    }
    (void)snprintf(path, sizeof(path), "%.*s", (int)dir, procs);
    return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* To join one waits for a grace period of the kernel, which takes longer than all the rest.
 * A process can be born into one of version 2 instead (*born_into, else -1): not where
 * another one is to follow it, slirp4netns. */
static int join_cgroups(const struct spec *spec, int *born_into, struct err *e)
{
    for (size_t i = 0; i < spec->n_cgroup_procs; i++) {
        const char *path = spec->cgroup_procs[i];

        if (*born_into < 0 && spec->net_program == NULL) {
            *born_into = open_unified(path);
            if (*born_into >= 0) {
                continue;
            }
        }
        if (join_cgroup(path, e) < 0) {
            return -1;
        }
    }
    return 0;
}

static int open_counter(const char *path, int *out, struct err *e)
{
    *out = -1;
    if (path[0] == '\0') {
        return 0;
    }
    *out = open(path, O_RDONLY | O_CLOEXEC);
    return *out < 0 ? err_sys(e, errno, "open %s", path) : 0;
}

static int make_listener(int *out, struct err *e)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd own_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0) {
        return err_sys(e, errno, "make a socket");
    }
    /* Through /proc: sun_path is short, the state folder's path need not be. */
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "/proc/self/fd/%d/" AGENT_SOCKET, FOLDER_FD);
    if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0) {
        return err_sys(e, errno, "make " AGENT_SOCKET " in the sandbox's folder");
    }
    if (chmod(at.sun_path, 0600) < 0 || listen(fd, LISTEN_BACKLOG) < 0) {
        return err_sys(e, errno, "listen on " AGENT_SOCKET);
    }
    *out = take_fd(&fd);
    return 0;
}

static int open_host_side(const struct spec *spec, struct box_fds *fds, struct err *e)
{
    /* First: what is opened below takes the next free number. */
    fds->keep = spec->keep_fd ? KEEP_FD : -1;
    if (spec->keep_fd && fcntl(KEEP_FD, F_GETFD) < 0) {
        return err_set(e, ERR_INVALID, "the spec promises descriptor %d, which is not there",
                       KEEP_FD);
    }
    if (open_counter(spec->oom_file, &fds->oom, e) < 0 ||
        open_counter(spec->memory_file, &fds->memory, e) < 0 ||
        open_counter(spec->pids_file, &fds->pids, e) < 0 || make_listener(&fds->listener, e) < 0) {
        return -1;
    }
    fds->end = openat(FOLDER_FD, END_FILE, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fds->end < 0) {
        return err_sys(e, errno, "make " END_FILE " in the sandbox's folder");
    }
    return 0;
}

/* The inner process, the pipe that lets it go on, and the one that tells of its network. */
struct inner {
    pid_t pid;
    int go, net_made;
    enum setup_step step; /* what is being done */
};

/* As fork(): its pid, 0 in it, or -1. */
static pid_t clone_inner(const struct spec *spec, int born_into)
{
    unsigned long flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS |
                          (spec->host_net ? 0 : CLONE_NEWNET);
    struct clone_args args = {
        .flags = flags | CLONE_INTO_CGROUP,
        .exit_signal = SIGCHLD,
        .cgroup = (uint64_t)born_into,
    };
    struct err e;

    if (born_into >= 0) {
        pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

        if (pid >= 0) {
            return pid;
        }
        /* Before 5.7, and where a container's filter does not let it pass. */
        for (size_t i = 0; i < spec->n_cgroup_procs; i++) {
            if (join_cgroup(spec->cgroup_procs[i], &e) < 0) {
                return -1;
            }
        }
    }
    return (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
}

static int start_inner(const struct spec *spec, const struct box_fds *fds, struct inner *out,
                       struct err *e)
{
    int born_into own_fd = -1;
    int go[2];
    int net_made[2];

    /* A socket: a descriptor may come with the word. */
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, go) < 0 ||
        pipe2(net_made, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "pipe");
    }
    if (join_cgroups(spec, &born_into, e) < 0) {
        return -1;
    }
    limits_share();
    out->step = SETUP_NAMESPACES;
    out->pid = clone_inner(spec, born_into);
    if (out->pid == 0) {
        (void)close(go[1]);
        (void)close(net_made[0]);
        box_init(spec, *fds, go[0], net_made[1]);
    }
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
    struct box_fds fds = {-1, -1, -1, -1, -1, -1, -1, -1};
    int lives[2] = {-1, -1};

    if (open_host_side(spec, &fds, e) < 0) {
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
    if (open_image(spec, inner->pid, &tree, e) < 0 || say_born(inner->pid, e) < 0) {
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
    if (process_null_stdio(e) < 0 || spec_read(SPEC_FD, &a, &spec, e) < 0 ||
        copy_run(&spec, e) < 0 || cloexec_all(e) < 0 || make_inner(&spec, &stack, inner, e) < 0) {
        return -1;
    }
    return spec.net_program != NULL ? make_network(&spec, &stack, inner, e) : 0;
}

int box_make(void)
{
    struct inner inner = {-1, -1, -1, SETUP_OTHER};
    struct err e;

    reset_process();
    (void)prctl(PR_SET_NAME, "boxinit", 0, 0, 0); /* a copy has another name */
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
