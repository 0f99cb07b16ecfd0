/*
 * exec.c - run a command, keep what it prints, answer for it.
 *
 * A command that fails, is killed or runs out of time is an answer, not an error.
 * When the client asked for progress the command runs detached in slices: box_exec()
 * returns after SLICE_MS, the client hears how it goes, and the call attaches again
 * where it stopped reading. The time-out is kept by the box, so slices do not move it.
 *
 * A time-out that the caller gave is waited for in full. Without one the call waits for
 * defaults.exec_window and then hands over: the command goes on, the box keeps all that it
 * prints and how it ends (exec_req.keep), and the answer names the task. So it is when we or
 * the client die before: the box notices that nobody listens.
 */
#include "tools/exec.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/plain.h"
#include "core/output.h"
#include "tools/task_answer.h"

#define SLICE_MS        10000 /* a waiting client hears from us at least so often */
#define PROGRESS_GAP_MS 1000  /* and at most so often */
#define KILL_WAIT_MS    2000

struct run {
    struct call *call;
    const struct exec_args *args;
    struct exec_req req;
    struct source input;
    size_t input_at;
    char task_id[17];
    struct str box_id;
    struct output *output;
    struct sink keep; /* output's own sink */
    uint64_t read[2]; /* bytes of each stream that arrived or were lost */
    int64_t started_ms, told_ms;
    int64_t over_ms; /* when it is handed over; 0: never */
    bool adopted;    /* there is a task */
    bool handed;     /* that the answer is about */
    struct task_seen task;
    struct exec_result result;
    bool lost;             /* the connection broke after the command had started */
    struct err why;        /* then: how */
    bool left;             /* and it may go on as a task */
    bool gone;             /* the box has ended, which is why */
    struct box_info ended; /* then: of what */
};

/* ---- bytes in and out ---------------------------------------------------------------- */

static ssize_t read_input(void *arg, char *to, size_t cap, struct err *e)
{
    struct run *r = arg;
    struct str left = str_head(str_skip(r->args->input, r->input_at), cap);

    (void)e;
    if (left.len > 0) {
        memcpy(to, left.p, left.len);
    }
    r->input_at += left.len;
    return (ssize_t)left.len;
}

static void tell(struct run *r, int64_t now)
{
    struct buf text own_buf = {0};
    uint64_t lines = output_lines(r->output);

    buf_init(&text, 512);
    buf_addf(&text, "%" PRId64 " s, %" PRIu64 " line%s: ", (now - r->started_ms) / 1000, lines,
             lines == 1 ? "" : "s");
    output_last_line(r->output, &text);
    r->told_ms = now;
    r->call->progress(r->call, str_trim(buf_str(&text)));
}

static int keep_output(void *arg, enum stream from, struct str bytes, struct err *e)
{
    struct run *r = arg;
    int64_t now;

    r->read[from] += bytes.len;
    if (r->keep.write(r->keep.arg, from, bytes, e) < 0) {
        return -1;
    }
    if (r->args->whole != NULL && r->args->whole->write(r->args->whole->arg, from, bytes, e) < 0) {
        return -1;
    }
    if (r->call->progress != NULL) {
        now = clock_mono_ms();
        if (now - r->told_ms >= PROGRESS_GAP_MS) {
            tell(r, now);
        }
    }
    return 0;
}

static void lose_output(void *arg, enum stream from, uint64_t n)
{
    struct run *r = arg;

    r->read[from] += n;
    r->keep.lost(r->keep.arg, from, n);
}

/* ---- running ------------------------------------------------------------------------- */

/* The call was taken back between two slices, where nobody was attached to kill it. */
static void kill_detached(struct run *r, struct box *b)
{
    struct ctx ctx = {.arena = r->call->ctx->arena, .deadline_ms = clock_mono_ms() + KILL_WAIT_MS};
    struct err ignored = {0};

    (void)!box_task_kill(b, &ctx, r->req.id, 0, &ignored);
}

/* How long to wait now; 0: to the end. */
static int64_t next_window_ms(const struct run *r)
{
    int64_t left_ms = r->over_ms > 0 ? r->over_ms - clock_mono_ms() : INT64_MAX;

    if (r->call->progress != NULL && left_ms > SLICE_MS) {
        return SLICE_MS;
    }
    return r->over_ms == 0 ? 0 : left_ms > 0 ? left_ms : 1;
}

