/*
 * task.c - a command from its start to the delivery of its end.
 *
 * Its output is read into two bounded spools, whoever listens; an attached client is
 * served from there. While a client is attached and far behind, the pipes are not read,
 * so that the command waits instead of losing output; with nobody attached the middle
 * of a long output is lost, and counted.
 *
 * A command has ended when its process was reaped and what then lay in the pipes was
 * read. Nobody waits for the end of the pipes: a process left in the background holds
 * them for as long as it lives. Being killed takes longer: the end is told when nothing
 * of the session and its descendants runs any more.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/own.h"
#include "boxinit/kill.h"
#include "boxinit/server.h"

#define READ_SIZE     (64u << 10)
#define START_WAIT_MS 2    /* most commands have ended before it is worth a wake-up */
#define KILL_STEP_MS  20   /* between looks at what is left */
#define KILL_MOST_MS  5000 /* of SIGKILL; what is left then hangs in the kernel */

struct task *task_find(struct server *s, struct str id)
{
    struct list *pos;

    list_each (pos, &s->tasks) {
        struct task *t = list_entry(pos, struct task, link);

        if (!t->dead && str_eq(str_from(t->id), id)) {
            return t;
        }
    }
    return NULL;
}

static void task_free(struct server *s, struct task *t)
{
    list_del(&t->link);
    watch_close(s, &t->start);
    watch_close(s, &t->input);
    watch_close(s, &t->output[0]);
    watch_close(s, &t->output[1]);
    buf_fini(&t->waiting);
    capture_fini(&t->spool[0]);
    capture_fini(&t->spool[1]);
    arena_fini(&t->text);
    free(t->seen);
    free(t);
}

/* ---- output ---------------------------------------------------------------- */

/* Reads once. False: nothing more will come now. */
static bool read_some(struct server *s, struct task *t, int i, size_t max)
{
    char bytes[READ_SIZE];
    ssize_t n = read(t->output[i].fd, bytes, max < sizeof(bytes) ? max : sizeof(bytes));

    if (n > 0) {
        capture_add(&t->spool[i], (struct str){bytes, (size_t)n});
        return true;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        watch_close(s, &t->output[i]);
    }
    return false;
}

static void on_output(struct server *s, struct watch *w, uint32_t events)
{
    struct task *t = CONTAINER_OF(w, struct task, output[0]);

    (void)events;
    (void)read_some(s, t, 0, READ_SIZE);
}

static void on_errors(struct server *s, struct watch *w, uint32_t events)
{
    struct task *t = CONTAINER_OF(w, struct task, output[1]);

    (void)events;
    (void)read_some(s, t, 1, READ_SIZE);
}

/* What lies in the pipe now; a leftover process may go on to fill it. */
static void read_rest(struct server *s, struct task *t, int i)
{
    int left = 0;

    if (t->output[i].fd < 0 || ioctl(t->output[i].fd, FIONREAD, &left) < 0) {
        return;
    }
    while (left > 0) {
        uint64_t before = t->spool[i].total;

        if (!read_some(s, t, i, (size_t)left)) {
            return;
        }
        left -= (int)(t->spool[i].total - before);
    }
}

/* ---- input ----------------------------------------------------------------- */

static void close_input(struct server *s, struct task *t)
{
    watch_close(s, &t->input);
    buf_fini(&t->waiting);
}

static void write_input(struct server *s, struct task *t)
{
    while (t->input.fd >= 0 && t->waiting.len > 0) {
        ssize_t n = write(t->input.fd, t->waiting.p, t->waiting.len);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            watch_want(s, &t->input, EPOLLOUT);
            return;
        }
        if (n < 0) {
            close_input(s, t); /* the command closed its stdin: the rest is nobody's */
            return;
        }
        buf_drop(&t->waiting, (size_t)n);
    }
    if (t->input_ended) {
        close_input(s, t);
        return;
    }
    watch_want(s, &t->input, 0);
}

static void on_input(struct server *s, struct watch *w, uint32_t events)
{
    (void)events;
    write_input(s, CONTAINER_OF(w, struct task, input));
}

void task_input(struct server *s, struct task *t, struct str bytes)
{
    if (t->input.fd < 0 || t->input_ended) {
        return;
    }
    t->input_ended = bytes.len == 0;
    buf_add(&t->waiting, bytes);
    write_input(s, t);
}

/* ---- start ----------------------------------------------------------------- */

static int new_id(struct server *s, struct task *t, struct str id, struct err *e)
{
    if (id.len == 0) {
        id_hex(t->id, 16);
        return 0;
    }
    if (task_find(s, id) != NULL) {
        return err_set(e, ERR_EXISTS, "there is a command \"%.*s\" already", STR_ARG(id));
    }
    memcpy(t->id, id.p, id.len);
    return 0;
}

