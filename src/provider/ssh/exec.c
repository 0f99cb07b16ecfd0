/*
 * A command over a plain channel. The host keeps the time too, but ours runs out first and
 * ends the command's whole group over a second channel. A command is sent once: a connection
 * that breaks after that is the answer.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/own.h"
#include "base/thread.h"
#include "provider/command.h"
#include "provider/ssh/own.h"

#define NOISE_MAX      (64u << 10) /* of a login shell, before the command */
#define GRACE_MS       2000
#define KILL_WAIT_MS   6000 /* connecting for it included */
#define SILENT_MS      2500 /* for a word of the host, after the command's time */
#define MARK_WAIT_MS   1500 /* for a command that was cancelled while it started */
#define AFTER_KILL_MS  5000
#define SELF_TIDY_MS   800 /* a command that took longer may not have tidied up behind itself */
#define LEAVE_AGAIN_MS 5000
#define INPUT_STEP_MS  200
#define BLIND_MAX      (8u << 10) /* bytes of a command that may go to a host not known yet */

struct follow {
    struct machine *machine;
    struct chan *chan;
    const struct ctx *ctx;
    const struct exec_req *req;
    const struct sink *sink;
    char mark[MARK_SIZE];
    struct buf held[2]; /* what came before the marker */
    bool is_marked[2];
    bool is_cwd_bad;
    long group; /* to kill; 0: not known yet */
    uint64_t bytes[2];
    struct buf out[2];
    struct buf in; /* read from the source, not taken yet */
    bool is_in_done;
    bool is_timed_out;
    bool waits;    /* for a connection, which has a time-out of its own */
    bool is_blind; /* the host was not asked yet what it is like, perhaps not even connected to */
};

static void follow_fini(struct follow *f)
{
    chan_close(f->chan);
    for (int i = 0; i < 2; i++) {
        buf_fini(&f->held[i]);
        buf_fini(&f->out[i]);
    }
    buf_fini(&f->in);
}

/* ---- output ------------------------------------------------------------------------ */

static int give(struct follow *f, enum stream from, struct str bytes, struct err *e)
{
    if (bytes.len == 0) {
        return 0;
    }
    f->bytes[from] += bytes.len;
    return f->sink->write(f->sink->arg, from, bytes, e);
}

/* Looks for the marker's line in what was held back. */
static int find_mark(struct follow *f, enum stream from, struct err *e)
{
    struct str held = buf_str(&f->held[from]);
    const char *at = memmem(held.p, held.len, f->mark, MARK_SIZE - 1);
    struct str rest;

    if (at == NULL) {
        if (held.len > NOISE_MAX) {
            buf_drop(&f->held[from], held.len - MARK_SIZE);
        }
        return 0;
    }
    rest = str_skip(held, (size_t)(at - held.p) + MARK_SIZE - 1);
    const char *end = memchr(rest.p, '\n', rest.len);
    if (end == NULL) {
        return 0;
    }
    struct str line = str_head(rest, (size_t)(end - rest.p));
    rest = str_skip(rest, line.len + 1);
    f->is_marked[from] = true;
    if (from == STREAM_OUT) {
        struct err ignored = {0};
        int64_t group = 0;

        (void)!str_to_i64(line, 2, INT32_MAX, &group, &ignored);
        f->group = (long)group;
    } else if (str_eq(line, S("cd"))) {
        f->is_cwd_bad = true;
    }
    int rc = give(f, from, rest, e);
    buf_fini(&f->held[from]);
    return rc;
}

static int deliver(struct follow *f, struct err *e)
{
    for (int i = 0; i < 2; i++) {
        struct str came = buf_str(&f->out[i]);

        if (came.len == 0) {
            continue;
        }
        if (f->is_marked[i]) {
            if (give(f, (enum stream)i, came, e) < 0) {
                return -1;
            }
        } else {
            buf_add(&f->held[i], came);
            if (find_mark(f, (enum stream)i, e) < 0) {
                return -1;
            }
        }
        buf_clear(&f->out[i]);
    }
    return 0;
}

/* ---- input ------------------------------------------------------------------------- */

static int feed(struct follow *f, struct pollfd *waited, struct err *e)
{
    const struct source *from = f->req->input;

    while (!f->is_in_done) {
        if (f->in.len == 0) {
            if (from->fd >= 0 && waited->revents == 0) {
                return 0;
            }
            waited->revents = 0;
            char *to = buf_room(&f->in, f->in.max);
            ssize_t n = from->read(from->arg, to, f->in.max, e);
            if (n < 0) {
                return -1;
            }
            f->in.len = (size_t)n;
            if (n == 0) {
                f->is_in_done = true;
                chan_put_end(f->chan);
                return 0;
            }
        }
        size_t taken = chan_put(f->chan, buf_str(&f->in));
        buf_drop(&f->in, taken);
        if (f->in.len > 0) {
            return 0;
        }
    }
    return 0;
}

