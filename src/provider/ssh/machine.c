#include "provider/ssh/machine.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "provider/ssh/ahead.h"
#include "provider/ssh/pool.h"

#define ARENA_LIMIT (1u << 20)

/* ---- what it is ------------------------------------------------------------------ */

void machine_init(struct machine *m, const struct ssh_host *conf)
{
    arena_init(&m->arena, ARENA_LIMIT);
    m->name = arena_str(&m->arena, conf->name);
    machine_keep(m, conf);
    m->max_sessions = SESSIONS_MAX;
    m->ahead_fd = -1;
    list_init(&m->queue);
    list_init(&m->idle_sftp);
    list_init(&m->pumps);
    (void)pthread_mutex_init(&m->lock, NULL);
}

int machine_port(const struct machine *m)
{
    return m->conf.port > 0 ? m->conf.port : SSH_PORT;
}

const char *machine_user(const struct machine *m, struct arena *a)
{
    struct passwd entry, *found = NULL;
    char *text = arena_alloc(a, 1, 4096);

    if (m->conf.user.len > 0) {
        return m->conf.user.p;
    }
    (void)getpwuid_r(geteuid(), &entry, text, 4096, &found);
    return found != NULL ? found->pw_name : "root";
}

const char *machine_where(struct machine *m, char to[WHERE_SIZE])
{
    LOCKED(&m->lock);
    struct str user = m->conf.user;

    (void)snprintf(to, WHERE_SIZE, "%.*s%s%.*s:%d", STR_ARG(str_head(user, 64)),
                   user.len > 0 ? "@" : "", STR_ARG(str_head(m->conf.host, 128)), machine_port(m));
    return to;
}

bool machine_is_connected(const struct machine *m)
{
    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        if (m->sessions[i] != NULL && m->sessions[i]->is_ready && !m->sessions[i]->is_done) {
            return true;
        }
    }
    return false;
}

bool machine_is_alive(struct machine *m)
{
    LOCKED(&m->lock);

    return machine_is_connected(m);
}

/* ---- the pool -------------------------------------------------------------------- */

static bool has_room(const struct session *s)
{
    if (s == NULL || !s->is_ready || s->is_done) {
        return false;
    }
    int64_t now = clock_mono_ms();
    unsigned max = now - s->limited_ms > LIMIT_KEPT_MS ? CHANNELS_GUESS : s->max_chans;

    return s->n_chans < max && now >= s->rest_until_ms;
}

/* Makes room for one more session: a slot, or NULL when there are enough. */
static struct session **free_slot(struct machine *m)
{
    struct session **free_one = NULL;
    unsigned n = 0;

    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        struct session *s = m->sessions[i];

        /* The one that calls us on its way out cannot wait for itself. */
        if (s != NULL && s->is_done && !pthread_equal(s->thread, pthread_self())) {
            session_join(s);
            m->sessions[i] = NULL;
        }
        if (m->sessions[i] != NULL) {
            n += !s->is_done;
        } else if (free_one == NULL) {
            free_one = &m->sessions[i];
        }
    }
    /* One is always allowed: the limit was learned from a server that let in at least one. */
    return n > 0 && n >= m->max_sessions ? NULL : free_one;
}

/* Somebody waits: wakes a connection that has room, else opens one more. */
static int serve_queue(struct machine *m, struct err *e)
{
    if (list_empty(&m->queue) || m->is_closing) {
        return 0;
    }
    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        if (has_room(m->sessions[i])) {
            event_add(m->sessions[i]->wake);
            return 0;
        }
    }
    if (m->is_connecting) {
        return 0;
    }
    struct session **slot = free_slot(m);
    if (slot == NULL) {
        return 0;
    }
    *slot = session_start(m, e);
    m->is_connecting = *slot != NULL;
    return *slot != NULL ? 0 : -1;
}

