/*
 * What a host is like, asked once, on the first connection: where home is, which shell the
 * user logs in with, and whether there are bash and a usable "timeout". The question is
 * written so that every login shell can read it, and what the shell's own files print
 * before the answer does not matter.
 */
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/thread.h"
#include "provider/ssh/machine.h"

#define ANSWER_BYTES (64u << 10)
#define BEGIN        "=anybox="
#define END          "=end="

#define QUESTION                                                                                   \
    "exec sh -c 'b=0;t=0;command -v bash >/dev/null 2>&1 && b=1;"                                  \
    "timeout -k 1 9 true >/dev/null 2>&1 && t=1;"                                                  \
    "printf \"=anybox=%s:%s:%s:%s=end=\" $b $t \"$SHELL\" \"$HOME\"'"

static struct str find(struct str text, const char *word)
{
    const char *at = text.len > 0 ? memmem(text.p, text.len, word, strlen(word)) : NULL;

    return at != NULL ? str_skip(text, (size_t)(at - text.p) + strlen(word)) : STR_EMPTY;
}

/* Reads what came and forgets what a login shell prints before the answer, however much. */
static bool has_answer(const struct libssh *lib, ssh_channel channel, struct buf *out)
{
    for (int n = 1; n > 0;) {
        char *to = buf_room(out, 4096);

        n = to != NULL ? lib->channel_read_nonblocking(channel, to, 4096, 0) : -1;
        out->len += n > 0 ? (size_t)n : 0;
        struct str answer = find(buf_str(out), BEGIN);
        if (answer.p == NULL && out->len > sizeof(BEGIN)) {
            buf_drop(out, out->len - sizeof(BEGIN));
        } else if (answer.p != NULL && find(answer, END).p != NULL) {
            return true;
        }
    }
    return lib->channel_is_eof(channel);
}

static int ask(struct session *s, ssh_channel channel, int64_t until_ms, struct buf *out,
               struct err *e)
{
    const struct libssh *lib = s->lib;
    enum { OPENING, ASKING, READING } at = OPENING;

    for (;;) {
        int rc = at == OPENING  ? lib->channel_open_session(channel)
                 : at == ASKING ? lib->channel_request_exec(channel, QUESTION)
                                : SSH_AGAIN;
        if (rc == SSH_OK) {
            at = at == OPENING ? ASKING : READING;
            continue;
        }
        if (s->spare == NULL) { /* for the first command, in the same round trip */
            s->spare = lib->channel_new(s->ssh);
            (void)lib->channel_open_session(s->spare);
        }
        if (rc != SSH_AGAIN) {
            return err_set(e, ERR_DENIED, "the server runs no commands for this user: %s",
                           lib->get_error(s->ssh));
        }
        if (at == READING && has_answer(lib, channel, out)) {
            return 0;
        }
        if (session_wait(s, until_ms, e) < 0) {
            return -1;
        }
    }
}

static bool is_plain(struct str shell)
{
    static const char *const plain[] = {"sh",  "bash", "dash", "zsh",
                                        "ksh", "ash",  "mksh", "busybox"};
    struct str base = shell;

    for (size_t i = 0; i < shell.len; i++) {
        if (shell.p[i] == '/') {
            base = str_skip(shell, i + 1);
        }
    }
    for (size_t i = 0; i < COUNTOF(plain); i++) {
        if (str_eq(base, str_from(plain[i]))) {
            return true;
        }
    }
    return false;
}

static int read_answer(struct machine *m, struct str text, struct err *e)
{
    struct str rest = find(text, BEGIN);

    if (rest.p == NULL) {
        return err_set(e, ERR_UNSUPPORTED,
                       "the user's login runs no commands: sh -c printed nothing back (a "
                       "restricted shell, a ForceCommand, or no sh on the host)");
    }
    struct str behind = find(rest, END);
    rest.len -= behind.p != NULL ? behind.len + strlen(END) : 0;
    LOCKED(&m->lock);

    m->facts.has_bash = str_eq(str_cut(rest, ':', &rest), S("1"));
    m->facts.has_timeout = str_eq(str_cut(rest, ':', &rest), S("1"));
    m->facts.shell = arena_str(&m->arena, str_cut(rest, ':', &rest));
    m->facts.home = arena_str(&m->arena, str_head(rest, 4096));
    m->facts.is_plain_shell = is_plain(m->facts.shell);
    m->facts.known = true;
    return 0;
}

int session_learn(struct session *s, int64_t until_ms, struct err *e)
{
    struct machine *m = s->machine;
    struct buf answer own_buf = {0};

    lock(&m->lock);
    bool is_known = m->facts.known;
    unlock(&m->lock);
    /* A jump host need not run commands. */
    if (is_known || m->name.len == 0) {
        return 0;
    }
    ssh_channel channel = s->lib->channel_new(s->ssh);
    if (channel == NULL) {
        return err_set(e, ERR_SYSTEM, "libssh cannot make a channel");
    }
    buf_init(&answer, ANSWER_BYTES);
    int rc = ask(s, channel, until_ms, &answer, e);
    s->lib->channel_free(channel);
    return rc < 0 ? -1 : read_answer(m, buf_str(&answer), e);
}