/* The window is over. False: it has just ended, and there is no need to. */
static bool hand_over(struct run *r, struct box *b, struct str box_id)
{
    struct task_ctx t = task_call(r->call);
    struct err ignored = {0};

    r->adopted = tasks_adopt(&t, b, box_id, arena_str(r->call->ctx->arena, r->req.id),
                             r->args->command, &r->task, &ignored) == 0;
    r->handed = r->adopted && task_goes_on(r->task.end.state);
    return r->handed;
}

static int run_to_end(struct run *r, struct box *b, struct str box_id, const struct sink *sink,
                      struct err *e)
{
    const struct ctx *ctx = r->call->ctx;

    r->req.window_ms = b->provider->ops->tasks != NULL ? next_window_ms(r) : 0;
    if (box_exec(b, ctx, &r->req, sink, &r->result, e) < 0) {
        return -1;
    }
    while (r->result.end == EXEC_RUNNING) {
        int64_t now = clock_mono_ms();

        if (r->req.window_ms == 0 && !r->req.keep) {
            return err_set(e, ERR_BUG, "the command was left running though nobody asked for that");
        }
        if (r->over_ms > 0 && now >= r->over_ms) {
            if (hand_over(r, b, box_id)) {
                return 0;
            }
            r->over_ms = now + SLICE_MS;
        }
        if (r->call->progress != NULL && now - r->told_ms >= PROGRESS_GAP_MS) {
            tell(r, now);
        }
        struct attach_req rest = {
            .id = r->req.id,
            .from_out = r->read[STREAM_OUT],
            .from_err = r->read[STREAM_ERR],
            .window_ms = next_window_ms(r),
            .due_ms = r->req.timeout_ms > 0 ? r->started_ms + r->req.timeout_ms : 0,
        };

        if (box_task_attach(b, ctx, &rest, sink, &r->result, e) < 0) {
            if (e->kind == ERR_CANCELLED || e->kind == ERR_TIMEOUT) {
                kill_detached(r, b);
            } else if (r->adopted) { /* it ended while it was left: the box knows the rest */
                r->handed = true;
                return 0;
            } else {
                r->lost = true;
            }
            return -1;
        }
    }
    return 0;
}

/* A connection that broke may mean that the box has ended: then it is known how. */
static void look_for_end(struct run *r, struct box *b)
{
    struct err ignored = {0};

    if (r->result.timed_out) {
        return; /* it does not answer, and was waited for */
    }
    if (box_info(b, r->call->ctx, &r->ended, &ignored) == 0 && r->ended.state == BOX_GONE) {
        r->gone = true;
        r->why.kind = ERR_GONE;
        if (r->ended.ended.len == 0) {
            r->ended.ended = S("nobody knows why");
        }
    }
}

static int run_job(void *arg, struct call *c, struct box *b, struct str id, struct err *e)
{
    struct run *r = arg;
    struct sink sink = {.write = keep_output, .lost = lose_output, .arg = r};

    output_free(r->output); /* of an attempt in a box that was gone */
    r->box_id = id;
    r->output = output_new(c->services->config->state_dir,
                           boxes_output_id(c->scope, id, c->ctx->arena), r->args->max_output_chars);
    r->keep = output_sink(r->output);
    r->input_at = 0;
    if (run_to_end(r, b, id, &sink, e) == 0) {
        return 0;
    }
    /* A command that may have run is never run again: that is an answer, whatever broke. */
    if (e->kind == ERR_UNREACHABLE || r->read[STREAM_OUT] > 0 || r->read[STREAM_ERR] > 0) {
        r->lost = true;
    }
    if (!r->lost || e->kind == ERR_CANCELLED || e->kind == ERR_TIMEOUT) {
        return -1;
    }
    r->why = *e;
    look_for_end(r, b);
    if (r->why.kind == ERR_GONE) {
        answer_lost(c, id);
    } else if (r->req.keep && !r->result.not_sent) {
        struct task_ctx t = task_call(c);

        r->left = tasks_adopt(&t, NULL, id, arena_str(c->ctx->arena, r->req.id), r->args->command,
                              &r->task, e) == 0;
    }
    return 0;
}

/* ---- the answer ---------------------------------------------------------------------- */

