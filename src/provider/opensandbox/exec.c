/*
 * exec.c - a command, from its POST to the event that tells its end.
 *
 * While the stream is read, a tick looks at the clocks: a command whose time is over is ended
 * through execd (DELETE), one that is to be kept is left at the end of its window, and a stream
 * that says nothing although execd should ping every 3 s is doubted: execd is asked for the
 * command's status on another connection. A stream that broke off is made up for by that
 * status and by the files that execd writes outputs to. A command is sent once.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/own.h"
#include "base/path.h"
#include "provider/opensandbox/own.h"
#include "provider/opensandbox/script.h"
#include "provider/opensandbox/stream.h"
#include "provider/shell.h"

#define KEEPER_SLACK_MS 5000  /* execd's clock runs out after ours */
#define STALL_MS        20000 /* pings come every 3 s */
#define AFTER_KILL_MS   6000
#define ASIDE_MS        8000 /* for what is done to a command beside its stream */
#define TICK_MS         250
#define RECOVER_MS      30000 /* for execd to come back */
#define RECOVER_GAP_MS  100
#define SELF_TIDY_MS    1000
#define DEAF_MS         2000 /* an execd that runs says something at once */
#define NO_CWD          125
#define PIECE_MAX       (16u << 20)

struct follow {
    struct osb_box *box;
    struct osb_provider *provider;
    const struct ctx *ctx;
    const struct exec_req *req;
    const struct sink *sink;
    struct way *way;
    char mark[SCRIPT_MARK];
    char id[80]; /* of the command, as execd has it */
    struct str cwd;
    struct events events;
    struct lines lines[2];
    int64_t started_ms, heard_ms, until_ms, over_ms;
    bool is_timed_out, is_left, has_end, has_failed_start, is_cwd_bad, is_lost;
    bool has_heard, has_looked;
    struct str held[2]; /* other names of the files that execd writes the outputs to */
    struct exec_result result;
    struct err late; /* what execd said at the end of the stream */
};

static struct ctx aside(const struct follow *f)
{
    return (struct ctx){.arena = f->ctx->arena, .deadline_ms = clock_mono_ms() + ASIDE_MS};
}

/* ---- events ------------------------------------------------------------------------------------ */

static int give(struct follow *f, enum stream from, struct str bytes, struct err *e)
{
    return bytes.len == 0 ? 0 : f->sink->write(f->sink->arg, from, bytes, e);
}

static int on_line(struct follow *f, enum stream from, struct str text, struct err *e)
{
    struct lines *l = &f->lines[from];
    struct line line;

    lines_take(l, text, &line);
    f->is_cwd_bad = f->is_cwd_bad || str_eq(line.note, S("cd"));
    return give(f, from, line.pieces[0], e) < 0 || give(f, from, line.pieces[1], e) < 0 ? -1 : 0;
}

/* It becomes part of addresses, which the server may be asked for with our key: what runs in the
 * sandbox must not choose them. Without it a stream that breaks off is lost. */
