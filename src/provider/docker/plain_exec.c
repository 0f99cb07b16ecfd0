/*
 * plain_exec.c - a command in a container without our agent: one exec of the engine's each.
 *
 * Around the text of command.h stands a shell that stays. It first tells its process id, which is that of the
 * session, and when the command has ended it says so at the end of both streams: a process that the
 * command left behind holds them open, and the engine would go on waiting for it. It also tells whether a signal
 * ended the command, which the engine's exit code does not (137 may be either): a shell prints something about a
 * child that was killed, and nothing about one that exited.
 *
 * An exec cannot be ended through the engine. So a command whose time is over, or whose call was taken back, is
 * ended by another exec, which finds all of the session in /proc. What the container prints is only ever
 * output: code in it that prints our marks changes what is told of its own command.
 */
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/own.h"
#include "provider/command.h"
#include "provider/docker/docker.h"
#include "provider/docker/plain.h"
#include "provider/kept.h"

#define READ_SIZE      (128u << 10)
#define NOISE_MAX      (64u << 10)
#define END_SIGN       '\036' /* before the mark that ends a stream */
#define END_LINE       64
#define HELD_MS        100 /* for the rest of what may be the end of a stream */
#define GRACE_MS       2000
#define ASIDE_MS       30000 /* for what is done to a command beside it */
#define START_WAIT_MS  20000 /* for a command that was cancelled while it started */
#define AFTER_KILL_MS  5000
#define SELF_TIDY_MS   800
#define LEAVE_AGAIN_MS 5000

/* One of the two streams: the mark's line, the command's bytes, the end's line. */
struct side {
    struct buf held; /* what came before the mark */
    bool is_marked, is_ended;
    size_t n_sign;   /* bytes of the end's sign and mark that came */
    size_t n_given;  /* of those, given as output */
    struct buf line; /* after them */
    uint64_t bytes;
};

struct follow {
    struct docker_box *box;
    const struct ctx *ctx;
    const struct exec_req *req;
    const struct sink *sink;
    struct wire wire;
    struct frames frames;
    char mark[MARK_SIZE];
    struct side sides[2];
    long session; /* 0: not known yet */
    int code;
    bool is_signal, is_cwd_bad, is_timed_out, is_over;
    struct buf in;
    bool is_in_done;
    int64_t started_ms, until_ms, over_ms, held_ms;
};

static void follow_fini(struct follow *f)
{
    wire_close(&f->wire);
    for (int i = 0; i < 2; i++) {
        buf_fini(&f->sides[i].held);
        buf_fini(&f->sides[i].line);
    }
    buf_fini(&f->in);
}

/* ---- output ------------------------------------------------------------------------------------ */

static int give(struct follow *f, enum stream from, struct str bytes, struct err *e)
{
    if (bytes.len == 0) {
        return 0;
    }
    f->sides[from].bytes += bytes.len;
    return f->sink->write(f->sink->arg, from, bytes, e);
}

/* What looked like the end's beginning was output, or may be. */
static int give_sign(struct follow *f, enum stream from, struct err *e)
{
    struct side *s = &f->sides[from];
    char text[MARK_SIZE] = {END_SIGN};

    memcpy(text + 1, f->mark, MARK_SIZE - 1);
    struct str all = str_skip((struct str){text, s->n_sign}, s->n_given);
    s->n_given = s->n_sign;
    return give(f, from, all, e);
}

/* "137 s": the status, and whether it is a signal's. */
static void take_end(struct follow *f, enum stream from)
{
    struct side *s = &f->sides[from];
    struct str rest;
    struct str number = str_cut(buf_str(&s->line), ' ', &rest);
    struct err ignored;
    int64_t code = 0;

    s->is_ended = true;
    if (from == STREAM_OUT && str_to_i64(number, 0, 255, &code, &ignored) == 0) {
        f->code = (int)code;
        f->is_signal = str_eq(rest, S("s")) && code > 128;
    }
}