static int exit_code(const struct run *r)
{
    if (r->lost) {
        return -1;
    }
    if (r->result.timed_out) {
        return 124;
    }
    return r->result.end == EXEC_SIGNALED ? 128 + r->result.code : r->result.code;
}

bool exec_put_stream(struct output *output, json_t *o, const char *key, enum stream which,
                     struct str line)
{
    struct buf text own_buf = {0};
    bool cut = false;

    buf_init(&text, STREAM_BYTES_MAX);
    output_text(output, which, &text, &cut);
    if (line.len > 0) {
        text.max += line.len + 2;
        if (text.len > 0 && text.p[text.len - 1] != '\n') {
            buf_addc(&text, '\n');
        }
        plain_text(line, &text);
        buf_addc(&text, '\n');
    }
    answer_str(o, key, buf_str(&text));
    return cut;
}

static struct str last_words(const struct run *r)
{
    struct arena *a = r->call->ctx->arena;

    if (r->gone) {
        return arena_printf(a, "[SANDBOX ENDED] %.*s", STR_ARG(r->ended.ended));
    }
    if (r->lost && r->result.timed_out) {
        return arena_printf(a, "[TIMEOUT] no end after %" PRId64 "s\n[CONNECTION ERROR] %s",
                            r->args->timeout_s, r->why.msg);
    }
    if (r->lost) {
        return arena_printf(a, "[CONNECTION ERROR] %s", r->why.msg);
    }
    if (r->result.timed_out) {
        return arena_printf(a, "[TIMEOUT] command killed after %" PRId64 "s", r->args->timeout_s);
    }
    return STR_EMPTY;
}

static const char *end_name(enum box_end end)
{
    switch (end) {
    case BOX_END_IDLE: return "idle";
    case BOX_END_LIFETIME: return "lifetime";
    case BOX_END_DELETED: return "deleted";
    case BOX_END_OTHER: break;
    }
    return "other";
}

/* Nobody saw the command's end: why, and what to do about it. */
static void put_lost(struct run *r, json_t *o)
{
    struct arena *a = r->call->ctx->arena;

    if (r->gone) {
        (void)json_object_set_new(o, "sandbox_ended", json_string(end_name(r->ended.end)));
        answer_str(o, "error",
                   arena_printf(a,
                                "the sandbox ended before the command did: %.*s. stdout and stderr "
                                "are what came until then; the files in it are gone. Call "
                                "create_sandbox to make a new one",
                                STR_ARG(r->ended.ended)));
    } else {
        answer_str(o, "error",
                   r->result.not_sent
                       ? arena_printf(a,
                                      "the sandbox was not reached (%s): the command did not run. "
                                      "Try again when it can be",
                                      r->why.msg)
                       : arena_printf(a,
                                      "the sandbox was lost or not reached (%s): the command may "
                                      "have run in part, or still run. Look before you run it "
                                      "again%s",
                                      r->why.msg,
                                      r->left ? ": check_background_task with this task_id" : ""));
    }
    (void)json_object_set_new(o, "code", json_string(err_kind_name(r->why.kind)));
    r->call->is_error = true;
}

static void put_limits_hit(json_t *o, unsigned hit)
{
    static const struct {
        unsigned bit;
        const char *name;
    } names[] = {{LIMIT_MEMORY, "memory"}, {LIMIT_PIDS, "pids"}, {LIMIT_DISK, "disk"}};
    json_t *list = json_array();

    for (size_t i = 0; i < COUNTOF(names); i++) {
        if (hit & names[i].bit) {
            (void)json_array_append_new(list, json_string(names[i].name));
        }
    }
    if (json_array_size(list) > 0) {
        (void)json_object_set(o, "limits_hit", list);
    }
    json_decref(list);
}

static struct str handed_note(const struct run *r, json_t *o, struct str note)
{
    struct arena *a = r->call->ctx->arena;
    struct str gaps = task_answer_gaps(o, &r->task, a);

    if (gaps.len > 0) {
        note =
            arena_printf(a, "%.*s%s%.*s", STR_ARG(note), note.len > 0 ? "; " : "", STR_ARG(gaps));
    }
    return arena_printf(a,
                        "%.*s%sit still runs and was not restarted: check_background_task(task_id) "
                        "tells how it ends, cancel_background_task ends it, timeout_s makes a call "
                        "wait longer",
                        STR_ARG(note), note.len > 0 ? "; " : "");
}

