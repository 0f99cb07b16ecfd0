/*
 * task.c - a command: its start, its streams, its clients. Its end is in task_end.c.
 *
 * Its output is read into two bounded spools, whoever listens; an attached client is
 * served from there. While a client is attached and far behind, the pipes are not read,
 * so that the command waits instead of losing output; with nobody attached the middle
 * of a long output is lost, and counted.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/own.h"
#include "boxinit/keep.h"
#include "boxinit/server.h"

#define READ_SIZE     (64u << 10)
#define START_WAIT_MS 2 /* most commands have ended before it is worth a wake-up */

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

void task_free(struct server *s, struct task *t)
{
    keep_free(s, t);
    list_del(&t->link);
    spawn_settled(t);
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
        keep_before(s, t, i, (size_t)n);
        capture_add(&t->spool[i], (struct str){bytes, (size_t)n});
        keep_after(t, i);
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

void task_close_streams(struct server *s, struct task *t)
{
    for (int i = 0; i < 2; i++) {
        read_rest(s, t, i);
        if (t->output[i].fd >= 0) {
            watch_want(s, &t->output[i], 0);
            drain_add(s, take_fd(&t->output[i].fd));
        }
    }
    watch_close(s, &t->input);
    buf_fini(&t->waiting);
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
    t->before = usage_limit_counts(s);
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
    t->ends = (struct child_pipes)CHILD_NO_PIPES;
    t->kept.dir = t->kept.fd[0] = t->kept.fd[1] = -1;
    t->keep = r->keep;
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

bool task_check_start(struct server *s, struct task *t, int64_t now)
{
    struct err e;
    int rc = t->started ? 1 : spawn_result(s, t, &e);

    if (rc < 0) {
        start_failed(s, t, &e);
        return false;
    }
    if (rc == 0) {
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
        spawn_settled(t);
    }
    return true;
}

int64_t task_start_due_ms(const struct task *t)
{
    return !t->started && t->start.events == 0 ? t->started_ms + START_WAIT_MS : 0;
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
    t->dead = t->is_delivered = true;
}

void task_put_ending(const struct task *t, struct wire_out *w)
{
    wire_u8(w, t->ending.how);
    wire_u32(w, t->ending.code);
    wire_u8(w, t->ending.timed_out);
    wire_u8(w, t->ending.oom);
    wire_u8(w, t->ending.limits);
    wire_u64(w, t->finished ? t->ending.wall_ms : 0);
    wire_u64(w, t->finished ? t->spool[0].total : 0);
    wire_u64(w, t->finished ? t->spool[1].total : 0);
}
