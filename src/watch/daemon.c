#include "watch/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/own.h"
#include "base/path.h"
#include "store/watches.h"
#include "watch/daemon_own.h"
#include "watch/deliver.h"
#include "watch/hosts.h"
#include "watch/legacy.h"
#include "watch/round.h"

#define HEARTBEAT_S  30
#define PRUNE_S      ((int64_t)6 * 3600)
#define LOCK_MS      500
#define LOCK_STEP_MS 10

struct daemon {
    const struct services *services;
    const struct watchdog_flags *how;
    struct cancel *cancel;
    struct rounds *rounds;
    struct deliverer *deliverer;
    int wake; /* eventfd: a thread of ours is done */
    uint64_t config_stamp;
    int64_t beat_s, pruned_s, idle_since_s;
};

static int64_t now_s(void)
{
    return clock_wall_ms() / 1000;
}

static void wake(void *arg)
{
    const struct daemon *d = arg;

    (void)eventfd_write(d->wake, 1);
}

/* ---- the lock ------------------------------------------------------------------------ */

int daemon_lock_file(struct str state_dir, struct err *e)
{
    struct arena a own_arena = {0};

    arena_init(&a, 1u << 20);
    const char *dir = arena_cstr(&a, state_dir);
    if (fd_mkdirs(dir, 0700, e) < 0) {
        return -1;
    }
    const char *path = arena_printf(&a, "%s/" DAEMON_LOCK, dir).p;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? err_sys(e, errno, "open %s", path) : fd;
}

int64_t daemon_lock_pid(int fd)
{
    char text[24] = "";
    int64_t pid = 0;
    struct err ignored;
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

    return n > 0 && str_to_i64(str_trim((struct str){text, (size_t)n}), 1, INT32_MAX, &pid,
                               &ignored) == 0
               ? pid
               : 0;
}

/* Whoever looks whether there is a watchdog holds it too, for a moment (daemon_start.c). */
static bool lock(int fd)
{
    struct ctx ctx = {.deadline_ms = clock_mono_ms() + LOCK_MS};
    struct err ignored;

    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (ctx_wait(&ctx, NULL, 0, clock_mono_ms() + LOCK_STEP_MS, &ignored) < 0) {
            return false;
        }
    }
    return true;
}

static int take_lock(const struct services *s, struct err *e)
{
    int fd own_fd = daemon_lock_file(s->config->state_dir, e);
    char text[24];

    if (fd < 0) {
        return -1;
    }
    if (!lock(fd)) {
        return err_set(e, ERR_EXISTS, "a watchdog runs already for %.*s (pid %" PRId64 ")",
                       STR_ARG(s->config->state_dir), daemon_lock_pid(fd));
    }
    (void)snprintf(text, sizeof(text), "%d\n", (int)getpid());
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, strlen(text), 0) < 0) {
        return err_sys(e, errno, "write the watchdog's lock");
    }
    return take_fd(&fd);
}

/* ---- now and then -------------------------------------------------------------------- */

static int beat(struct daemon *d, struct err *e)
{
    const struct config *c = d->services->config;
    struct arena a own_arena = {0};
    json_t *v own_json = json_object();
    struct buf text own_buf = {0};

    arena_init(&a, 1u << 20);
    (void)json_object_set_new(v, "ts", json_integer(now_s()));
    (void)json_object_set_new(v, "pid", json_integer(getpid()));
    (void)json_object_set_new(v, "stale_after_s", json_integer(WATCHDOG_STALE_S));
    (void)json_object_set_new(v, "config_path", js_string(c->file));
    (void)json_object_set_new(v, "db_path",
                              js_string(arena_printf(&a, "%.*s/anybox.db", STR_ARG(c->state_dir))));
    (void)json_object_set_new(v, "version", json_string(ANYBOX_VERSION));
    buf_init(&text, 64u << 10);
    js_dump(v, &text);
    d->beat_s = now_s();
    return store_set_watchdog(d->services->store, S("heartbeat"), buf_str(&text), e);
}

static void event_gone(void *arg, int64_t id)
{
    const struct daemon *d = arg;
    struct arena a own_arena = {0};

    arena_init(&a, 1u << 20);
    (void)unlink(deliver_file(&a, d->services->config->state_dir, id).p);
}

/* A little at a time: the looks of a round do not wait for it. */
static void prune(struct daemon *d)
{
    struct err e;
    int rc = store_prune_watches(d->services->store, now_s() - WATCHDOG_KEEP_DAYS * 24ll * 3600,
                                 WATCHDOG_EVENTS, event_gone, d, &e);

    if (rc < 0) {
        log_line(LOG_WARN, "watch", "old events stay: %s", e.msg);
    }
    if (rc <= 0) {
        d->pruned_s = now_s();
    }
}

/* Of the configuration files and of the hosts that are kept: when it changes they are read anew. */
static uint64_t stamp_of(struct arena *a, struct str path)
{
    struct stat st;

    if (path.len == 0 || stat(arena_cstr(a, path), &st) < 0) {
        return 1;
    }
    return (uint64_t)st.st_mtim.tv_sec * 1000003u ^ (uint64_t)st.st_mtim.tv_nsec ^
           (uint64_t)st.st_size << 20 ^ (uint64_t)st.st_ino << 32;
}