/* Every channel that waits fails. */
static void fail_queue(struct machine *m, const struct err *why)
{
    while (!list_empty(&m->queue)) {
        struct chan *c = list_entry(m->queue.next, struct chan, link);

        list_del(&c->link);
        lock(&c->lock);
        chan_end(c, why);
        unlock(&c->lock);
        chan_unref(c);
    }
}

void machine_move_queued(struct machine *m)
{
    struct list *pos, *next;
    struct err why = {0};

    (void)err_set(&why, ERR_GONE, "the host's agent is there now");
    list_each_safe (pos, next, &m->queue) {
        struct chan *c = list_entry(pos, struct chan, link);

        lock(&c->lock);
        bool is_moved = c->is_movable && !c->is_abandoned;
        if (is_moved) {
            list_del(&c->link);
            chan_end(c, &why);
        }
        unlock(&c->lock);
        if (is_moved) {
            chan_unref(c);
        }
    }
}

static unsigned count_ready(const struct machine *m)
{
    unsigned n = 0;

    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        n += m->sessions[i] != NULL && m->sessions[i]->is_ready && !m->sessions[i]->is_done;
    }
    return n;
}

int pool_add(struct machine *m, struct chan *c, struct err *e)
{
    LOCKED(&m->lock);

    if (m->conf.problem.len > 0) {
        return err_set(e, ERR_INVALID, "%.*s", STR_ARG(m->conf.problem));
    }
    if (m->is_closing) {
        return err_set(e, ERR_CANCELLED, "shutting down");
    }
    if (clock_mono_ms() < m->dead_until_ms && count_ready(m) == 0) {
        *e = m->dead;
        return -1;
    }
    c->refs++;
    /* Behind an agent nobody waits. */
    list_add_tail(c->kind == CHAN_RELAY ? m->queue.next : &m->queue, &c->link);
    if (serve_queue(m, e) < 0) {
        list_del(&c->link);
        c->refs--;
        return -1;
    }
    return 0;
}

void pool_withdraw(struct machine *m, struct chan *c)
{
    lock(&m->lock);
    lock(&c->lock);
    bool is_queued = c->state == CHAN_QUEUED && c->session == NULL && !list_empty(&c->link);
    unlock(&c->lock);
    if (is_queued) {
        list_del(&c->link);
    }
    unlock(&m->lock);
    if (is_queued) {
        chan_unref(c);
    }
}

struct chan *machine_next(struct session *s)
{
    struct machine *m = s->machine;
    LOCKED(&m->lock);

    if (list_empty(&m->queue)) {
        return NULL;
    }
    if (!has_room(s)) {
        struct err ignored = {0};

        /* A connection that cannot be opened now leaves the channel where it is. */
        (void)!serve_queue(m, &ignored);
        return NULL;
    }
    struct chan *c = list_entry(m->queue.next, struct chan, link);
    list_del(&c->link);
    s->n_chans++;
    lock(&c->lock);
    c->session = s;
    c->state = CHAN_OPENING;
    chan_tell(c);
    unlock(&c->lock);
    return c;
}

bool machine_has_room(struct session *s)
{
    LOCKED(&s->machine->lock);

    return has_room(s);
}

void machine_left(struct session *s)
{
    LOCKED(&s->machine->lock);

    s->n_chans--;
}

/* Back into the queue, before those that came later. */
static void put_back(struct machine *m, struct chan *c)
{
    lock(&c->lock);
    c->session = NULL;
    c->state = CHAN_QUEUED;
    unlock(&c->lock);
    list_add_tail(m->queue.next, &c->link);
}

