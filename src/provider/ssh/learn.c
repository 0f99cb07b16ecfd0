/*
 * What a host is like, asked once, by whoever needs it first: where home is, which shell the
 * user logs in with, which system it is, and whether there are bash and a usable "timeout".
 * The question is written so that every login shell can read it, and what the shell's own
 * files print before the answer does not matter.
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
    "printf \"=anybox=%s:%s:%s:%s:%s=end=\" $b $t \"$(uname -sm 2>/dev/null)\" \"$SHELL\" \"$HOME\"'"

static struct str find(struct str text, const char *word)
{
    const char *at = text.len > 0 ? memmem(text.p, text.len, word, strlen(word)) : NULL;

    return at != NULL ? str_skip(text, (size_t)(at - text.p) + strlen(word)) : STR_EMPTY;
}

/* Forgets what a login shell prints before the answer, however much. */
static bool has_answer(struct buf *out)
{
    struct str answer = find(buf_str(out), BEGIN);

    if (answer.p == NULL && out->len > sizeof(BEGIN)) {
        buf_drop(out, out->len - sizeof(BEGIN));
    }
    return answer.p != NULL && find(answer, END).p != NULL;
}

static int ask(struct machine *m, const struct ctx *ctx, struct buf *out, struct err *e)
{
    struct chan *c CLEANUP(chan_close_p) = chan_open(m, CHAN_EXEC, S(QUESTION), 0, e);
    struct buf came[2] = {{0}, {0}};
    int rc = c != NULL ? 0 : -1;

    buf_init(&came[0], CHAN_OUT_MAX);
    buf_init(&came[1], CHAN_OUT_MAX);
    while (rc == 0) {
        struct chan_news news;

        chan_take(c, came, &news);
        buf_add(out, buf_str(&came[0]));
        buf_clear(&came[0]);
        buf_clear(&came[1]);
        if (has_answer(out)) {
            break;
        }
        if (news.state == CHAN_ENDED) {
            *e = news.why;
            rc = news.why.kind != ERR_NONE ? -1 : 1;
            continue;
        }
        rc = chan_wait(c, ctx, NULL, 0, e) < 0 ? -1 : 0;
    }
    buf_fini(&came[0]);
    buf_fini(&came[1]);
    return rc < 0 ? -1 : 0;
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

    if (m->facts.known) {
        return 0;
    }
    m->facts.has_bash = str_eq(str_cut(rest, ':', &rest), S("1"));
    m->facts.has_timeout = str_eq(str_cut(rest, ':', &rest), S("1"));
    m->facts.system = arena_str(&m->arena, str_head(str_cut(rest, ':', &rest), 64));
    m->facts.shell = arena_str(&m->arena, str_cut(rest, ':', &rest));
    m->facts.home = arena_str(&m->arena, str_head(rest, 4096));
    m->facts.is_plain_shell = is_plain(m->facts.shell);
    m->facts.known = true;
    return 0;
}

/* The time to connect, and as much again for the login. */
static int32_t patience_s(struct machine *m)
{
    LOCKED(&m->lock);

    return 2 * (m->conf.connect_timeout_s > 0 ? m->conf.connect_timeout_s : SSH_CONNECT_TIMEOUT_S);
}

int machine_learn(struct machine *m, const struct ctx *ctx, struct err *e)
{
    struct buf answer own_buf = {0};
    struct err ignored = {0};
    struct ctx bounded = *ctx;
    int32_t wait_s = patience_s(m);
    int64_t until_ms = clock_mono_ms() + wait_s * 1000ll;

    if (ctx->deadline_ms == 0 || until_ms < ctx->deadline_ms) {
        bounded.deadline_ms = until_ms;
    }
    buf_init(&answer, CHAN_OUT_MAX + ANSWER_BYTES);
    if (ask(m, &bounded, &answer, e) < 0) {
        return e->kind == ERR_TIMEOUT && ctx_check(ctx, &ignored) == 0
                   ? err_set(e, ERR_UNREACHABLE,
                             "it lets us in, but its login shell has not answered for %d s",
                             (int)wait_s)
                   : -1;
    }
    return read_answer(m, buf_str(&answer), e);
}