/* ---- the end ------------------------------------------------------------------------ */

/* A connection has it, and the host has not said a word. */
static bool is_silent(const struct chan_news *news)
{
    return news->state == CHAN_OPENING || news->state == CHAN_ASKING;
}

/* TERM and KILL over a channel of its own; waits until that was done, as long as it may. False:
 * the host has not even taken the order. */
static bool kill_group(struct follow *f, int grace_ms)
{
    int64_t until_ms = 0;
    struct ctx ctx = {.arena = f->ctx->arena, .deadline_ms = clock_mono_ms() + KILL_WAIT_MS};
    struct err e = {0};
    struct buf text own_buf = {0};
    struct chan_news news = {0};

    buf_init(&text, 1024);
    command_build_kill(f->group, grace_ms, &text);
    struct chan *c CLEANUP(chan_close_p) = chan_open(f->machine, CHAN_EXEC, buf_str(&text), 0, &e);
    if (c == NULL) {
        return false;
    }
    chan_put_end(c);
    do {
        chan_take(c, NULL, &news);
        if (!is_silent(&news)) {
            until_ms = 0;
        } else if (until_ms == 0) {
            until_ms = clock_mono_ms() + SILENT_MS;
        } else if (clock_mono_ms() >= until_ms) {
            break;
        }
    } while (news.state != CHAN_ENDED && chan_wait(c, &ctx, NULL, until_ms, &e) >= 0);
    return !is_silent(&news) && news.state != CHAN_QUEUED && news.why.kind == ERR_NONE;
}

static bool has_ended(struct follow *f)
{
    struct chan_news news = {0};

    chan_take(f->chan, NULL, &news);
    return news.state == CHAN_ENDED && news.why.kind == ERR_NONE;
}

/* True: the host has done it. */
static bool tell_kept(struct follow *f, bool left)
{
    struct ctx ctx = {.arena = f->ctx->arena, .deadline_ms = clock_mono_ms() + KILL_WAIT_MS};
    struct err e = {0};
    struct buf text own_buf = {0};
    struct chan_news news = {0};

    buf_init(&text, 1024);
    command_build_kept(f->req->id, left, &text);
    struct chan *c CLEANUP(chan_close_p) = chan_open(f->machine, CHAN_EXEC, buf_str(&text), 0, &e);
    if (c == NULL) {
        return false;
    }
    chan_put_end(c);
    do {
        chan_take(c, NULL, &news);
    } while (news.state != CHAN_ENDED && chan_wait(c, &ctx, NULL, 0, &e) >= 0);
    return news.has_exit && news.exit_code == 0 && news.exit_signal[0] == '\0';
}

/* The window of a command that is kept is over. True: it goes on without us. Where the host
 * could keep nothing, it is waited for. */
static bool leave(struct follow *f, int64_t started_ms, struct exec_result *out)
{
    struct chan_news now = {0};

    /* The news of this step are older than what it has fed since: looked at again, or the end of
     * the input would be cut. */
    chan_take(f->chan, NULL, &now);
    if (f->group == 0 || !f->is_in_done || !now.is_in_empty || !tell_kept(f, true)) {
        return false;
    }
    lock(&f->chan->lock);
    f->chan->is_left = true;
    unlock(&f->chan->lock);
    *out = (struct exec_result){.end = EXEC_RUNNING,
                                .oom = KNOWN_NOT,
                                .wall_ms = clock_mono_ms() - started_ms,
                                .out_bytes = f->bytes[0],
                                .err_bytes = f->bytes[1]};
    return true;
}

/* The call was taken back. A command that is just starting has not told its group yet. */
static void kill_cancelled(struct follow *f)
{
    struct ctx ctx = {.arena = f->ctx->arena, .deadline_ms = clock_mono_ms() + MARK_WAIT_MS};
    struct err e = {0};
    struct chan_news news = {0};

    for (;;) {
        chan_take(f->chan, f->out, &news);
        if (!news.has_started || news.state == CHAN_ENDED) {
            return;
        }
        (void)!deliver(f, &e);
        if (f->group > 0) {
            (void)kill_group(f, 0);
            return;
        }
        if (chan_wait(f->chan, &ctx, NULL, 0, &e) < 0) {
            return;
        }
    }
}