static void keep_id(struct follow *f, struct str id)
{
    static const char allowed[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-";

    if (id.len >= sizeof(f->id)) {
        return;
    }
    (void)snprintf(f->id, sizeof(f->id), "%.*s", STR_ARG(id));
    if (strspn(f->id, allowed) != id.len) {
        f->id[0] = '\0';
    }
}

static int on_event(void *arg, const struct event *event, struct err *e)
{
    struct follow *f = arg;

    switch (event->type) {
    case EVENT_INIT: keep_id(f, event->text); return WEB_MORE;
    case EVENT_OUT: return on_line(f, STREAM_OUT, event->text, e) < 0 ? -1 : WEB_MORE;
    case EVENT_ERR: return on_line(f, STREAM_ERR, event->text, e) < 0 ? -1 : WEB_MORE;
    case EVENT_DONE:
        f->has_end = true;
        f->result.end = EXEC_EXITED;
        f->result.code = 0;
        return WEB_ENOUGH;
    case EVENT_ERROR:
        f->has_end = true;
        if (!event_result(event, &f->result)) {
            f->has_failed_start = true;
            (void)err_set(
                &f->late, ERR_SYSTEM, "the sandbox could not start a shell: %.*s",
                STR_ARG(str_head(event->value.len > 0 ? event->value : event->trace, 200)));
        }
        return WEB_ENOUGH;
    case EVENT_LATE:
        (void)err_set(&f->late, ERR_SYSTEM, "the sandbox's execd failed: %.*s: %.*s",
                      STR_ARG(str_head(event->value, 80)), STR_ARG(str_head(event->text, 240)));
        return WEB_ENOUGH;
    case EVENT_OTHER: return WEB_MORE;
    }
    return WEB_MORE;
}

static int on_bytes(void *arg, struct str bytes, struct err *e)
{
    struct follow *f = arg;

    f->heard_ms = clock_mono_ms();
    f->has_heard = true;
    return events_take(&f->events, bytes, on_event, f, e);
}

/* ---- beside the stream --------------------------------------------------------------------------- */

static int run_aside(struct follow *f, struct str script, int *status)
{
    struct ctx ctx = aside(f);
    struct buf said own_buf = {0};
    struct err ignored;

    buf_init(&said, 4096);
    return osb_run(f->box, &ctx, NULL, script, &said, status, &ignored);
}

/* TERM to the group, KILL after 3 s: execd does that. Then what its leader left. */
static void end_command(struct follow *f)
{
    struct ctx ctx = aside(f);
    struct web_req req = {.silence_ms = ASIDE_MS};
    struct web_resp resp own_resp;
    struct buf text own_buf = {0};
    struct err ignored;
    int status = 0;

    web_resp_init(&resp);
    buf_init(&text, 4096);
    if (f->id[0] != '\0') {
        struct str path = arena_printf(f->ctx->arena, "/command?id=%s", f->id);

        osb_request(f->provider, f->ctx, f->way, "DELETE", path, &req);
        (void)!web_do(f->provider->web, &ctx, &req, &resp, &ignored);
    }
    script_kill(f->mark, &text);
    (void)!run_aside(f, buf_str(&text), &status);
}

static bool leave(struct follow *f)
{
    struct buf text own_buf = {0};
    int status = -1;

    buf_init(&text, 16384);
    script_leave(f->req, f->mark, f->cwd, &text);
    return run_aside(f, buf_str(&text), &status) == 0 && status == 0;
}

static void tidy(struct follow *f)
{
    struct buf text own_buf = {0};
    int status = 0;

    buf_init(&text, 4096);
    script_tidy(f->req->id, &text);
    (void)!run_aside(f, buf_str(&text), &status);
}

/* 1: it runs, 0: it has ended and f->result says how, -1: nobody can tell. */
static int ask_status(struct follow *f, const struct ctx *ctx, struct err *e)
{
    struct web_req req = {.silence_ms = ASIDE_MS};
    struct web_resp resp own_resp;

    web_resp_init(&resp);
    struct str path = arena_printf(f->ctx->arena, "/command/status/%s", f->id);
    if (osb_execd(f->box, ctx, "GET", path, &req, &resp, e) < 0) {
        return -1;
    }
    struct str body = buf_str(&resp.body);
    json_t *v own_json = resp.status == 200 ? js_parse(body.p, body.len, e) : NULL;
    if (v == NULL) {
        return err_set(e, ERR_UNREACHABLE,
                       "the connection was lost and the sandbox no longer knows the command");
    }
    if (json_is_true(js_get(v, "running"))) {
        return 1;
    }
    int64_t code = json_integer_value(js_get(v, "exit_code"));
    struct event event = {.value = arena_printf(f->ctx->arena, "%lld", (long long)code),
                          .trace = js_str(js_get(v, "error"))};
    (void)event_result(&event, &f->result);
    f->has_end = true;
    return 0;
}

/* 1: it was paused, and goes on now: what was said to it is heard. */
static int wake(struct osb_box *b, const struct ctx *ctx)
{
    struct ctx own = {.arena = ctx->arena, .deadline_ms = clock_mono_ms() + ASIDE_MS};
    struct err ignored = {0};

    return osb_explain(b, &own, &ignored) > 0 ? 1 : 0;
}

static int doubt(struct follow *f, struct err *e)
{
    struct ctx ctx = aside(f);
    struct err why = {0};
    int rc = wake(f->box, f->ctx);

    if (rc == 0) {
        rc = f->id[0] != '\0' ? ask_status(f, &ctx, &why) : -1;
    }
    f->heard_ms = clock_mono_ms();
    if (rc > 0) {
        return 0;
    }
    f->is_lost = true;
    return err_set(e, ERR_UNREACHABLE, "its stream has not said anything for %d s",
                   STALL_MS / 1000);
}

static bool is_reached(int64_t ms)
{
    return ms > 0 && clock_mono_ms() >= ms;
}

static int on_tick(void *arg, struct err *e)
{
    struct follow *f = arg;

    if (is_reached(f->over_ms)) {
        f->over_ms = 0;
        f->is_left = f->id[0] != '\0' && leave(f);
        if (f->is_left) {
            return err_set(e, ERR_CANCELLED, "it is left");
        }
    }
    if (is_reached(f->until_ms)) {
        bool is_second = f->is_timed_out;

        f->is_timed_out = true;
        end_command(f);
        f->until_ms = clock_mono_ms() + AFTER_KILL_MS;
        if (is_second) {
            return err_set(e, ERR_TIMEOUT, "it does not end");
        }
    }
    if (clock_mono_ms() - f->heard_ms > STALL_MS) {
        return doubt(f, e);
    }
    /* One that is paused takes connections, and says nothing. */
    if (!f->has_heard && !f->has_looked && is_reached(f->started_ms + DEAF_MS)) {
        f->has_looked = true;
        f->heard_ms = wake(f->box, f->ctx) > 0 ? clock_mono_ms() : f->heard_ms;
    }
    osb_use(f->box, f->ctx);
    return 0;
}

/* ---- when the stream broke ------------------------------------------------------------------------- */

struct rest {
    struct follow *follow;
    enum stream from;
    struct told told;
    struct buf tail; /* what may be the beginning of the end's mark */
};

static void rest_fini(struct rest *r)
{
    buf_fini(&r->tail);
}

/* The file's own bytes, in any pieces. */
static int on_rest(void *arg, struct str bytes, struct err *e)
{
    struct rest *r = arg;
    struct lines *l = &r->follow->lines[r->from];
    char sign[SCRIPT_MARK] = {END_SIGN};

    if (l->is_over) {
        return 0;
    }
    memcpy(sign + 1, r->follow->mark, sizeof(sign) - 1);
    buf_add(&r->tail, told_skip(&r->told, bytes));
    if (r->tail.cut) {
        return err_set(e, ERR_LIMIT, "execd sent %zu bytes in one piece", bytes.len);
    }
    struct str all = buf_str(&r->tail);
    const char *at = memmem(all.p, all.len, sign, sizeof(sign));
    l->is_over = at != NULL;
    size_t held = all.len < sizeof(sign) ? all.len : sizeof(sign) - 1;
    struct str out = str_head(all, at != NULL ? (size_t)(at - all.p) : all.len - held);
    if (give(r->follow, r->from, out, e) < 0) {
        return -1;
    }
    buf_drop(&r->tail, l->is_over ? all.len : out.len);
    return 0;
}

/* execd may remove its files as soon as the command has ended: while it runs they get other names. */
static void hold_outputs(struct follow *f)
{
    struct ctx ctx = aside(f);
    struct buf text own_buf = {0}, said own_buf = {0};
    struct err ignored;
    int status = 0;

    buf_init(&text, 4096);
    buf_init(&said, 8192);
    script_hold(f->mark, &text);
    if (osb_run(f->box, &ctx, NULL, buf_str(&text), &said, &status, &ignored) < 0 || status != 0) {
        return;
    }
    struct str rest = buf_str(&said);
    for (int i = 0; i < 2; i++) {
        f->held[i] = arena_str(f->ctx->arena, str_cut(rest, '\n', &rest));
    }
}

static void release_outputs(struct follow *f)
{
    struct buf text own_buf = {0};
    int status = 0;

    if (f->held[0].len == 0) {
        return;
    }
    buf_init(&text, 16384);
    buf_add(&text, S("rm -f --"));
    for (int i = 0; i < 2; i++) {
        buf_addc(&text, ' ');
        buf_add_quoted(&text, f->held[i]);
    }
    (void)!run_aside(f, buf_str(&text), &status);
}

static int fail_cut(const struct follow *f, struct err *e)
{
    return err_set(e, ERR_UNREACHABLE,
                   "the connection was lost while the command ran; it has ended (%s %d), but what "
                   "it printed since then is not known",
                   f->result.end == EXEC_EXITED ? "exit status" : "signal", f->result.code);
}

static int fetch_rest(struct follow *f, struct err *e)
{
    static const char *const names[] = {"stdout", "stderr"};

    for (int i = 0; i < 2; i++) {
        struct rest r CLEANUP(rest_fini) = {
            .follow = f, .from = (enum stream)i, .told = {.n = f->lines[i].n_told}};
        struct str path = f->held[i].len > 0
                              ? f->held[i]
                              : arena_printf(f->ctx->arena, "/tmp/%s.%s", f->id, names[i]);

        if (f->lines[i].is_over) {
            continue;
        }
        buf_init(&r.tail, PIECE_MAX);
        if (give(f, r.from, lines_end(&f->lines[i]), e) < 0) {
            return -1;
        }
        if (osb_download(f->box, f->ctx, path, 0, INT64_MAX, on_rest, &r, e) < 0) {
            return e->kind == ERR_NOT_FOUND ? fail_cut(f, e) : -1;
        }
        /* Of a command that was killed: no mark came. */
        if (give(f, r.from, buf_str(&r.tail), e) < 0) {
            return -1;
        }
    }
    return 0;
}

/* The connection is gone; the command may not be. */
static int recover(struct follow *f, struct err *e)
{
    int64_t give_up_ms = clock_mono_ms() + RECOVER_MS;
    struct err why = *e;
    bool has_tried = false;

    if (f->id[0] == '\0') {
        return -1;
    }
    for (;;) {
        int rc = ask_status(f, f->ctx, e);

        if (rc == 0) {
            rc = fetch_rest(f, e);
            release_outputs(f);
            return rc;
        }
        if (rc > 0) {
            if (!has_tried) {
                hold_outputs(f);
                has_tried = true;
            }
            give_up_ms = clock_mono_ms() + RECOVER_MS;
        } else if (e->kind != ERR_UNREACHABLE || clock_mono_ms() > give_up_ms) {
            *e = e->kind == ERR_UNREACHABLE ? why : *e;
            return -1;
        }
        if (is_reached(f->until_ms)) {
            f->is_timed_out = true;
            f->until_ms = 0;
            end_command(f);
        }
        if (ctx_wait(f->ctx, NULL, 0, clock_mono_ms() + RECOVER_GAP_MS, e) < 0) {
            return -1;
        }
    }
}

/* ---- the whole -------------------------------------------------------------------------------------- */

static json_t *order_of(const struct follow *f, struct str script)
{
    json_t *order = json_object();
    json_t *env = json_object();

    (void)json_object_set_new(order, "command", js_string(script));
    if (f->req->timeout_ms > 0) {
        (void)json_object_set_new(order, "timeout",
                                  json_integer(f->req->timeout_ms + KEEPER_SLACK_MS));
    }
    for (size_t i = 0; i < f->req->n_env; i++) {
        struct str value;
        struct str name = str_cut(f->req->env[i], '=', &value);

        (void)json_object_set_new(env, arena_cstr(f->ctx->arena, name), js_string(value));
    }
    (void)json_object_set_new(env, SCRIPT_RUN, json_string(f->mark));
    (void)json_object_set_new(order, "envs", env);
    return order;
}

struct str osb_absolute(const struct ctx *ctx, const struct way *way, struct str path)
{
    struct str home = arena_str(ctx->arena, str_from(way->home));

    return path_join(ctx->arena, arena_str(ctx->arena, str_from(way->work)),
                     path_tilde(ctx->arena, path, home));
}

static int conclude(struct follow *f, struct exec_result *out, struct err *e)
{
    int64_t wall_ms = clock_mono_ms() - f->started_ms;

    if (f->late.kind != ERR_NONE) {
        *e = f->late;
        return -1;
    }
    if (f->is_cwd_bad && f->result.code == NO_CWD) {
        return err_set(e, ERR_NOT_FOUND,
                       "the working folder \"%.*s\" is not there or cannot be entered by this user",
                       STR_ARG(str_head(f->req->cwd, 200)));
    }
    for (int i = 0; i < 2; i++) {
        if (give(f, (enum stream)i, lines_end(&f->lines[i]), e) < 0) {
            return -1;
        }
    }
    if (f->req->keep && wall_ms >= SELF_TIDY_MS) {
        tidy(f);
    }
    *out = f->result;
    out->timed_out = f->is_timed_out || (f->req->timeout_ms > 0 && f->result.end == EXEC_SIGNALED &&
                                         wall_ms > f->req->timeout_ms);
    out->oom = KNOWN_NOT;
    out->wall_ms = wall_ms;
    out->out_bytes = f->lines[0].n_bytes;
    out->err_bytes = f->lines[1].n_bytes;
    return 0;
}

static int conclude_left(struct follow *f, struct exec_result *out, struct err *e)
{
    for (int i = 0; i < 2; i++) { /* a line is told when it has ended */
        if (give(f, (enum stream)i, lines_end(&f->lines[i]), e) < 0) {
            return -1;
        }
    }
    *out = (struct exec_result){.end = EXEC_RUNNING,
                                .oom = KNOWN_NOT,
                                .wall_ms = clock_mono_ms() - f->started_ms,
                                .out_bytes = f->lines[0].n_bytes,
                                .err_bytes = f->lines[1].n_bytes};
    return 0;
}

static int64_t after(int64_t from_ms, int64_t ms)
{
    return ms > 0 ? from_ms + ms : 0;
}

static void start_clocks(struct follow *f)
{
    f->started_ms = f->heard_ms = clock_mono_ms();
    f->until_ms = after(f->started_ms, f->req->timeout_ms);
    f->over_ms = f->req->keep ? after(f->started_ms, f->req->over_ms) : 0;
}

/* The call is over before the command is. */
static int take_back(struct follow *f)
{
    end_command(f);
    if (f->req->keep) {
        tidy(f);
    }
    return -1;
}

static int follow_stream(struct follow *f, struct str body, struct exec_result *out, struct err *e)
{
    struct web_req req = {.body = body,
                          .receive = on_bytes,
                          .arg = f,
                          .tick = on_tick,
                          .tick_ms = TICK_MS,
                          .silence_ms = INT64_MAX / 2};
    struct web_resp resp own_resp;

    web_resp_init(&resp);
    start_clocks(f);
    int rc = osb_execd(f->box, f->ctx, "POST", S("/command"), &req, &resp, e);
    if (rc == 0 && resp.status != 200) {
        out->not_sent = osb_is_unheard(&resp);
        return osb_fail("run the command", &resp, e);
    }
    if (rc == 0 && !f->has_end && f->late.kind == ERR_NONE) {
        rc = events_end(&f->events, on_event, f, e) < 0 ? -1 : 0;
        if (rc == 0 && !f->has_end && f->late.kind == ERR_NONE) {
            rc = err_set(e, ERR_UNREACHABLE, "its stream ended before the command did");
            f->is_lost = true;
        }
    }
    if (rc == 0) {
        return conclude(f, out, e);
    }
    if (f->is_left) {
        return conclude_left(f, out, e);
    }
    if (f->is_timed_out && e->kind == ERR_TIMEOUT && ctx_check(f->ctx, e) == 0) {
        f->result = (struct exec_result){.end = EXEC_SIGNALED, .code = SIGKILL};
        return conclude(f, out, e);
    }
    if (f->has_end) { /* a doubt was right */
        return fetch_rest(f, e) < 0 ? -1 : conclude(f, out, e);
    }
    if (e->kind == ERR_UNREACHABLE && (resp.broken || f->is_lost)) {
        return recover(f, e) < 0 ? -1 : conclude(f, out, e);
    }
    out->not_sent = resp.not_sent;
    return resp.not_sent ? -1 : take_back(f);
}

static int build(struct follow *f, struct buf *script, struct err *e)
{
    struct feed feed CLEANUP(feed_fini);
    struct script_req s = {
        .req = f->req, .mark = f->mark, .cwd = f->cwd, .has_bash = f->way->has_bash};

    feed_init(&feed, f->req->input);
    if (f->req->input != NULL) {
        if (feed_fill(&feed, f->ctx, e) < 0) {
            return -1;
        }
        s.has_small = feed.is_whole && f->req->command.len < SCRIPT_MAX / 3;
        s.small = buf_str(&feed.some);
        if (!s.has_small) {
            struct source rest = feed_rest(&feed);

            s.input = arena_printf(f->ctx->arena, "/tmp/.anybox-%s", f->mark);
            s.small = STR_EMPTY;
            if (osb_upload(f->box, f->ctx, s.input, &rest, e) < 0) {
                return -1;
            }
        }
    }
    return script_build(&s, script, e);
}

static void follow_fini(struct follow *f)
{
    events_fini(&f->events);
    free(f->way);
}

int osb_exec(struct box *b, const struct ctx *ctx, const struct exec_req *req,
             const struct sink *output, struct exec_result *out, struct err *e)
{
    struct follow f CLEANUP(follow_fini) = {.box = osb_box_of(b),
                                            .provider = osb_of(b->provider),
                                            .ctx = ctx,
                                            .req = req,
                                            .sink = output,
                                            .way = xcalloc(1, sizeof(struct way))};
    struct buf script own_buf = {0}, body own_buf = {0};

    *out = (struct exec_result){.not_sent = true};
    events_init(&f.events);
    buf_init(&script, SCRIPT_MAX);
    buf_init(&body, 16u << 20);
    id_hex(f.mark, (SCRIPT_MARK - 1) / 2);
    f.lines[0].mark = f.lines[1].mark = str_from(f.mark);
    if (req->timeout_ms < 0 || req->window_ms < 0) {
        return err_set(e, ERR_INVALID, "a time-out cannot be negative; 0 means none");
    }
    if (shell_check_env(req, e) < 0 || osb_reach(f.box, ctx, f.way, e) < 0) {
        return -1;
    }
    f.cwd = osb_absolute(ctx, f.way, req->cwd);
    if (build(&f, &script, e) < 0) {
        return -1;
    }
    json_t *order own_json = order_of(&f, buf_str(&script));
    js_dump(order, &body);
    out->not_sent = false;
    return follow_stream(&f, buf_str(&body), out, e);
}

/* ---- scripts of ours ------------------------------------------------------------------------------------ */

struct raw {
    struct events events;
    struct lines lines;
    struct buf *out;
    struct osb_box *box;
    const struct ctx *ctx;
    int64_t started_ms;
    int status;
    bool has_end, has_heard, has_looked;
    struct err late;
};

static int raw_event(void *arg, const struct event *event, struct err *e)
{
    struct raw *r = arg;
    struct exec_result result = {0};
    struct line line;

    (void)e;
    if (event->type == EVENT_OUT) {
        lines_take(&r->lines, event->text, &line);
        buf_add(r->out, line.pieces[0]);
        buf_add(r->out, line.pieces[1]);
    }
    if (event->type == EVENT_LATE) {
        (void)err_set(&r->late, ERR_SYSTEM, "execd failed: %.*s: %.*s",
                      STR_ARG(str_head(event->value, 80)), STR_ARG(str_head(event->text, 240)));
        return WEB_ENOUGH;
    }
    if (event->type != EVENT_DONE && event->type != EVENT_ERROR) {
        return WEB_MORE;
    }
    r->has_end = true;
    r->status = 0;
    if (event->type == EVENT_ERROR) {
        r->status = event_result(event, &result) && result.end == EXEC_EXITED ? result.code : 255;
    }
    return WEB_ENOUGH;
}

static int raw_bytes(void *arg, struct str bytes, struct err *e)
{
    struct raw *r = arg;

    r->has_heard = true;
    return events_take(&r->events, bytes, raw_event, r, e);
}

static int raw_tick(void *arg, struct err *e)
{
    struct raw *r = arg;

    (void)e;
    if (!r->has_heard && !r->has_looked && is_reached(r->started_ms + DEAF_MS)) {
        r->has_looked = true;
        (void)wake(r->box, r->ctx);
    }
    return 0;
}

static void raw_fini(struct raw *r)
{
    events_fini(&r->events);
}

int osb_run(struct osb_box *b, const struct ctx *ctx, const struct way *way, struct str script,
            struct buf *out, int *status, struct err *e)
{
    struct osb_provider *p = osb_of(b->box.provider);
    struct raw raw CLEANUP(raw_fini) = {
        .out = out, .box = b, .ctx = ctx, .started_ms = clock_mono_ms()};
    struct web_req req = {.receive = raw_bytes, .arg = &raw, .silence_ms = STALL_MS};
    struct web_resp resp own_resp;
    struct buf body own_buf = {0};
    json_t *order own_json = json_object();
    int rc;

    events_init(&raw.events);
    web_resp_init(&resp);
    buf_init(&body, 1u << 20);
    (void)json_object_set_new(order, "command", js_string(script));
    js_dump(order, &body);
    req.body = buf_str(&body);
    if (way != NULL) {
        osb_request(p, ctx, way, "POST", S("/command"), &req);
        rc = web_do(p->web, ctx, &req, &resp, e);
    } else {
        req.tick = raw_tick;
        req.tick_ms = TICK_MS;
        rc = osb_execd(b, ctx, "POST", S("/command"), &req, &resp, e);
    }
    if (rc < 0) {
        return -1;
    }
    if (resp.status != 200) {
        return osb_fail("run a command", &resp, e);
    }
    if (!raw.has_end && raw.late.kind == ERR_NONE &&
        events_end(&raw.events, raw_event, &raw, e) < 0) {
        return -1;
    }
    if (raw.late.kind != ERR_NONE) {
        *e = raw.late;
        return -1;
    }
    if (!raw.has_end) {
        return err_set(e, ERR_UNREACHABLE, "the stream of a command broke off");
    }
    buf_add(out, lines_end(&raw.lines));
    *status = raw.status;
    return 0;
}