static int start(struct server *s, struct task *t, const struct request *r, struct err *e)
{
    if (s->n_running >= TASKS_MAX) {
        return err_set(e, ERR_LIMIT,
                       "%d commands are running in the sandbox, which is the most; wait for one "
                       "to end, or kill it",
                       TASKS_MAX);
    }
    if (new_id(s, t, r->id, e) < 0) {
        return -1;
    }
    t->ooms_before = usage_ooms(s);
    t->started_ms = server_now();
    t->started_wall_ms = clock_wall_ms();
    if (spawn(s, t, r, e) < 0) {
        return -1;
    }
    t->grace_ms = r->grace_ms;
    if (r->timeout_ms > 0 && r->timeout_ms < INT64_MAX / 2) {
        t->deadline_ms = t->started_ms + (int64_t)r->timeout_ms;
    }
    t->input.ready = on_input;
    if (watch_open(s, &t->output[0], t->output[0].fd, EPOLLIN, on_output, e) < 0 ||
        watch_open(s, &t->output[1], t->output[1].fd, EPOLLIN, on_errors, e) < 0) {
        (void)kill(t->pid, SIGKILL);
        return -1;
    }
    return 0;
}

void task_exec(struct server *s, struct conn *c, const struct request *r)
{
    struct task *t = xcalloc(1, sizeof(*t));
    struct err e;

    t->start.fd = t->input.fd = t->output[0].fd = t->output[1].fd = -1;
    capture_init(&t->spool[0], SPOOL_HEAD, SPOOL_TAIL);
    capture_init(&t->spool[1], SPOOL_HEAD, SPOOL_TAIL);
    buf_init(&t->waiting, INPUT_MAX + DATA_MAX);
    arena_init(&t->text, 64u << 10);
    list_add_tail(&s->tasks, &t->link);
    if (start(s, t, r, &e) < 0) {
        task_free(s, t);
        conn_fail(c, &e);
        return;
    }
    s->n_running++;
    t->client = c;
    c->task = t;
}

/* tasks_turn() looks at it; only the wake-up is wanted. */
static void on_start(struct server *s, struct watch *w, uint32_t events)
{
    (void)s;
    (void)w;
    (void)events;
}

static void start_failed(struct server *s, struct task *t, const struct err *e)
{
    if (t->client != NULL) {
        conn_fail(t->client, e);
        task_detach(s, t->client);
    }
    t->finished = t->dead = true;
    s->n_running--;
    s->used_ms = server_now();
}

/* Learns whether exec succeeded. False: it did not, and the task is dead. */
static bool check_start(struct server *s, struct task *t, int64_t now)
{
    struct err e;
    int rc = t->started ? 1 : spawn_result(s, t, &e);

    if (rc < 0) {
        start_failed(s, t, &e);
        return false;
    }
    if (rc == 0 && !t->reaped) {
        if (now - t->started_ms >= START_WAIT_MS && t->start.events == 0) {
            t->start.ready = on_start;
            watch_want(s, &t->start, EPOLLIN);
        }
        return true;
    }
    if (!t->started) {
        t->started = true;
        s->spare.wanted = true;
        watch_close(s, &t->start);
    }
    return true;
}

/* ---- clients --------------------------------------------------------------- */

/* With nobody to wait for, the pipes are read again. */
void task_detach(struct server *s, struct conn *c)
{
    struct task *t = c->task;

    if (t == NULL) {
        return;
    }
    watch_want(s, &t->output[0], EPOLLIN);
    watch_want(s, &t->output[1], EPOLLIN);
    t->client = NULL;
    c->task = NULL;
}

void task_attach(struct server *s, struct conn *c, struct task *t, uint64_t from_out,
                 uint64_t from_err)
{
    if (t->client != NULL) {
        struct conn *old = t->client;

        task_detach(s, old);
        old->dead = true;
    }
    t->client = c;
    c->task = t;
    /* Beyond the end there is nothing to wait for: a stream cannot be skipped. */
    c->at[0] = from_out < t->spool[0].total ? from_out : t->spool[0].total;
    c->at[1] = from_err < t->spool[1].total ? from_err : t->spool[1].total;
    c->told_start = c->told_end = false;
}

void task_delivered(struct task *t)
{
    t->dead = true;
}

void task_put_ending(const struct task *t, struct wire_out *w)
{
    wire_u8(w, t->ending.how);
    wire_u32(w, t->ending.code);
    wire_u8(w, t->ending.timed_out);
    wire_u8(w, t->ending.oom);
    wire_u64(w, t->finished ? t->ending.wall_ms : 0);
    wire_u64(w, t->finished ? t->spool[0].total : 0);
    wire_u64(w, t->finished ? t->spool[1].total : 0);
}

/* ---- end ------------------------------------------------------------------- */

