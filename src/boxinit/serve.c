/*
 * serve.c - the loop of PID 1.
 *
 * A turn: wait; let every ready descriptor's owner take what is there; then look at the
 * clock for each command, send what there is to send, and sweep what died. Each owner
 * takes a bounded amount in a turn, so that none of a flood of output, of connections or
 * of orphans keeps the others from theirs.
 *
 * The box ends when PID 1 exits: the kernel then kills everything in the pid namespace,
 * and mounts and files go with the last of them. PID 1 exits when its lifetime is over
 * (on the clock that goes on during suspend), when it was idle for too long, or when it
 * is asked to.
 *
 * All signals stay blocked. From inside the box PID 1 cannot be killed or stopped in any
 * case; SIGCHLD arrives by signalfd. The agent without a box (agent.h) can be ended by
 * SIGTERM, and counts open connections and workers as use.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "boxinit/keep.h"
#include "boxinit/server.h"

#define OPEN_FILES       4096
#define EVENTS_A_TURN    64
#define STOPPED_MS       2000
#define HOUSEKEEPING_MS  30000 /* connections without a request are looked at */
#define PAYLOAD_ADJ      500   /* oom_score_adj of commands above PID 1's */
#define PAYLOAD_ADJ_MOST 1000

int64_t server_now(void)
{
    return clock_mono_ms();
}

static bool is_visited(const struct server *s)
{
    for (size_t i = 0; i < COUNTOF(s->workers); i++) {
        if (s->workers[i] != 0) {
            return true;
        }
    }
    return s->n_conns > 0;
}

int64_t server_idle_ms(const struct server *s, int64_t used_ms)
{
    int64_t files = s->files_used_ms != NULL ? atomic_load(s->files_used_ms) : 0;

    if (s->n_running > 0 || (s->spec->is_plain && is_visited(s))) {
        return 0;
    }
    return server_now() - (files > used_ms ? files : used_ms);
}

/* ---- children -------------------------------------------------------------- */

static void child_ended(struct server *s, pid_t pid, int status)
{
    struct list *pos;

    if (pid == s->spare.pid) {
        spare_ended(s);
        return;
    }
    for (size_t i = 0; i < COUNTOF(s->workers); i++) {
        if (s->workers[i] == pid) {
            s->workers[i] = 0;
            s->used_ms = s->spec->is_plain ? server_now() : s->used_ms;
            return;
        }
    }
    list_each (pos, &s->tasks) {
        struct task *t = list_entry(pos, struct task, link);

        if (t->pid == pid && !t->reaped && !t->dead) {
            task_exited(s, t, status);
            return;
        }
    }
}

static void reap(struct server *s)
{
    s->reap_more = true;
    for (int i = 0; i < REAPS_A_TURN; i++) {
        int status = 0;
        pid_t pid = waitpid(-1, &status, WNOHANG);

        if (pid <= 0) {
            s->reap_more = false;
            if (pid < 0 && s->n_running == 0 && spare_next_ms(s) == 0 && !s->spare.wanted) {
                keep_release(s); /* nobody lives in the box but us, and nobody is to */
            }
            return;
        }
        child_ended(s, pid, status);
    }
}

static void on_signal(struct server *s, struct watch *w, uint32_t events)
{
    struct signalfd_siginfo info;

    (void)events;
    if (read(w->fd, &info, sizeof(info)) == (ssize_t)sizeof(info) && info.ssi_signo == SIGTERM) {
        s->end = "signal";
    }
    reap(s);
}

/* ---- time ------------------------------------------------------------------ */

static void on_lifetime(struct server *s, struct watch *w, uint32_t events)
{
    uint64_t times;

    (void)events;
    /* It may have been extended since this turn began. */
    if (read(w->fd, &times, sizeof(times)) > 0 && clock_boot_ms() >= s->ends_boot_ms) {
        s->end = "lifetime";
    }
}

static int arm_lifetime(struct server *s, struct err *e)
{
    struct itimerspec when = {0};
    int fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);

    if (fd < 0) {
        return err_sys(e, errno, "make the lifetime's timer");
    }
    if (s->spec->lifetime_ms > 0) {
        s->ends_boot_ms = clock_boot_ms() + (int64_t)s->spec->lifetime_ms;
        when.it_value.tv_sec = s->ends_boot_ms / 1000;
        when.it_value.tv_nsec = s->ends_boot_ms % 1000 * 1000000;
        if (timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL) < 0) {
            return err_sys(e, errno, "set the lifetime's timer");
        }
    }
    return watch_open(s, &s->life, fd, EPOLLIN, on_lifetime, e);
}

static int64_t sooner(int64_t wait, int64_t other)
{
    other = other < 0 ? 0 : other;
    return wait < 0 || other < wait ? other : wait;
}