void machine_refused(struct session *s, struct chan *c, const char *why)
{
    struct machine *m = s->machine;
    struct err e = {0};
    LOCKED(&m->lock);

    s->n_chans--;
    /* A server may still count a channel that we have just closed. */
    if (s->n_chans > 0 || ++c->refusals < REFUSALS_MAX) {
        s->max_chans = s->n_chans > 0 ? s->n_chans : 1;
        s->limited_ms = clock_mono_ms();
        s->rest_until_ms = s->limited_ms + REST_MS;
        put_back(m, c);
        (void)!serve_queue(m, &e);
        return;
    }
    (void)err_set(&e, ERR_DENIED,
                  "the server opens no channel though none is open: %s; look at MaxSessions and "
                  "ForceCommand in its sshd_config",
                  why);
    lock(&c->lock);
    c->session = NULL;
    chan_end(c, &e);
    unlock(&c->lock);
    chan_unref(c);
}

void machine_is_ready(struct session *s)
{
    struct machine *m = s->machine;
    struct err ignored = {0};
    LOCKED(&m->lock);

    s->is_ready = true;
    m->is_connecting = false;
    m->dead_until_ms = 0;
    /* More may be waiting than fit here. */
    (void)!serve_queue(m, &ignored);
}

void machine_failed(struct session *s, const struct err *why)
{
    struct machine *m = s->machine;
    LOCKED(&m->lock);
    unsigned ready = count_ready(m);

    m->is_connecting = false;
    s->is_done = true;
    if (ready > 0) {
        /* The server lets no more in: those who wait get room on what is open. */
        m->max_sessions = ready;
        return;
    }
    if (!m->is_closing) {
        m->dead = *why;
        m->dead_until_ms = clock_mono_ms() + DEAD_MS;
    }
    fail_queue(m, why);
}

void machine_lost(struct session *s, const struct err *why)
{
    struct machine *m = s->machine;
    struct err e = {0};
    LOCKED(&m->lock);

    s->is_done = true;
    while (!list_empty(&s->chans)) {
        struct chan *c = list_entry(s->chans.next, struct chan, link);

        list_del(&c->link);
        if (!c->has_started && !c->is_abandoned && !m->is_closing && ++c->tries < CHAN_TRIES) {
            put_back(m, c);
            continue;
        }
        lock(&c->lock);
        c->session = NULL;
        chan_end(c, why);
        unlock(&c->lock);
        chan_unref(c);
    }
    m->max_sessions = SESSIONS_MAX;
    if (serve_queue(m, &e) < 0) {
        fail_queue(m, &e);
    }
}

/* ---- its end --------------------------------------------------------------------- */

void machine_stop(struct machine *m)
{
    struct err e = {0};
    LOCKED(&m->lock);

    m->is_closing = true;
    (void)err_set(&e, ERR_CANCELLED, "shutting down");
    fail_queue(m, &e);
    if (m->resolving != NULL) {
        cancel_fire(m->resolving);
    }
    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        if (m->sessions[i] != NULL) {
            m->sessions[i]->is_closing = true;
            event_add(m->sessions[i]->wake);
        }
    }
}

static void join_sessions(struct machine *m)
{
    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        if (m->sessions[i] != NULL) {
            session_join(m->sessions[i]);
            m->sessions[i] = NULL;
        }
    }
}

void machine_join(struct machine *m)
{
    join_sessions(m);
    for (struct machine *at = m->own_jump; at != NULL; at = at->own_jump) {
        machine_stop(at); /* nobody goes through it any more */
        join_sessions(at);
    }
}

/* A secret is not left in memory that is given back. */
static void wipe(struct str secret)
{
    char *p;

    memcpy(&p, &secret.p, sizeof(p));
    if (secret.len > 0) {
        explicit_bzero(p, secret.len);
    }
}

static void fini_one(struct machine *m)
{
    wipe(m->conf.password);
    wipe(m->conf.key_passphrase);
    ahead_drop(m);
    (void)pthread_mutex_destroy(&m->lock);
    arena_fini(&m->arena);
}

void machine_fini(struct machine *m)
{
    struct machine *next = m->own_jump;

    fini_one(m);
    while (next != NULL) {
        struct machine *at = next;

        next = at->own_jump;
        fini_one(at);
        free(at);
    }
}