static uint8_t was_oom(const struct server *s, const struct task *t)
{
    bool looks_so = (t->ending.how == END_SIGNALED && t->ending.code == SIGKILL) ||
                    (t->ending.how == END_EXITED && t->ending.code == 128 + SIGKILL);

    if (!looks_so) {
        return OOM_NO;
    }
    if (s->fds.oom < 0) {
        return t->kill == KILL_FORCED ? OOM_NO : OOM_UNKNOWN;
    }
    return usage_ooms(s) > t->ooms_before ? OOM_YES : OOM_NO;
}

static void finish(struct server *s, struct task *t)
{
    for (int i = 0; i < 2; i++) {
        read_rest(s, t, i);
        if (t->output[i].fd >= 0) {
            watch_want(s, &t->output[i], 0);
            drain_add(s, take_fd(&t->output[i].fd));
        }
    }
    close_input(s, t);
    if (WIFSIGNALED(t->wait_status)) {
        t->ending.how = END_SIGNALED;
        t->ending.code = (uint32_t)WTERMSIG(t->wait_status);
    } else {
        t->ending.how = END_EXITED;
        t->ending.code = (uint32_t)WEXITSTATUS(t->wait_status);
    }
    t->ending.oom = was_oom(s, t);
    t->finished = true;
    t->finished_ms = s->used_ms = server_now();
    s->n_running--;
}

void task_exited(struct server *s, struct task *t, int status)
{
    int64_t now = server_now();

    t->reaped = true;
    t->wait_status = status;
    t->ending.wall_ms = (uint64_t)(now - t->started_ms);
    if (!check_start(s, t, now)) {
        return;
    }
    if (t->kill == KILL_NONE) {
        finish(s, t);
        return;
    }
    t->kill_next_ms = now;
}

void task_kill(struct server *s, struct task *t, uint32_t grace_ms, bool timed_out)
{
    int64_t now = server_now();

    (void)s;
    if (t->finished) {
        return;
    }
    t->ending.timed_out |= timed_out;
    if (t->kill == KILL_NONE) {
        t->kill = KILL_ASKED;
        t->kill_force_ms = now + grace_ms;
        if (grace_ms > 0) {
            /* A stopped process takes TERM only when it goes on. */
            (void)kill_tree(t, SIGTERM, SIGCONT);
        }
    } else if (t->kill == KILL_ASKED && now + grace_ms < t->kill_force_ms) {
        t->kill_force_ms = now + grace_ms; /* a more impatient one */
    }
    t->kill_next_ms = grace_ms > 0 && !t->reaped ? t->kill_force_ms : now;
}

/* One step of ending a command that is being killed. */
static void kill_step(struct server *s, struct task *t, int64_t now)
{
    size_t left;

    if (t->kill == KILL_ASKED && now >= t->kill_force_ms) {
        t->kill = KILL_FORCED;
        t->kill_since_ms = now;
    }
    left = kill_tree(t, t->kill == KILL_FORCED ? SIGKILL : 0, 0);
    if (t->reaped &&
        (left == 0 || (t->kill == KILL_FORCED && now - t->kill_since_ms > KILL_MOST_MS))) {
        finish(s, t);
        return;
    }
    t->kill_next_ms = now + KILL_STEP_MS;
}

static void task_turn(struct server *s, struct task *t, int64_t now)
{
    if (t->dead || t->finished) {
        if (t->finished && now - t->finished_ms > TASK_KEEP_MS) {
            t->dead = true;
        }
        return;
    }
    if (!t->started && !check_start(s, t, now)) {
        return;
    }
    if (t->deadline_ms > 0 && now >= t->deadline_ms) {
        t->deadline_ms = 0;
        task_kill(s, t, t->grace_ms, true);
    }
    if (t->kill != KILL_NONE && now >= t->kill_next_ms) {
        kill_step(s, t, now);
    }
}

void tasks_turn(struct server *s, int64_t now)
{
    struct list *pos;
    struct list *tmp;
    struct task *oldest = NULL;
    unsigned kept = 0;

    list_each_safe (pos, tmp, &s->tasks) {
        struct task *t = list_entry(pos, struct task, link);

        task_turn(s, t, now);
        if (t->dead && t->client == NULL) {
            task_free(s, t);
        } else if (t->finished && t->client == NULL) {
            kept++;
            oldest = oldest == NULL || t->finished_ms < oldest->finished_ms ? t : oldest;
        }
    }
    if (kept > TASKS_KEPT && oldest != NULL) {
        task_free(s, oldest); /* one ends at a time, or the next turn takes the next */
    }
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

int64_t tasks_next_ms(struct server *s)
{
    struct list *pos;
    int64_t next = 0;

    list_each (pos, &s->tasks) {
        struct task *t = list_entry(pos, struct task, link);

        if (t->dead || t->finished) {
            continue;
        }
        next = sooner(next, t->deadline_ms);
        if (t->kill != KILL_NONE) {
            next = sooner(next, t->kill_next_ms);
        }
        if (!t->started && t->start.events == 0) {
            next = sooner(next, t->started_ms + START_WAIT_MS);
        }
    }
    return next;
}