static int signal_number(const char *name)
{
    static const struct {
        const char *name;
        int number;
    } known[] = {{"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT}, {"ILL", SIGILL},
                 {"TRAP", SIGTRAP}, {"ABRT", SIGABRT}, {"BUS", SIGBUS},   {"FPE", SIGFPE},
                 {"KILL", SIGKILL}, {"USR1", SIGUSR1}, {"SEGV", SIGSEGV}, {"USR2", SIGUSR2},
                 {"PIPE", SIGPIPE}, {"ALRM", SIGALRM}, {"TERM", SIGTERM}, {"XCPU", SIGXCPU},
                 {"XFSZ", SIGXFSZ}, {"SYS", SIGSYS}};

    for (size_t i = 0; i < COUNTOF(known); i++) {
        if (strcmp(name, known[i].name) == 0) {
            return known[i].number;
        }
    }
    return SIGKILL;
}

static int conclude(struct follow *f, const struct chan_news *news, int64_t started_ms,
                    struct exec_result *out, struct err *e)
{
    int64_t wall_ms = clock_mono_ms() - started_ms;

    if (f->is_cwd_bad) {
        return err_set(e, ERR_NOT_FOUND,
                       "the working folder \"%.*s\" is not there or cannot be entered by this user",
                       STR_ARG(str_head(f->req->cwd, 200)));
    }
    for (int i = 0; i < 2; i++) { /* a shell that failed before the marker told why */
        if (!f->is_marked[i] && give(f, (enum stream)i, buf_str(&f->held[i]), e) < 0) {
            return -1;
        }
    }
    if (news->why.kind != ERR_NONE && !f->is_timed_out) {
        out->not_sent = !news->has_started;
        *e = news->why;
        return -1;
    }
    if (f->is_blind && !f->is_marked[STREAM_OUT] && !f->is_timed_out) {
        struct facts facts;

        /* Nothing ran. Perhaps nothing ever does for this login: the question tells. */
        if (ssh_facts(f->machine, f->ctx, &facts, e) < 0) {
            return -1;
        }
    }
    if (!news->has_exit && !f->is_timed_out) {
        return err_set(e, ERR_UNREACHABLE,
                       "the server closed the channel without telling how the command ended");
    }
    *out = (struct exec_result){
        .end = news->exit_signal[0] != '\0' ? EXEC_SIGNALED : EXEC_EXITED,
        .code = news->exit_signal[0] != '\0' ? signal_number(news->exit_signal) : news->exit_code,
        .timed_out = f->is_timed_out ||
                     (f->req->timeout_ms > 0 && wall_ms > f->req->timeout_ms && !news->has_exit),
        .oom = KNOWN_NOT,
        .wall_ms = wall_ms,
        .out_bytes = f->bytes[0],
        .err_bytes = f->bytes[1],
    };
    return 0;
}

/* The time is over and the host says nothing: not that the command runs, or not that it takes the
 * order to end it, which it will do by itself. */
static int fail_silent(const struct follow *f, bool has_started, struct err *e)
{
    int seconds = (int)(f->req->timeout_ms / 1000);

    return has_started
               ? err_set(e, ERR_UNREACHABLE,
                         "the host took the command but has not answered for %d s", seconds)
               : err_set(e, ERR_UNREACHABLE,
                         "the host has not answered for %d s; the command was not sent", seconds);
}

/* 1: it has ended, 0: go on. */
static int step(struct follow *f, struct chan_news *news, struct pollfd *input, int64_t until_ms,
                struct err *e)
{
    chan_take(f->chan, f->out, news);
    if (deliver(f, e) < 0) {
        return -1;
    }
    if (news->state == CHAN_ENDED) {
        return 1;
    }
    if (f->waits && news->has_started) {
        return 0; /* the command's time begins now, before anything is waited for */
    }
    if (!f->is_in_done && feed(f, input, e) < 0) {
        return -1;
    }
    bool wants_input = !f->is_in_done && f->req->input->fd >= 0 && f->in.len == 0;
    return chan_wait(f->chan, f->ctx, wants_input ? input : NULL, until_ms, e) < 0 ? -1 : 0;
}

static int end_well(struct follow *f, const struct chan_news *news, int64_t started_ms,
                    struct exec_result *out, struct err *e)
{
    int rc = conclude(f, news, started_ms, out, e);

    if (rc == 0 && f->req->keep && out->wall_ms >= SELF_TIDY_MS) {
        (void)tell_kept(f, false);
    }
    return rc;
}

static int take_back(struct follow *f)
{
    kill_cancelled(f);
    if (f->req->keep && f->group > 0) {
        (void)tell_kept(f, false);
    }
    return -1;
}

/* Its time is over. 1: it is being killed; 0: that was the end, -1: it cannot be told. */
static int end_time(struct follow *f, const struct chan_news *news, int64_t started_ms,
                    struct exec_result *out, struct err *e)
{
    if (f->is_timed_out) { /* killed, and still not gone: enough */
        return conclude(f, news, started_ms, out, e);
    }
    f->is_timed_out = true;
    bool is_told = f->group != 0 && kill_group(f, GRACE_MS);
    if (is_told || has_ended(f)) {
        return 1;
    }
    if (f->group == 0) {
        kill_cancelled(f);
    }
    out->not_sent = !news->has_started;
    out->timed_out = true;
    return fail_silent(f, news->has_started, e);
}

static bool is_reached(int64_t ms)
{
    return ms > 0 && clock_mono_ms() >= ms;
}

/* When to leave it, after that could not be done at over_ms. */
static int64_t next_try(const struct follow *f, int64_t over_ms)
{
    if (!is_reached(over_ms)) {
        return over_ms;
    }
    return clock_mono_ms() + (f->is_in_done ? LEAVE_AGAIN_MS : INPUT_STEP_MS);
}

/* So long from `from_ms` on; 0: never. */
static int64_t after(int64_t from_ms, int64_t ms)
{
    return ms > 0 ? from_ms + ms : 0;
}

static int run(struct follow *f, struct exec_result *out, struct err *e)
{
    int64_t started_ms = clock_mono_ms();
    int64_t until_ms = f->is_blind ? 0 : after(started_ms, f->req->timeout_ms);
    int64_t over_ms = f->req->keep ? after(started_ms, f->req->over_ms) : 0;
    struct pollfd input = {.fd = f->req->input != NULL ? f->req->input->fd : -1, .events = POLLIN};
    struct chan_news news = {0};

    for (;;) {
        int rc = step(f, &news, &input, over_ms > 0 ? over_ms : until_ms, e);

        if (rc != 0) {
            return rc > 0 ? end_well(f, &news, started_ms, out, e) : take_back(f);
        }
        if (is_reached(over_ms) && leave(f, started_ms, out)) {
            return 0;
        }
        over_ms = next_try(f, over_ms);
        if (f->waits && news.has_started) {
            f->waits = false;
            started_ms = clock_mono_ms();
            until_ms = after(started_ms, f->req->timeout_ms);
        }
        if (is_reached(until_ms)) {
            until_ms = clock_mono_ms() + AFTER_KILL_MS;
            rc = end_time(f, &news, started_ms, out, e);
            if (rc <= 0) {
                return rc;
            }
        }
    }
}

int ssh_exec_plain(struct box *b, const struct ctx *ctx, const struct exec_req *req,
                   const struct sink *output, struct exec_result *out, struct err *e)
{
    struct follow f CLEANUP(follow_fini) = {.machine = machine_of(b),
                                            .ctx = ctx,
                                            .req = req,
                                            .sink = output,
                                            .is_in_done = req->input == NULL};
    struct buf text own_buf = {0};
    struct facts facts;

    if (req->timeout_ms < 0 || req->window_ms < 0) {
        return err_set(e, ERR_INVALID, "a time-out cannot be negative; 0 means none");
    }
    *out = (struct exec_result){.not_sent = true};
    lock(&f.machine->lock);
    facts = f.machine->facts;
    unlock(&f.machine->lock);
    if (!facts.known && (req->command.len > BLIND_MAX || req->n_env + req->n_argv > 0) &&
        ssh_facts(f.machine, ctx, &facts, e) < 0) {
        return -1;
    }
    f.is_blind = f.waits = !facts.known;
    id_hex(f.mark, (MARK_SIZE - 1) / 2);
    for (int i = 0; i < 2; i++) {
        buf_init(&f.held[i], CHAN_OUT_MAX + NOISE_MAX + MARK_SIZE);
        buf_init(&f.out[i], CHAN_OUT_MAX);
    }
    buf_init(&f.in, 64u << 10);
    buf_init(&text, COMMAND_LINE_MAX);
    const struct shell_facts shell = facts_of_shell(&facts);
    if (command_build(&shell, req, f.mark, &text, e) < 0) {
        return -1;
    }
    f.chan = chan_open(f.machine, CHAN_EXEC, buf_str(&text), 0, e);
    if (f.chan == NULL) {
        return -1;
    }
    out->not_sent = false;
    if (f.is_in_done) {
        chan_put_end(f.chan);
        lock(&f.chan->lock);
        f.chan->is_movable = true;
        unlock(&f.chan->lock);
    }
    return run(&f, out, e);
}