/* One byte within what may be the end. */
static int take_sign(struct follow *f, enum stream from, char c, struct err *e)
{
    struct side *s = &f->sides[from];

    if (s->n_sign == MARK_SIZE) {
        if (c == '\n') {
            take_end(f, from);
            return 0;
        }
        buf_addc(&s->line, c);
        return 0;
    }
    if (c == f->mark[s->n_sign - 1]) {
        s->n_sign++;
        return 0;
    }
    int rc = give_sign(f, from, e);
    s->n_sign = s->n_given = c == END_SIGN ? 1 : 0;
    s->n_given = 0;
    return rc < 0 || c == END_SIGN ? rc : give(f, from, (struct str){&c, 1}, e);
}

static int take_marked(struct follow *f, enum stream from, struct str bytes, struct err *e)
{
    struct side *s = &f->sides[from];

    while (bytes.len > 0 && !s->is_ended) {
        const char *at;

        if (s->n_sign > 0) {
            if (take_sign(f, from, bytes.p[0], e) < 0) {
                return -1;
            }
            bytes = str_skip(bytes, 1);
            continue;
        }
        at = memchr(bytes.p, END_SIGN, bytes.len);
        struct str run = at != NULL ? str_head(bytes, (size_t)(at - bytes.p)) : bytes;
        if (give(f, from, run, e) < 0) {
            return -1;
        }
        bytes = str_skip(bytes, at != NULL ? run.len + 1 : run.len);
        s->n_sign = at != NULL ? 1 : 0;
    }
    return 0;
}

/* The first line of stdout, before the mark's, is the session's id. */
static void take_session(struct follow *f)
{
    struct str rest;
    struct str line = str_cut(buf_str(&f->sides[STREAM_OUT].held), '\n', &rest);
    struct err ignored;
    int64_t n = 0;

    if (rest.p != NULL && str_to_i64(line, 2, INT32_MAX, &n, &ignored) == 0) {
        f->session = (long)n;
    }
}

static int find_mark(struct follow *f, enum stream from, struct err *e)
{
    struct side *s = &f->sides[from];
    struct str held = buf_str(&s->held);
    struct str rest;

    if (from == STREAM_OUT && f->session == 0) {
        take_session(f);
    }
    const char *at = held.len > 0 ? memmem(held.p, held.len, f->mark, MARK_SIZE - 1) : NULL;
    if (at == NULL) {
        return held.len < NOISE_MAX
                   ? 0
                   : err_set(e, ERR_PROTOCOL, "the container's shell greets with something else");
    }
    struct str line = str_skip(held, (size_t)(at - held.p) + MARK_SIZE - 1);
    line = str_cut(line, '\n', &rest);
    if (rest.p == NULL) {
        return 0;
    }
    /* The command was never begun: this is its end already. */
    bool is_end = at > held.p && at[-1] == END_SIGN;
    s->is_marked = true;
    if (is_end) {
        buf_add(&s->line, line);
        take_end(f, from);
        return 0;
    }
    f->is_cwd_bad = f->is_cwd_bad || (from == STREAM_ERR && str_eq(line, S("cd")));
    return take_marked(f, from, rest, e);
}

static int take_piece(void *arg, enum stream from, struct str bytes, struct err *e)
{
    struct follow *f = arg;
    struct side *s = &f->sides[from];

    if (s->is_marked) {
        return take_marked(f, from, bytes, e);
    }
    buf_add(&s->held, bytes);
    return find_mark(f, from, e);
}

/* ---- input ------------------------------------------------------------------------------------- */

static int feed(struct follow *f, struct pollfd *waited, struct err *e)
{
    const struct source *from = f->req->input;

    while (!f->is_in_done) {
        if (f->in.len == 0) {
            if (from->fd >= 0 && waited->revents == 0) {
                return 0;
            }
            waited->revents = 0;
            ssize_t n = from->read(from->arg, buf_room(&f->in, f->in.max), f->in.max, e);
            if (n < 0) {
                return -1;
            }
            f->in.len = (size_t)n;
            if (n == 0) {
                f->is_in_done = true;
                (void)shutdown(f->wire.fd, SHUT_WR);
                return 0;
            }
        }
        ssize_t sent = wire_send(&f->wire, buf_str(&f->in), e);
        if (sent < 0) { /* nobody reads it; how the command ended is told */
            f->is_in_done = true;
            return 0;
        }
        buf_drop(&f->in, (size_t)sent);
        if (f->in.len > 0) {
            return 0;
        }
    }
    return 0;
}

