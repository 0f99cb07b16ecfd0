/*
 * A stream to the host: a TCP connection, the two ends of a ProxyCommand, or a channel of a
 * jump host. In the owner thread, with a deadline.
 *
 * getaddrinfo() can neither be given a deadline nor be interrupted: it runs in a thread of
 * its own that is left alone when it takes too long. The jump host's channel becomes a
 * socketpair with a pump (pump.h).
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/proc.h"
#include "base/thread.h"
#include "provider/ssh/pump.h"

/* ---- names -------------------------------------------------------------------------- */

struct lookup {
    atomic_int refs;
    char *host, port[12];
    int event;
    atomic_bool is_done;
    int failure; /* of getaddrinfo() */
    struct addrinfo *found;
};

static void lookup_unref(struct lookup *l)
{
    if (atomic_fetch_sub(&l->refs, 1) > 1) {
        return;
    }
    if (l->found != NULL) {
        freeaddrinfo(l->found);
    }
    (void)close(l->event);
    free(l->host);
    free(l);
}

static void lookup_unref_p(struct lookup **l)
{
    if (*l != NULL) {
        lookup_unref(*l);
    }
}

static void *look_up(void *arg)
{
    struct lookup *l = arg;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};

    l->failure = getaddrinfo(l->host, l->port, &hints, &l->found);
    atomic_store(&l->is_done, true); /* what was found can be read from here on */
    event_add(l->event);
    lookup_unref(l);
    return NULL;
}

static struct lookup *start_lookup(const struct machine *m, struct err *e)
{
    struct lookup *l = xcalloc(1, sizeof(*l));
    pthread_t thread;

    atomic_init(&l->refs, 2);
    atomic_init(&l->is_done, false);
    l->host = xmemdup(m->conf.host.p, m->conf.host.len);
    (void)snprintf(l->port, sizeof(l->port), "%d", machine_port(m));
    l->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->event < 0 || thread_start(&thread, "resolve", look_up, l, e) < 0) {
        if (l->event < 0) {
            (void)err_sys(e, errno, "make an event descriptor");
        }
        atomic_store(&l->refs, 1);
        lookup_unref(l);
        return NULL;
    }
    (void)pthread_detach(thread);
    return l;
}

/* ---- tcp ---------------------------------------------------------------------------- */

/* Sleeps until the descriptor is ready or the session is to end. */
static int wait_fd(struct session *s, int fd, short events, int64_t until_ms, struct err *e)
{
    const struct ctx no_limit = {0};

    for (;;) {
        struct pollfd fds[2] = {{.fd = fd, .events = events}, {.fd = s->wake, .events = POLLIN}};

        lock(&s->machine->lock);
        bool stop = s->is_closing;
        unlock(&s->machine->lock);
        if (stop) {
            return err_set(e, ERR_CANCELLED, "shutting down");
        }
        if (clock_mono_ms() >= until_ms) {
            return err_set(e, ERR_TIMEOUT, "no answer in time");
        }
        if (ctx_wait(&no_limit, fds, 2, until_ms, e) < 0) {
            return -1;
        }
        if (fds[1].revents != 0) {
            event_clear(s->wake);
        }
        if (fds[0].revents != 0) {
            return 0;
        }
    }
}

static int connect_to(struct session *s, const struct addrinfo *to, int64_t until_ms, struct err *e)
{
    int fd own_fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1, failure = 0;
    socklen_t len = sizeof(failure);

    if (fd < 0) {
        return err_sys(e, errno, "cannot make a socket");
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    if (connect(fd, to->ai_addr, to->ai_addrlen) < 0 && errno != EINPROGRESS) {
        return err_set(e, ERR_UNREACHABLE, "%s", strerror(errno));
    }
    if (wait_fd(s, fd, POLLOUT, until_ms, e) < 0) {
        return -1;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &len) < 0 || failure != 0) {
        return err_set(e, ERR_UNREACHABLE, "%s", strerror(failure));
    }
    return take_fd(&fd);
}

static int dial_tcp(struct session *s, int64_t until_ms, struct err *e)
{
    struct lookup *l CLEANUP(lookup_unref_p) = start_lookup(s->machine, e);

    if (l == NULL) {
        return -1;
    }
    if (wait_fd(s, l->event, POLLIN, until_ms, e) < 0) {
        return e->kind == ERR_TIMEOUT
                   ? err_set(e, ERR_UNREACHABLE, "the name service does not answer")
                   : -1;
    }
    if (!atomic_load(&l->is_done) || l->failure != 0) {
        return err_set(e, ERR_UNREACHABLE, "the name \"%s\" is not known: %s", l->host,
                       gai_strerror(l->failure));
    }
    int fd = err_set(e, ERR_UNREACHABLE, "the name has no address");
    for (const struct addrinfo *to = l->found; to != NULL && fd < 0; to = to->ai_next) {
        fd = connect_to(s, to, until_ms, e);
        if (fd < 0 && e->kind != ERR_UNREACHABLE) {
            return -1;
        }
    }
    return fd;
}

/* ---- ProxyCommand --------------------------------------------------------------------- */

/* Names that come from outside reach this shell only when they cannot mean anything to it. */
static bool is_harmless(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.p[i];
        bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    (c != '\0' && strchr("._:%@+-", c) != NULL);

        if (!good) {
            return false;
        }
    }
    return s.len > 0 && s.p[0] != '-';
}

