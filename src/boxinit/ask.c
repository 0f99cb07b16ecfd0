/* ask.c - one request of a client, answered or handed on. */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "boxinit/server.h"

static int no_task(struct str id, struct err *e)
{
    return err_set(e, ERR_NOT_FOUND,
                   "no command \"%.*s\" in this sandbox; one that ended is forgotten once its end "
                   "was told",
                   STR_ARG(id));
}

static void put_task(struct conn *c, const struct task *t)
{
    struct wire_out w = wire_begin(&c->out, FRAME_TASK);

    wire_str(&w, str_from(t->id));
    wire_u8(&w, !t->finished);
    task_put_ending(t, &w);
    wire_u64(&w, (uint64_t)t->started_wall_ms);
    (void)!wire_end(&w); /* TASKS_MAX + TASKS_KEPT of them fit OUT_MAX many times */
}

static int ask_state(struct server *s, struct conn *c, struct str id, struct err *e)
{
    struct list *pos;

    if (id.len > 0) {
        struct task *t = task_find(s, id);

        if (t == NULL) {
            return no_task(id, e);
        }
        put_task(c, t);
        return 0;
    }
    list_each (pos, &s->tasks) {
        struct task *t = list_entry(pos, struct task, link);

        if (!t->dead) {
            put_task(c, t);
        }
    }
    conn_ok(c, 0);
    return 0;
}

static int ask_attach(struct server *s, struct conn *c, const struct request *r, struct err *e)
{
    struct task *t = task_find(s, r->id);

    if (t == NULL) {
        return no_task(r->id, e);
    }
    task_attach(s, c, t, r->from_out, r->from_err);
    return 0;
}

static int ask_kill(struct server *s, struct conn *c, const struct request *r, struct err *e)
{
    struct task *t = task_find(s, r->id);

    if (t == NULL) {
        return no_task(r->id, e);
    }
    task_kill(s, t, r->grace_ms, false);
    if (c->task != t) {
        conn_ok(c, 0);
    }
    return 0;
}

static int ask_extend(struct server *s, struct conn *c, const struct request *r, struct err *e)
{
    if (r->lifetime_ms > INT64_MAX / 2 || r->idle_ms > INT64_MAX / 2) {
        return err_set(e, ERR_INVALID, "lifetime or idle time is too long");
    }
    if (r->lifetime_ms > 0) {
        struct itimerspec when = {0};

        s->ends_boot_ms = clock_boot_ms() + (int64_t)r->lifetime_ms;
        when.it_value.tv_sec = s->ends_boot_ms / 1000;
        when.it_value.tv_nsec = s->ends_boot_ms % 1000 * 1000000;
        if (timerfd_settime(s->life.fd, TFD_TIMER_ABSTIME, &when, NULL) < 0) {
            return err_sys(e, errno, "set the end of the sandbox");
        }
    }
    if (r->idle_ms > 0) {
        s->idle_ms = (int64_t)r->idle_ms;
    }
    conn_ok(c, 0);
    return 0;
}

/* A free place among those for this kind of worker, or -1. */
static int find_slot(struct server *s, bool is_dial, struct err *e)
{
    int from = is_dial ? WORKERS_MAX : 0;
    int n = is_dial ? TCP_MAX : WORKERS_MAX;

    for (int i = from; i < from + n; i++) {
        if (s->workers[i] == 0) {
            return i;
        }
    }
    /* Code in the box may have stopped them: those whose client has gone end now. */
    for (int i = from; i < from + n; i++) {
        (void)kill(s->workers[i], SIGCONT);
    }
    return is_dial ? err_set(e, ERR_LIMIT,
                             "%d connections into the sandbox are open, which is the most; "
                             "close one",
                             n)
                   : err_set(e, ERR_LIMIT,
                             "%d file requests are running in the sandbox, which is the most; try "
                             "again",
                             n);
}

/* Not before the first worker: most boxes rest without ever having had one. */
static int share_memory(struct server *s, struct err *e)
{
    void *shared;

    if (s->files_used_ms != NULL) {
        return 0;
    }
    shared = mmap(NULL, sizeof(*s->files_used_ms), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return err_sys(e, errno, "share memory with file workers");
    }
    s->files_used_ms = shared;
    return 0;
}

/* The worker inherits the connection and what was read from it; for PID 1 this
 * conversation is over. */
static int hand_to_worker(struct server *s, struct conn *c, bool is_dial, struct err *e)
{
    int slot = find_slot(s, is_dial, e);
    pid_t pid;

    if (slot < 0 || share_memory(s, e) < 0) {
        return -1;
    }
    if (c->out.len > 0) {
        /* The worker must not speak before what is still to be said. */
        if (send(c->watch.fd, c->out.p, c->out.len, MSG_DONTWAIT | MSG_NOSIGNAL) !=
            (ssize_t)c->out.len) {
            c->dead = true;
            return 0;
        }
        buf_clear(&c->out);
    }
    pid = spawn_fork(s);
    if (pid == 0) {
        worker_run(s->spec, c->watch.fd, &c->in, s->files_used_ms, is_dial);
    }
    if (pid < 0) {
        return spawn_fork_failed(s, errno, e);
    }
    s->workers[slot] = pid;
    watch_close(s, &c->watch);
    c->dead = true;
    return 0;
}

static int ask_alone(struct server *s, struct conn *c, const struct request *r, struct err *e)
{
    switch (r->type) {
    case FRAME_EXEC: task_exec(s, c, r); return 0;
    case FRAME_ATTACH: return ask_attach(s, c, r, e);
    case FRAME_STATE: return ask_state(s, c, r->id, e);
    case FRAME_KILL: return ask_kill(s, c, r, e);
    case FRAME_EXTEND: return ask_extend(s, c, r, e);
    case FRAME_USAGE: usage_answer(s, c); return 0;
    case FRAME_INPUT: return 0; /* for a command that has just ended */
    case FRAME_DETACH: c->closing = true; return 0;
    case FRAME_SHUTDOWN:
        conn_ok(c, 0);
        s->shutdown_asked = true;
        return 0;
    default: return err_set(e, ERR_PROTOCOL, "request %u makes no sense here", r->type);
    }
}

static int ask_attached(struct server *s, struct conn *c, const struct request *r, struct err *e)
{
    switch (r->type) {
    case FRAME_INPUT: task_input(s, c->task, r->bytes); return 0;
    case FRAME_KILL: return ask_kill(s, c, r, e);
    case FRAME_DETACH:
        task_detach(s, c);
        c->closing = true;
        return 0;
    default:
        return err_set(e, ERR_PROTOCOL,
                       "request %u on a connection that is attached to a command; open another",
                       r->type);
    }
}

void ask(struct server *s, struct conn *c, const struct request *r)
{
    struct err e;
    int rc;

    if (c->task != NULL) {
        rc = ask_attached(s, c, r, &e);
    } else if (request_is_file(r->type) || request_is_dial(r->type)) {
        rc = hand_to_worker(s, c, request_is_dial(r->type), &e);
    } else {
        rc = ask_alone(s, c, r, &e);
    }
    if (rc < 0) {
        conn_fail(c, &e);
        c->closing |= e.kind == ERR_PROTOCOL;
        if (c->closing) {
            task_detach(s, c);
        }
    }
}
