/* From nothing to a connection that calls can use, in the owner thread. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/path.h"
#include "base/thread.h"
#include "provider/ssh/machine.h"

#define STEP_MS 200 /* libssh is asked at least so often while it connects */

/* Preferred for speed on machines with AES instructions: the library would take chacha20. */
#define CIPHERS                                                                                    \
    "aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,"                 \
    "aes256-ctr,aes192-ctr,aes128-ctr"

void session_hurry(struct session *s)
{
    int on = 1;

    /* For this once: the kernel falls back with the next packet. A ProxyCommand's socket has no such thing. */
    (void)setsockopt(s->lib->get_fd(s->ssh), IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on));
}

int session_wait(struct session *s, int64_t until_ms, struct err *e)
{
    int64_t now = clock_mono_ms();
    struct pollfd fds[2] = {{.fd = s->ssh ? s->lib->get_fd(s->ssh) : s->fd, .events = POLLIN},
                            {.fd = s->wake, .events = POLLIN}};
    const struct ctx no_limit = {0};
    bool stop;

    if (s->ssh != NULL) {
        session_hurry(s);
        if (s->lib->get_poll_flags(s->ssh) & SSH_WRITE_PENDING) {
            fds[0].events |= POLLOUT;
        }
    }
    lock(&s->machine->lock);
    stop = s->is_closing;
    unlock(&s->machine->lock);
    if (stop) {
        return err_set(e, ERR_CANCELLED, "shutting down");
    }
    if (now >= until_ms) {
        return err_set(e, ERR_TIMEOUT, "no answer in time");
    }
    if (ctx_wait(&no_limit, fds, 2, now + STEP_MS < until_ms ? now + STEP_MS : until_ms, e) < 0) {
        return -1;
    }
    if (fds[1].revents != 0) {
        event_clear(s->wake);
    }
    return 0;
}

/* ---- options ----------------------------------------------------------------------- */

static int set(struct session *s, enum ssh_options_e option, const void *value, struct err *e)
{
    if (s->lib->options_set(s->ssh, option, value) < 0) {
        return err_set(e, ERR_INVALID, "libssh refuses option %d: %s", (int)option,
                       s->lib->get_error(s->ssh));
    }
    return 0;
}

static int set_options(struct session *s, struct arena *a, struct err *e)
{
    const struct machine *m = s->machine;
    bool has_alias = m->conf.host_key_alias.len > 0;
    int off = 0, on = 1;
    unsigned port = has_alias ? SSH_PORT : (unsigned)machine_port(m);

    /* The name and the port are what known_hosts is searched for; the socket is ours. */
    if (set(s, SSH_OPTIONS_PROCESS_CONFIG, &off, e) < 0 ||
        set(s, SSH_OPTIONS_HOST, has_alias ? m->conf.host_key_alias.p : m->conf.host.p, e) < 0 ||
        set(s, SSH_OPTIONS_PORT, &port, e) < 0 ||
        set(s, SSH_OPTIONS_USER, machine_user(m, a), e) < 0 ||
        set(s, SSH_OPTIONS_KNOWNHOSTS, machine_known_hosts(m, a), e) < 0 ||
        set(s, SSH_OPTIONS_CIPHERS_C_S, CIPHERS, e) < 0 ||
        set(s, SSH_OPTIONS_CIPHERS_S_C, CIPHERS, e) < 0 ||
        set(s, SSH_OPTIONS_NODELAY, &on, e) < 0) {
        return -1;
    }
    return set(s, SSH_OPTIONS_FD, &s->fd, e);
}

static int handshake(struct session *s, int64_t until_ms, struct err *e)
{
    for (;;) {
        int rc = s->lib->connect(s->ssh);

        if (rc == SSH_OK) {
            return 0;
        }
        if (rc != SSH_AGAIN) {
            return err_set(e, ERR_UNREACHABLE, "the SSH handshake failed: %s",
                           s->lib->get_error(s->ssh));
        }
        if (session_wait(s, until_ms, e) < 0) {
            if (e->kind == ERR_TIMEOUT) {
                (void)err_set(e, ERR_UNREACHABLE,
                              "it took the connection but did not finish the SSH handshake in "
                              "time");
            }
            return -1;
        }
    }
}

static int open_ssh(struct session *s, struct arena *a, int64_t until_ms, struct err *e)
{
    s->ssh = s->lib->new ();
    if (s->ssh == NULL) {
        return err_set(e, ERR_SYSTEM, "libssh cannot make a session");
    }
    s->lib->set_blocking(s->ssh, 0);
    s->lib->set_counters(s->ssh, NULL, &s->count);
    if (set_options(s, a, e) < 0) {
        return -1;
    }
    s->fd = -1; /* libssh closes it from here on */
    if (handshake(s, until_ms, e) < 0 || session_check_key(s, e) < 0) {
        return -1;
    }
    return session_login(s, until_ms, e);
}

static int32_t timeout_s(const struct machine *m)
{
    return m->conf.connect_timeout_s > 0 ? m->conf.connect_timeout_s : SSH_CONNECT_TIMEOUT_S;
}

static void *open_library(void *arg)
{
    struct err ignored = {0};

    (void)arg;
    (void)!libssh_open(&ignored);
    return NULL;
}

/* What ~/.ssh/config says and the stream, while the library is opened: that takes some
 * milliseconds, and none of the three needs another. */
static int dial(struct session *s, int64_t *until_ms, struct err *e)
{
    const struct machine *m = s->machine;
    struct err ignored = {0};
    pthread_t opener;
    bool has_opener = thread_start(&opener, "libssh", open_library, NULL, &ignored) == 0;
    int rc = machine_resolve(s->machine, e);

    *until_ms = clock_mono_ms() + timeout_s(m) * 1000ll;
    if (rc == 0) {
        rc = session_dial(s, *until_ms, e);
    }
    if (has_opener) {
        (void)pthread_join(opener, NULL);
    }
    if (rc == 0) {
        s->lib = libssh_open(e);
    }
    return rc == 0 && s->lib != NULL ? 0 : -1;
}

int session_connect(struct session *s, struct err *e)
{
    struct machine *m = s->machine;
    struct arena a own_arena = {0};
    char where[WHERE_SIZE];
    int64_t until_ms;

    arena_init(&a, 1u << 20);
    if (dial(s, &until_ms, e) < 0 || open_ssh(s, &a, until_ms, e) < 0) {
        if (e->kind == ERR_TIMEOUT) {
            (void)err_set(e, ERR_UNREACHABLE, "no answer within %d s", (int)timeout_s(m));
        }
        return err_wrap(e, "cannot connect to %s", machine_where(m, where));
    }
    return 0;
}
