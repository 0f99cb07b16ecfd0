/*
 * maker.c - one process that gives birth to many boxes.
 *
 * To start a program for each box costs as much as all that it does on the host's side. So
 * a server starts "boxinit maker" once, before its first plain box, and sends it a message
 * for each: the spec, and with it the descriptors that the outer process would have got. For
 * every message the maker opens the host's side, clones PID 1 into its namespaces, writes
 * the maps, says on the box's control that it is born, hands it a root where one can be shared
 * (skeleton.c), and forgets all of it. What takes long, the joining of cgroups above all, is
 * done by the new process, so that messages do not wait for each other.
 *
 * It holds nothing of the server or its client: stdin, stdout and stderr are /dev/null, and
 * between two messages MAKER_FD and the skeleton are the only other descriptors. Boxes do not
 * get each other's, for they are closed before the next message is read. A spec that is bad is
 * answered on the control that came with it. When the server is gone the maker ends: boxes
 * that have had their order live on, others see the end of their own control.
 *
 * Processes that are born of one maker share the layout of its memory, which the kernel
 * chooses when a program is started. The server starts another maker from time to time.
 *
 * A plain box is one that nobody but PID 1 has to work for once it is born: it has no
 * network of its own to be connected, no image, and its maps need no helper. Nor does it
 * take a copy of boxinit that the maker has not become itself (copy.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "boxinit/copy.h"
#include "boxinit/host.h"
#include "boxinit/ids.h"
#include "boxinit/image.h"
#include "boxinit/skeleton.h"

#define FDS_MAX (KEEP_FD - MAKER_FD)

struct job {
    char bytes[MAKER_SPEC_MAX];
    size_t len;
    size_t n_fds; /* CONTROL_FD and those behind it */
};

/* Boxes do not inherit it: each would keep the pages that its own job was read into, for the
 * maker writes the next one over them. Where that cannot be said they have a copy. */
static struct job *make_room(void)
{
    void *room =
        mmap(NULL, sizeof(struct job), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (room == MAP_FAILED) {
        return NULL;
    }
    (void)madvise(room, sizeof(struct job), MADV_DONTFORK);
    return room;
}

union fd_message {
    struct cmsghdr head; /* for its alignment */
    char bytes[CMSG_SPACE(sizeof(int) * FDS_MAX)];
};

/* The descriptors get the lowest free numbers, which are those that boxinit knows. */
static int take_fds(struct msghdr *m, struct job *job, struct err *e)
{
    struct cmsghdr *head = CMSG_FIRSTHDR(m);
    int fds[FDS_MAX];

    if (head == NULL || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS ||
        (m->msg_flags & (MSG_CTRUNC | MSG_TRUNC)) != 0) {
        return err_set(e, ERR_PROTOCOL, "a job has no descriptors, or is too long");
    }
    job->n_fds = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(fds, CMSG_DATA(head), sizeof(int) * job->n_fds);
    for (size_t i = 0; i < job->n_fds; i++) {
        if (fds[i] != CONTROL_FD + (int)i) {
            return err_set(e, ERR_BUG, "descriptor %d of a job is %d", CONTROL_FD + (int)i, fds[i]);
        }
    }
    return 0;
}

/* 1: the next job; 0: the server is gone. */
static int receive(struct job *job, struct err *e)
{
    union fd_message control = {0};
    struct iovec data = {job->bytes, sizeof(job->bytes)};
    struct msghdr m = {.msg_iov = &data,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof(control.bytes)};
    ssize_t n;

    do {
        n = recvmsg(MAKER_FD, &m, MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n <= 0) {
        return 0;
    }
    job->len = (size_t)n;
    return take_fds(&m, job, e) < 0 ? -1 : 1;
}

static int check_plain(const struct spec *spec, const struct job *job, struct err *e)
{
    bool copied = spec->uid_mode != UIDS_ONE || geteuid() != 0; /* as far as it must be: copy.c */

    if (spec->net_program != NULL || spec->image != NULL || spec->uid_mode == UIDS_HELPER ||
        !copied) {
        return err_set(e, ERR_UNSUPPORTED, "the maker makes plain sandboxes only");
    }
    if (job->n_fds != (spec->keep_fd ? FDS_MAX : FDS_MAX - 1)) {
        return err_set(e, ERR_PROTOCOL, "%zu descriptors came with the spec", job->n_fds);
    }
    return 0;
}

static int start(const struct spec *spec, const struct box_fds *fds, struct host_groups *groups,
                 pid_t *pid, struct err *e)
{
    int go[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, go) < 0) {
        return err_sys(e, errno, "make a pair of sockets");
    }
    *pid = host_clone(spec, groups);
    if (*pid == 0) {
        (void)close(go[1]);
        host_be_inner(spec, fds, groups, go[0], -1);
    }
    (void)close(go[0]);
    if (*pid < 0) {
        int errnum = errno;

        (void)close(go[1]);
        return err_sys(e, errnum, "make the sandbox's namespaces");
    }
    return go[1];
}

static int make(const struct job *job, struct skeleton *skeleton, struct box_fds *fds,
                struct host_groups *groups, enum setup_step *step, struct err *e)
{
    struct arena a own_arena = {0};
    struct spec spec;
    pid_t pid = -1;

    arena_init(&a, 64u << 20);
    if (spec_parse_frame((struct str){job->bytes, job->len}, &a, &spec, e) < 0 ||
        check_plain(&spec, job, e) < 0) {
        return -1;
    }
    skeleton_prepare(skeleton, &spec);
    if (host_open(&spec, fds, e) < 0 || host_open_groups(&spec, true, groups, e) < 0) {
        return -1;
    }
    *step = SETUP_NAMESPACES;
    int go own_fd = start(&spec, fds, groups, &pid, e);
    if (go < 0) {
        return -1;
    }
    *step = SETUP_IDS;
    if (ids_map(&spec, pid, e) < 0) {
        return -1;
    }
    *step = SETUP_OTHER;
    if (box_say_born(pid, e) < 0) {
        return -1;
    }
    int tree own_fd = skeleton_clone(skeleton, &spec, pid);
    return tree >= 0 ? image_send(go, tree, e) : fd_write_all(go, S("g"), e);
}

/* PID 1 that has not got its word to go on ends when `go` is closed. */
static void serve(const struct job *job, struct skeleton *skeleton)
{
    struct box_fds fds = BOX_NO_FDS;
    struct host_groups groups = HOST_NO_GROUPS;
    enum setup_step step = SETUP_OTHER;
    struct err e;

    if (make(job, skeleton, &fds, &groups, &step, &e) < 0) {
        box_say_failed(step, &e);
    }
    host_close(&fds);
    host_close_groups(&groups);
}

int maker_run(void)
{
    struct job *job = make_room();
    struct skeleton skeleton;
    struct err e;
    int got;

    skeleton_init(&skeleton);
    if (job == NULL || host_reset_process(&e) < 0 ||
        (geteuid() != 0 && copy_run("maker", &e) < 0) || close_range(MAKER_FD + 1, ~0u, 0) < 0 ||
        fcntl(MAKER_FD, F_SETFD, FD_CLOEXEC) < 0) {
        return 1;
    }
    (void)signal(SIGCHLD, SIG_IGN); /* nobody is waited for */
    for (;;) {
        got = receive(job, &e);
        if (got == 0) {
            skeleton_end(&skeleton);
            return 0;
        }
        if (got > 0) {
            serve(job, &skeleton);
        }
        skeleton_close_others(&skeleton, MAKER_FD + 1);
    }
}