static uint64_t stamp(const struct config *c)
{
    struct arena a own_arena = {0};
    struct str rest = c->files;
    uint64_t all = 0;

    arena_init(&a, 1u << 20);
    while (rest.len > 0) {
        all = all * 31 + stamp_of(&a, str_trim(str_cut(rest, ',', &rest)));
    }
    all = all * 31 + stamp_of(&a, c->file);
    all = all * 31 + stamp_of(&a, path_join(&a, legacy_folder(c, &a), S("config.json")));
    return all * 31 + stamp_of(&a, arena_printf(&a, "%.*s/watch_hosts", STR_ARG(c->state_dir)));
}

/* ---- the loop ------------------------------------------------------------------------ */

static int turn(struct daemon *d, struct err *e)
{
    int n = 0;

    if (now_s() - d->beat_s >= HEARTBEAT_S || now_s() < d->beat_s) {
        if (beat(d, e) < 0) {
            return -1;
        }
    }
    if (rounds_turn(d->rounds, now_s(), &n, e) < 0 || deliver_turn(d->deliverer, now_s(), e) < 0) {
        return -1;
    }
    if (now_s() - d->pruned_s >= PRUNE_S || now_s() < d->pruned_s) {
        prune(d);
    }
    return 0;
}

static int sleep_until_due(struct daemon *d, const struct ctx *ctx, int64_t due_s, struct err *e)
{
    int64_t wait_s = d->how->sleep_s > 0 ? d->how->sleep_s : WATCHDOG_SLEEP_S;
    struct pollfd woken = {.fd = d->wake, .events = POLLIN};
    eventfd_t count;

    if (due_s > now_s() && due_s - now_s() < wait_s) {
        wait_s = due_s - now_s();
    }
    if (ctx_wait(ctx, &woken, 1, clock_mono_ms() + wait_s * 1000, e) < 0) {
        return -1;
    }
    (void)eventfd_read(d->wake, &count);
    return 0;
}

/* 1: the configuration has changed; 0: there is nothing to do any more; -1. */
static int loop(struct daemon *d, struct err *e)
{
    const struct ctx ctx = {NULL, d->cancel, 0};
    int64_t due_s;

    d->idle_since_s = now_s();
    for (;;) {
        struct err why = {0};

        /* A full disk or a locked database is no reason to end: the next turn may do. */
        if (turn(d, &why) < 0 || store_next_due(d->services->store, &due_s, &why) < 0) {
            log_line(LOG_WARN, "watch", "%s", why.msg);
            due_s = now_s() + HEARTBEAT_S;
        }
        if (due_s != 0) {
            d->idle_since_s = now_s();
        }
        if (d->how->ends_when_idle && now_s() - d->idle_since_s > WATCHDOG_LINGER_S) {
            return 0;
        }
        if (sleep_until_due(d, &ctx, due_s, e) < 0) {
            return -1;
        }
        if (stamp(d->services->config) != d->config_stamp) {
            return 1;
        }
    }
}

/* With one reading of the configuration. */
static int live(const struct services *s, const struct watchdog_flags *how, struct cancel *cancel,
                struct err *e)
{
    struct daemon d = {.services = s, .how = how, .cancel = cancel, .wake = -1};
    int rc = -1;

    d.config_stamp = stamp(s->config);
    d.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (d.wake < 0) {
        return err_sys(e, errno, "make an eventfd");
    }
    d.rounds = rounds_new(s, wake, &d, e);
    d.deliverer =
        d.rounds == NULL ? NULL : deliverer_new(s->store, s->config->state_dir, wake, &d, e);
    if (d.deliverer != NULL) {
        rc = loop(&d, e);
    }
    deliverer_free(d.deliverer);
    rounds_free(d.rounds);
    (void)close(d.wake);
    return rc;
}

/* Nobody's watches wait for what cannot be read of another program's. */
static void import(const struct services *s)
{
    struct err e;
    size_t n;

    if (legacy_import(s, &n, &e) < 0) {
        log_line(LOG_WARN, "watch", "%s", e.msg);
    }
}

static int init_services(struct services *s, const struct config_flags *flags,
                         struct config *config, struct err *e)
{
    config_load(config, flags);
    watch_hosts_add(config);
    legacy_hosts_add(config);
    return services_init_with(s, config, e);
}

int watchdog_run(const struct config_flags *flags, const struct watchdog_flags *how,
                 struct cancel *cancel, struct err *e)
{
    int locked own_fd = -1;
    int rc;

    do {
        struct services s = {0};
        struct config config;

        rc = init_services(&s, flags, &config, e);
        if (rc == 0 && locked < 0) {
            locked = take_lock(&s, e);
            rc = locked < 0 ? -1 : 0;
        }
        if (rc == 0) {
            import(&s);
        }
        rc = rc < 0 ? -1 : live(&s, how, cancel, e);
        services_fini(&s);
        config_fini(&config);
    } while (rc > 0);
    return rc < 0 && e->kind == ERR_CANCELLED ? 0 : rc;
}
