#include "provider/local/maker.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/proto.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "base/proc.h"
#include "base/thread.h"
#include "provider/local/local.h"

#define FDS_MAX   (KEEP_FD - MAKER_FD)
#define BOXES     64 /* of one maker */
#define ENDING_MS 2000

struct maker {
    pthread_mutex_t lock; /* all below */
    int to;               /* -1: there is none */
    pid_t pid;
    unsigned boxes;
    pid_t former; /* was told to end, and is not waited for yet; 0: none */
};

struct maker *maker_new(void)
{
    struct maker *m = xcalloc(1, sizeof *m);
    *m = (struct maker){.lock = PTHREAD_MUTEX_INITIALIZER, .to = -1};
    return m;
}

/* It is at its end as soon as it has done what it was told before. */
static void wait_former(struct maker *m)
{
    struct arena a own_arena = {0};
    arena_init(&a, 4096);
    struct ctx shortly = {.arena = &a, .deadline_ms = clock_mono_ms() + ENDING_MS};
    struct ctx quiet = {.arena = &a};
    int status = 0;
    struct err e;
    if (m->former == 0) {
        return;
    }
    if (proc_wait(&shortly, m->former, &status, &e) < 0 && e.kind == ERR_TIMEOUT) {
        (void)kill(m->former, SIGKILL);
        (void)!proc_wait(&quiet, m->former, &status, &e);
    }
    m->former = 0;
}

/* The same without waiting. */
static void reap_former(struct maker *m)
{
    if (m->former != 0 && waitpid(m->former, NULL, WNOHANG) == m->former) {
        m->former = 0;
    }
}

static void let_go(struct maker *m)
{
    if (m->to < 0) {
        return;
    }
    wait_former(m);
    drop_fd(&m->to);
    m->former = m->pid;
    m->pid = 0;
}

void maker_free(struct maker *m)
{
    if (m == NULL) {
        return;
    }
    let_go(m);
    wait_former(m);
    (void)pthread_mutex_destroy(&m->lock);
    free(m);
}

void maker_drop(struct maker *m)
{
    LOCKED(&m->lock);
    if (m->to >= 0) {
        (void)kill(m->pid, SIGKILL); /* ours, and not waited for */
        let_go(m);
    }
}

static bool start(struct maker *m, const char *program)
{
    static const char *const argv[] = {BOXINIT, "maker", NULL};
    int ends[2];
    struct err e;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
        return false;
    }
    int ours own_fd = ends[0];
    int theirs own_fd = ends[1];
    struct proc_fd fds[] = {{theirs, MAKER_FD}};
    struct proc_spec spec = {
        .file = program, .argv = argv, .fds = fds, .n_fds = COUNTOF(fds), .new_session = true};
    if (proc_spawn(&spec, &m->pid, &e) < 0) {
        log_line(LOG_INFO, "local", "no maker of sandboxes: %s", e.msg);
        return false;
    }
    m->to = take_fd(&ours);
    m->boxes = 0;
    return true;
}

static bool send_to(struct maker *m, struct str spec, const int *fds, size_t n_fds)
{
    union {
        struct cmsghdr head; /* for its alignment */
        char bytes[CMSG_SPACE(sizeof(int) * FDS_MAX)];
    } control = {0};
    struct iovec data = {xmemdup(spec.p, spec.len), spec.len};
    struct msghdr msg = {.msg_iov = &data,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = CMSG_SPACE(sizeof(int) * n_fds)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
    memcpy(CMSG_DATA(head), fds, sizeof(int) * n_fds);
    ssize_t n = sendmsg(m->to, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    free(data.iov_base);
    return n == (ssize_t)spec.len;
}

bool maker_send(struct maker *m, const char *program, struct str spec, const int *fds, size_t n_fds)
{
    if (spec.len > MAKER_SPEC_MAX || n_fds > FDS_MAX) {
        return false;
    }
    LOCKED(&m->lock);
    if (m->to >= 0 && m->boxes >= BOXES) {
        let_go(m);
    }
    /* One that has died is noticed here, and replaced once. */
    for (int i = 0; i < 2; i++) {
        if (m->to < 0 && !start(m, program)) {
            return false;
        }
        if (send_to(m, spec, fds, n_fds)) {
            m->boxes++;
            reap_former(m);
            return true;
        }
        if (errno == EAGAIN) {
            return false; /* it has more to do than it can take */
        }
        let_go(m);
    }
    return false;
}