static json_t *answer_for(struct run *r, struct str note)
{
    bool signaled = !r->lost && r->result.end == EXEC_SIGNALED;
    int64_t wall_ms = r->lost ? clock_mono_ms() - r->started_ms : r->result.wall_ms;
    json_t *o = json_object();
    bool cut;

    if (r->handed) {
        (void)json_object_set_new(o, "running", json_boolean(task_goes_on(r->task.end.state)));
        if (!task_goes_on(r->task.end.state) && r->task.end.code >= 0) {
            (void)json_object_set_new(o, "exit_code", json_integer(r->task.end.code));
        }
        answer_str(o, "task_id", r->req.id);
        answer_str(o, "log_file", r->task.log);
        answer_str_if(o, "stderr_file", r->task.errors_log);
    } else {
        (void)json_object_set_new(o, "exit_code", json_integer(exit_code(r)));
    }
    if (r->left) {
        answer_str(o, "task_id", r->req.id);
    }
    cut = exec_put_stream(r->output, o, "stdout", STREAM_OUT, STR_EMPTY);
    cut = exec_put_stream(r->output, o, "stderr", STREAM_ERR, last_words(r)) || cut;
    (void)json_object_set_new(o, "duration", answer_seconds(wall_ms));
    (void)json_object_set_new(o, "timed_out", json_boolean(r->result.timed_out));
    (void)json_object_set_new(o, "signal", signaled ? answer_signal(r->result.code) : json_null());
    (void)json_object_set_new(o, "connection_error", json_boolean(r->lost));
    if (!r->lost && !r->handed && r->result.oom != KNOWN_NOT) {
        (void)json_object_set_new(o, "oom_killed", json_boolean(r->result.oom == KNOWN_YES));
    }
    if (!r->lost) {
        put_limits_hit(o, r->result.limits_hit);
    }
    if (cut) {
        (void)json_object_set_new(o, "truncated", json_true());
    }
    answer_str_if(o, "note", r->handed ? handed_note(r, o, note) : note);
    if (r->lost) {
        put_lost(r, o);
    }
    return o;
}

int exec_answer(struct call *c, const struct exec_args *given, json_t **out, struct err *e)
{
    const struct config *config = c->services->config;
    struct exec_args args = *given;
    struct run r = {.call = c, .args = &args};
    struct str note = STR_EMPTY;
    int failed;

    if (str_trim(args.command).len == 0) {
        return err_set(e, ERR_INVALID, "command is empty; give the shell text to run");
    }
    args.timeout_s = args.timeout_s > 0 ? args.timeout_s : config->exec_timeout_s;
    args.max_output_chars =
        args.max_output_chars > 0 ? args.max_output_chars : config->max_output_chars;
    if (args.max_output_chars > EXEC_CHARS_MAX) {
        args.max_output_chars = EXEC_CHARS_MAX;
    }
    id_hex(r.task_id, 8);
    r.input = (struct source){.read = read_input, .arg = &r, .fd = -1};
    r.req = (struct exec_req){
        .id = args.id.len > 0 ? args.id : str_from(r.task_id),
        .shell = SHELL_BASH,
        .command = args.command,
        .cwd = str_trim(args.cwd),
        .env = args.env.items,
        .n_env = args.env.n,
        .input = args.input.len > 0 ? &r.input : NULL,
        .timeout_ms = args.timeout_s * 1000,
        .keep = args.timeout_s == 0 && config->exec_window_s > 0,
    };
    r.started_ms = r.told_ms = clock_mono_ms();
    r.req.over_ms = r.req.keep ? config->exec_window_s * 1000 : 0;
    r.over_ms = r.req.keep ? r.started_ms + config->exec_window_s * 1000 : 0;
    failed = answer_with_box(c, &args.box, true, run_job, &r, &note, e);
    if (failed == 0) {
        *out = answer_for(&r, note);
        exec_note_down(c, args.label.len > 0 ? args.label : args.command, *out);
    }
    if (output_is_kept(r.output)) {
        boxes_output_kept(c->services->boxes, c->ctx, c->scope, r.box_id);
    }
    output_free(r.output);
    return failed;
}