static int expand(const struct machine *m, struct arena *a, const char **out, struct err *e)
{
    struct buf text own_buf = {0};
    struct str user = str_from(machine_user(m, a));
    struct str from = m->conf.proxy_command;

    if (!is_harmless(m->conf.host) || !is_harmless(user)) {
        return err_set(e, ERR_INVALID,
                       "the host's or the user's name has characters that a ProxyCommand cannot "
                       "be given");
    }
    buf_init(&text, 8192);
    buf_add(&text, S("exec "));
    for (size_t i = 0; i < from.len; i++) {
        const char next = (char)(i + 1 < from.len ? from.p[i + 1] : '\0');

        if (from.p[i] != '%' || strchr("hpr%n", next) == NULL || next == '\0') {
            buf_addc(&text, from.p[i]);
            continue;
        }
        i++;
        if (next == 'p') {
            buf_addf(&text, "%d", machine_port(m));
        } else {
            buf_add(&text, next == 'r' ? user : next == '%' ? S("%") : m->conf.host);
        }
    }
    *out = arena_cstr(a, buf_str(&text));
    return 0;
}

/* What a proxy may need, and none of our secrets. */
static const char *const *proxy_env(struct arena *a)
{
    static const char *const names[] = {"PATH", "HOME",          "USER", "LOGNAME",
                                        "LANG", "SSH_AUTH_SOCK", "TERM", "TMPDIR"};
    const char **env = arena_alloc(a, COUNTOF(names) + 1, sizeof(*env));
    size_t n = 0;

    for (size_t i = 0; i < COUNTOF(names); i++) {
        const char *value = getenv(names[i]);

        if (value != NULL) {
            env[n++] = arena_printf(a, "%s=%s", names[i], value).p;
        }
    }
    return env;
}

static int dial_proxy(struct session *s, struct err *e)
{
    struct arena a own_arena = {0};
    const char *command = NULL;
    int ends[2];

    arena_init(&a, 1u << 16);
    if (expand(s->machine, &a, &command, e) < 0) {
        return -1;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        return err_sys(e, errno, "cannot make a socket pair");
    }
    int ours own_fd = ends[0];
    int theirs own_fd = ends[1];
    const char *argv[] = {"sh", "-c", command, NULL};
    const struct proc_fd fds[] = {{.from = theirs, .to = 0}, {.from = theirs, .to = 1}};
    struct proc_spec spec = {.file = "/bin/sh",
                             .argv = argv,
                             .envp = proxy_env(&a),
                             .fds = fds,
                             .n_fds = COUNTOF(fds),
                             .new_session = true};

    if (fd_set_nonblock(ours, true, e) < 0 || proc_spawn(&spec, &s->proxy, e) < 0) {
        return err_wrap(e, "cannot start the ProxyCommand");
    }
    return take_fd(&ours);
}

/* ---- ProxyJump ------------------------------------------------------------------------ */

static int await_open(struct session *s, struct chan *c, int64_t until_ms, struct err *e)
{
    for (;;) {
        struct chan_news news;

        chan_take(c, NULL, &news);
        if (news.state == CHAN_OPEN) {
            return 0;
        }
        if (news.state == CHAN_ENDED) {
            *e = news.why;
            return -1;
        }
        if (wait_fd(s, c->event, POLLIN, until_ms, e) < 0) {
            return -1;
        }
        event_clear(c->event);
    }
}

static int dial_jump(struct session *s, int64_t until_ms, struct err *e)
{
    const struct machine *m = s->machine;
    struct chan *c CLEANUP(chan_close_p) =
        chan_open(m->jump, CHAN_TCP, m->conf.host, machine_port(m), e);
    char where[WHERE_SIZE];
    int ends[2];

    if (c == NULL || await_open(s, c, until_ms, e) < 0) {
        return err_wrap(e, "through %s", machine_where(m->jump, where));
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0) {
        return err_sys(e, errno, "cannot make a socket pair");
    }
    int ours own_fd = ends[0];
    int theirs own_fd = ends[1];
    s->pump = pump_start(c, theirs, e);
    if (s->pump == NULL) {
        return -1;
    }
    c = NULL;
    (void)take_fd(&theirs); /* both are the pump's now */
    return take_fd(&ours);
}

/* ---- the whole -------------------------------------------------------------------------- */

int session_dial(struct session *s, int64_t until_ms, struct err *e)
{
    const struct machine *m = s->machine;

    if (m->conf.proxy_command.len > 0) {
        s->fd = dial_proxy(s, e);
    } else if (m->jump != NULL) {
        s->fd = dial_jump(s, until_ms, e);
    } else {
        s->fd = dial_tcp(s, until_ms, e);
    }
    return s->fd < 0 ? -1 : 0;
}

void session_hang_up(struct session *s)
{
    if (s->fd >= 0) {
        (void)close(s->fd);
        s->fd = -1;
    }
    pump_stop(s->pump);
    s->pump = NULL;
    if (s->proxy > 0) {
        (void)kill(-s->proxy, SIGTERM);
        (void)kill(s->proxy, SIGKILL);
        (void)waitpid(s->proxy, NULL, 0);
        s->proxy = 0;
    }
}