/* ---- beside it --------------------------------------------------------------------------------- */

static int run_aside(struct follow *f, struct str script)
{
    struct ctx ctx = {.arena = f->ctx->arena, .deadline_ms = clock_mono_ms() + ASIDE_MS};
    struct err ignored;
    int status = -1;

    return plain_run(f->box, &ctx, script, &status, &ignored) < 0 ? -1 : status;
}

/* TERM to all of its session, KILL after the grace. */
static bool kill_session(struct follow *f, int grace_ms)
{
    struct buf text own_buf = {0};

    buf_init(&text, 2048);
    plain_add_kill(&text, f->session, grace_ms);
    return f->session > 0 && run_aside(f, buf_str(&text)) == 0;
}

static bool tell_kept(struct follow *f, bool left)
{
    struct buf text own_buf = {0};

    buf_init(&text, 1024);
    command_build_kept(f->req->id, left, &text);
    return run_aside(f, buf_str(&text)) == 0;
}

/* ---- the end ----------------------------------------------------------------------------------- */

static bool has_ended(const struct follow *f)
{
    return f->sides[0].is_ended && f->sides[1].is_ended;
}

/* The stream ended before the command told its end. */
static int explain_end(struct follow *f, struct err *e)
{
    struct err why = *e;

    if (container_usable(docker_of(f->box->agent.box.provider), f->ctx, str_from(f->box->id), e) <
        0) {
        return -1;
    }
    if (f->session == 0) {
        return err_set(e, ERR_UNSUPPORTED,
                       "the image has no /bin/sh that could run commands, and this sandbox has no "
                       "agent of ours: use an image with a shell");
    }
    *e = why;
    return why.sys == 0 ? err_set(e, ERR_UNREACHABLE,
                                  "the shell of the command was ended from elsewhere, or the "
                                  "connection to the container engine was lost")
                        : -1;
}

static int conclude(struct follow *f, struct exec_result *out, struct err *e)
{
    int64_t wall_ms = clock_mono_ms() - f->started_ms;

    if (f->is_cwd_bad && !f->is_timed_out) {
        return err_set(e, ERR_NOT_FOUND,
                       "the working folder \"%.*s\" is not there or cannot be entered by this user",
                       STR_ARG(str_head(f->req->cwd, 200)));
    }
    bool is_killed = f->is_timed_out && !has_ended(f);
    *out = (struct exec_result){
        .end = f->is_signal || is_killed ? EXEC_SIGNALED : EXEC_EXITED,
        .code = is_killed      ? SIGKILL
                : f->is_signal ? f->code - 128
                               : f->code,
        .timed_out = f->is_timed_out,
        .oom = KNOWN_NOT,
        .wall_ms = wall_ms,
        .out_bytes = f->sides[STREAM_OUT].bytes,
        .err_bytes = f->sides[STREAM_ERR].bytes,
    };
    if (f->req->keep && wall_ms >= SELF_TIDY_MS) {
        (void)tell_kept(f, false);
    }
    return 0;
}

static bool is_reached(int64_t ms)
{
    return ms > 0 && clock_mono_ms() >= ms;
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a == 0 || (b > 0 && b < a) ? b : a;
}

/* 1: something came, 0: nothing for now, -1. */
static int receive(struct follow *f, struct err *e)
{
    char *room own_mem = xmalloc(READ_SIZE);
    ssize_t n = wire_recv(&f->wire, room, READ_SIZE, e);

    if (n <= 0) {
        f->is_over = n < 0;
        return (int)n;
    }
    f->held_ms = 0;
    if (frames_take(&f->frames, (struct str){room, (size_t)n}, take_piece, f, e) < 0) {
        return -1;
    }
    for (int i = 0; i < 2; i++) {
        if (f->sides[i].n_sign > f->sides[i].n_given && f->sides[i].n_sign < MARK_SIZE) {
            f->held_ms = clock_mono_ms() + HELD_MS;
        }
    }
    return 1;
}