/* How long the next turn may wait; -1: until something happens. */
static int wait_ms(struct server *s)
{
    int64_t due = tasks_next_ms(s);
    int64_t spare_due = spare_next_ms(s);
    int64_t wait = -1;

    if (s->reap_more) {
        return 0;
    }
    if (due > 0) {
        wait = sooner(wait, due - server_now());
    }
    if (spare_due > 0) {
        wait = sooner(wait, spare_due - server_now());
    }
    if (s->idle_ms > 0 && s->n_running == 0) {
        wait = sooner(wait, s->idle_ms - server_idle_ms(s, s->used_ms));
    }
    if (s->n_conns > 0) {
        wait = sooner(wait, HOUSEKEEPING_MS);
    }
    return wait > INT32_MAX ? INT32_MAX : (int)wait;
}

/* ---- the loop -------------------------------------------------------------- */

/* A turn that came so much too late: all of us was stopped, as a paused container is, and nobody could have
 * used it meanwhile. */
bool server_was_stopped(int wait, int64_t slept_ms)
{
    return wait >= 0 && slept_ms - wait > STOPPED_MS;
}

static void turn(struct server *s)
{
    struct epoll_event ready[EVENTS_A_TURN];
    int64_t began_ms = server_now();
    int wait = wait_ms(s);
    int n = epoll_wait(s->epoll, ready, EVENTS_A_TURN, wait);
    int64_t now = server_now();

    if (server_was_stopped(wait, now - began_ms)) {
        s->used_ms = now;
    }

    for (int i = 0; i < n; i++) {
        struct watch *w = ready[i].data.ptr;

        if (w->fd >= 0) {
            w->ready(s, w, ready[i].events);
        }
    }
    if (s->reap_more) {
        reap(s);
    }
    now = server_now();
    tasks_turn(s, now);
    conns_turn(s, now);
    drains_sweep(s);
    spare_turn(s, now);
    if (s->shutdown_asked) {
        s->end = "shutdown";
    } else if (s->end == NULL && s->idle_ms > 0 && s->n_running == 0 &&
               server_idle_ms(s, s->used_ms) >= s->idle_ms) {
        s->end = "idle";
    }
}

static void read_oom_adj(struct server *s)
{
    char text[16] = "";
    int64_t own = 0;
    struct err ignored;

    if (s->fds.oom_adj < 0 || pread(s->fds.oom_adj, text, sizeof(text) - 1, 0) <= 0 ||
        str_to_i64(str_from(text), -1000, 1000, &own, &ignored) < 0) {
        return;
    }
    s->oom_adj_own = (int)own;
    s->oom_adj_payload = (int)own + PAYLOAD_ADJ;
    if (s->oom_adj_payload > PAYLOAD_ADJ_MOST) {
        s->oom_adj_payload = PAYLOAD_ADJ_MOST;
    }
}

/* PID 1 has up to four descriptors for a command, seven while it starts, and one for a
 * connection. Commands get their own limit. */
static void raise_open_files(void)
{
    struct rlimit now;

    if (getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_cur < OPEN_FILES) {
        now.rlim_cur = now.rlim_max < OPEN_FILES ? now.rlim_max : OPEN_FILES;
        (void)setrlimit(RLIMIT_NOFILE, &now);
    }
}

static int prepare(struct server *s, struct err *e)
{
    sigset_t all;
    sigset_t taken;
    int fd;

    (void)sigfillset(&all);
    (void)sigemptyset(&taken);
    (void)sigaddset(&taken, SIGCHLD);
    if (s->spec->is_plain) {
        (void)sigaddset(&taken, SIGTERM);
    }
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)signal(SIGPIPE, SIG_DFL); /* commands inherit it; here it stays blocked */
    raise_open_files();
    s->reserve = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->epoll < 0 || fd < 0) {
        return err_sys(e, errno, "prepare to serve");
    }
    if (watch_open(s, &s->child, fd, EPOLLIN, on_signal, e) < 0 ||
        watch_open(s, &s->listener, s->fds.listener, EPOLLIN, conns_accept, e) < 0) {
        return -1;
    }
    return arm_lifetime(s, e);
}

int server_prepare(struct server *s, const struct spec *spec, const struct box_fds *fds,
                   struct err *e)
{
    *s = (struct server){.spec = spec, .fds = *fds, .epoll = -1};
    s->spare = (struct spare){.order = -1, .pipes = CHILD_NO_PIPES};
    list_init(&s->conns);
    list_init(&s->tasks);
    list_init(&s->drains);
    s->idle_ms = (int64_t)spec->idle_ms;
    s->used_ms = server_now();
    read_oom_adj(s);
    return prepare(s, e);
}

void server_run(struct server *s)
{
    char line[32];

    while (s->end == NULL) {
        turn(s);
    }
    (void)snprintf(line, sizeof(line), "%s\n", s->end);
    (void)!pwrite(s->fds.end, line, strlen(line), 0);
}