/* Nothing followed what may be the end's beginning: whoever speaks with the command waits for it. */
static int release_held(struct follow *f, struct err *e)
{
    f->held_ms = 0;
    for (int i = 0; i < 2; i++) {
        if (f->sides[i].n_sign < MARK_SIZE && give_sign(f, (enum stream)i, e) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Waits for something, and takes it. */
static int step(struct follow *f, struct pollfd *input, struct err *e)
{
    const struct source *from = f->req->input;
    bool wants_input = !f->is_in_done && f->in.len == 0 && from != NULL && from->fd >= 0;
    struct pollfd fds[2] = {{.fd = f->wire.fd, .events = POLLIN}, {.fd = -1, .events = POLLIN}};
    int came = receive(f, e);

    if (came != 0 || has_ended(f)) {
        return came < 0 ? -1 : 0;
    }
    if (!f->is_in_done && f->in.len > 0) {
        fds[0].events |= POLLOUT;
    }
    fds[1].fd = wants_input ? input->fd : -1;
    int64_t until_ms = sooner(sooner(f->until_ms, f->over_ms), f->held_ms);
    bool is_eager = !f->is_in_done && f->in.len == 0 && !wants_input;
    if (!is_eager && ctx_wait(f->ctx, fds, 2, until_ms, e) < 0) {
        return -1;
    }
    input->revents = fds[1].revents;
    if (is_reached(f->held_ms) && release_held(f, e) < 0) {
        return -1;
    }
    return f->is_in_done ? 0 : feed(f, input, e);
}

/* The call was taken back. A command that is just starting has not told its session yet. */
static int take_back(struct follow *f)
{
    struct ctx ctx = {.arena = f->ctx->arena, .deadline_ms = clock_mono_ms() + START_WAIT_MS};
    struct pollfd fd = {.fd = f->wire.fd, .events = POLLIN};
    struct err ignored;

    while (f->session == 0 && !f->is_over && receive(f, &ignored) >= 0 && f->session == 0 &&
           ctx_wait(&ctx, &fd, 1, 0, &ignored) >= 0) {
    }
    (void)kill_session(f, 0);
    if (f->req->keep && f->session > 0) {
        (void)tell_kept(f, false);
    }
    return -1;
}

/* Its window is over. True: it goes on without us. */
static bool leave(struct follow *f, struct exec_result *out)
{
    if (f->session == 0 || !f->is_in_done || !tell_kept(f, true)) {
        return false;
    }
    *out = (struct exec_result){.end = EXEC_RUNNING,
                                .oom = KNOWN_NOT,
                                .wall_ms = clock_mono_ms() - f->started_ms,
                                .out_bytes = f->sides[STREAM_OUT].bytes,
                                .err_bytes = f->sides[STREAM_ERR].bytes};
    return true;
}

/* Its time is over: once it is killed, and then no longer waited for. */
static int end_time(struct follow *f, struct exec_result *out, struct err *e)
{
    if (f->is_timed_out) {
        return conclude(f, out, e);
    }
    f->is_timed_out = true;
    f->until_ms = 0;
    if (kill_session(f, GRACE_MS) || has_ended(f)) {
        f->until_ms = clock_mono_ms() + AFTER_KILL_MS;
        return 1;
    }
    out->timed_out = true;
    return err_set(e, ERR_UNREACHABLE,
                   "the container took the command but has not answered for %d s",
                   (int)(f->req->timeout_ms / 1000));
}

static int run(struct follow *f, struct exec_result *out, struct err *e)
{
    struct pollfd input = {.fd = f->req->input != NULL ? f->req->input->fd : -1, .events = POLLIN};

    for (;;) {
        int rc = step(f, &input, e);

        if (has_ended(f) || (rc < 0 && f->is_over && f->is_timed_out)) {
            return conclude(f, out, e);
        }
        if (rc < 0) {
            return f->is_over ? explain_end(f, e) : take_back(f);
        }
        if (is_reached(f->over_ms)) {
            if (leave(f, out)) {
                return 0;
            }
            f->over_ms = clock_mono_ms() + LEAVE_AGAIN_MS;
        }
        rc = is_reached(f->until_ms) ? end_time(f, out, e) : 1;
        if (rc <= 0) {
            return rc;
        }
    }
}

/* ---- the whole --------------------------------------------------------------------------------- */

/* "s" is told where the shell printed something about a child that a signal ended. The command's own
 * stderr is put in its place by a shell in between: some apply a redirection in the shell that waits, too. Only
 * builtins whose failure does not end the shell write files. */
#define AROUND                                                                                     \
    "echo $$;printf '' 2>/dev/null >" PLAIN_USED ";k=" AGENT_DIR "/run/s$$;"                       \
    "printf '' 2>/dev/null >$k||k=/dev/null;exec 4>&2;{ /bin/sh -c \"$1 2>&4 4>&-\";} 2>$k;c=$?;"  \
    "s=;[ $c -le 128 ]||[ ! -s $k ]||s=s;[ $k = /dev/null ]||rm -f $k;"                            \
    "printf '\\036%s%s %s\\n' $2 $c $s;printf '\\036%s\\n' $2 >&2"

static int add_command(struct follow *f, const struct shell_facts *facts, struct buf *to,
                       struct err *e)
{
    struct buf text own_buf = {0};

    buf_init(&text, COMMAND_LINE_MAX);
    if (command_build(facts, f->req, f->mark, &text, e) < 0) {
        return -1;
    }
    buf_add(to, S("[\"/bin/sh\",\"-c\","));
    value_quote(to, S(AROUND));
    buf_add(to, S(",\"sh\","));
    value_quote(to, buf_str(&text));
    buf_addf(to, ",\"%s\"]", f->mark);
    return to->cut ? err_set(e, ERR_LIMIT, "the command is too long") : 0;
}

static int start(struct follow *f, struct str command, struct exec_result *out, struct err *e)
{
    struct docker *d = docker_of(f->box->agent.box.provider);
    const struct exec_order order = {.doing = "cannot run a command in the container",
                                     .command = command,
                                     .has_input = f->req->input != NULL};
    struct str exec = STR_EMPTY;
    struct str rest = STR_EMPTY;
    bool again = false;

    if (exec_make(d, f->ctx, f->box, &order, &exec, &again, e) < 0) {
        return -1;
    }
    out->not_sent = false;
    return exec_start(d, f->ctx, exec, order.doing, &f->wire, &rest, e) < 0
               ? -1
               : frames_take(&f->frames, rest, take_piece, f, e);
}

static int64_t after(int64_t from_ms, int64_t ms)
{
    return ms > 0 ? from_ms + ms : 0;
}

int plain_exec_with(struct docker_box *db, const struct ctx *ctx, const struct shell_facts *facts,
                    const struct exec_req *req, const struct sink *output, struct exec_result *out,
                    struct err *e)
{
    struct follow f CLEANUP(follow_fini) = {.box = db,
                                            .ctx = ctx,
                                            .req = req,
                                            .sink = output,
                                            .wire = WIRE_NONE,
                                            .is_in_done = req->input == NULL};
    struct buf command own_buf = {0};

    *out = (struct exec_result){.not_sent = true};
    if (req->timeout_ms < 0 || req->window_ms < 0) {
        return err_set(e, ERR_INVALID, "a time-out cannot be negative; 0 means none");
    }
    id_hex(f.mark, (MARK_SIZE - 1) / 2);
    for (int i = 0; i < 2; i++) {
        buf_init(&f.sides[i].held, NOISE_MAX + READ_SIZE);
        buf_init(&f.sides[i].line, END_LINE);
    }
    buf_init(&f.in, 64u << 10);
    buf_init(&command, 8 * (size_t)COMMAND_LINE_MAX);
    if (add_command(&f, facts, &command, e) < 0) {
        return -1;
    }
    f.started_ms = clock_mono_ms();
    f.until_ms = after(f.started_ms, req->timeout_ms);
    f.over_ms = req->keep ? after(f.started_ms, req->over_ms) : 0;
    return start(&f, buf_str(&command), out, e) < 0 ? -1 : run(&f, out, e);
}
