/* task.c - the scripts of task.h, run in a box. */
#include "core/task.h"

#include <inttypes.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/own.h"
#include "core/task_scripts.h"

#define START_MS   30000
#define LOOK_MS    30000
#define ANSWER_MAX (16u << 20)
#define ARGS_MAX   (4 + 5 + 9 * (TASK_LOOKS_MAX + 1))

/* One script and what it said. */
struct talk_sh {
    struct exec_req req;
    struct str argv[ARGS_MAX];
    size_t n_argv;
    struct str input; /* what is left of it */
    struct source source;
    struct buf said;
    bool enough;
    struct exec_result result;
};

static void talk_fini(struct talk_sh *t)
{
    buf_fini(&t->said);
}

static void add_arg(struct talk_sh *t, struct str word)
{
    t->argv[t->n_argv++] = word;
}

static void add_number(struct talk_sh *t, const struct ctx *ctx, int64_t n)
{
    add_arg(t, arena_printf(ctx->arena, "%" PRId64, n));
}

static void prepare(struct talk_sh *t, const char *script)
{
    buf_init(&t->said, ANSWER_MAX);
    add_arg(t, S("sh"));
    add_arg(t, S("-c"));
    add_arg(t, str_from(script));
    add_arg(t, S("anybox"));
}

static ssize_t read_input(void *arg, char *to, size_t cap, struct err *e)
{
    struct talk_sh *t = arg;
    struct str part = str_head(t->input, cap);

    (void)e;
    if (part.len > 0) {
        memcpy(to, part.p, part.len);
    }
    t->input = str_skip(t->input, part.len);
    return (ssize_t)part.len;
}

static int hear(void *arg, enum stream from, struct str bytes, struct err *e)
{
    struct talk_sh *t = arg;

    (void)e;
    if (from == STREAM_OUT) {
        buf_add(&t->said, bytes);
        /* The supervisor may say more before it lets go of the stream: that is nobody's. */
        t->enough = t->req.leave != NULL &&
                    memmem(t->said.p, t->said.len, "end\t\n", sizeof("end\t\n") - 1) != NULL;
    }
    return 0;
}

static int run(struct talk_sh *t, struct box *b, const struct ctx *ctx, int64_t most_ms,
               struct err *e)
{
    struct ctx bounded = *ctx;
    struct sink sink = {.write = hear, .arg = t};
    int64_t last_ms = clock_mono_ms() + most_ms;

    if (bounded.deadline_ms == 0 || bounded.deadline_ms > last_ms) {
        bounded.deadline_ms = last_ms;
    }
    t->req.shell = SHELL_NONE;
    t->req.argv = t->argv;
    t->req.n_argv = t->n_argv;
    int rc = box_exec(b, &bounded, &t->req, &sink, &t->result, e);
    struct err ours;
    if (rc < 0 && e->kind == ERR_TIMEOUT && ctx_check(ctx, &ours) == 0) {
        return err_set(e, ERR_TIMEOUT,
                       "the script that looks after tasks did not end within %lld s: the sandbox "
                       "is too busy, or what lies in the task's folder there was replaced; try "
                       "again, or look with exec_bash",
                       (long long)(most_ms / 1000));
    }
    return rc;
}

/* The script's shell ended without its last word. */
static int broke_off(const struct talk_sh *t, struct err *e)
{
    return err_set(e, ERR_SYSTEM,
                   "the sandbox's shell ended (exit code %d) before the work was done: it needs "
                   "a POSIX sh with cat, mkdir, mv, tail, wc, awk and date",
                   t->result.code);
}

static struct str next_line(struct str *said, struct str *key)
{
    struct str value;
    struct str line = str_cut(*said, '\n', said);

    *key = str_cut(line, '\t', &value);
    return value;
}

/* ---- starting -------------------------------------------------------------------------- */

static const char *how_for(const struct box *b)
{
    if (b->provider->ops->factory == NULL) {
        return "host";
    }
    return b->provider->ops->tasks != NULL ? "box" : "plain";
}

/* The sentence is `before`, what it is about, `after`. */
struct refusal {
    const char *why, *before, *after;
    enum err_kind kind;
    bool by_name; /* it is about the task's name, else about what the script told */
};

static const struct refusal refusals[] = {
    {"cwd", "cwd \"", "\" is not there or cannot be entered; make it first. Nothing was started",
     ERR_NOT_FOUND, false},
    {"session", "there is a tmux session \"",
     "\" on the host already: choose another session_name, or end it with "
     "cancel_background_task",
     ERR_EXISTS, true},
    {"changed", "the task \"",
     "\" is not the one that was interrupted any more; it was not started again", ERR_EXISTS, true},
    {"log_is_folder", "log_file \"", "\" is a folder; name a file in it", ERR_INVALID, false},
    {"log_folder", "\"",
     "\" cannot be written by this user, and the log must be: give a log_file that can. Nothing "
     "was started",
     ERR_DENIED, false},
    {"log", "\"",
     "\" cannot be written by this user, and the log must be: give a log_file that can. Nothing "
     "was started",
     ERR_DENIED, false},
    {"disk", "there is no room for the task's files in \"", "\"", ERR_LIMIT, false},
    {"locked", "somebody else is just starting a task named \"", "\"", ERR_EXISTS, true},
};

static int refused(struct str what, const struct task_order *o, struct err *e)
{
    struct str of;
    struct str why = str_cut(what, '\t', &of);

    of = str_head(str_eq(why, S("cwd")) ? o->cwd : of, 200);
    for (size_t i = 0; i < COUNTOF(refusals); i++) {
        const struct refusal *r = &refusals[i];

        if (str_eq(why, str_from(r->why))) {
            return err_set(e, r->kind, "%s%.*s%s", r->before, STR_ARG(r->by_name ? o->name : of),
                           r->after);
        }
    }
    if (str_eq(why, S("running"))) {
        return err_set(e, ERR_EXISTS,
                       "a task named \"%.*s\" is running (task_id %.*s): choose another "
                       "session_name, or end it with cancel_background_task",
                       STR_ARG(o->name), STR_ARG(of));
    }
    return err_set(e, ERR_SYSTEM, "the task could not be started (%.*s)", STR_ARG(why));
}

static int read_begun(const struct talk_sh *t, const struct ctx *ctx, const struct task_order *o,
                      struct task_begun *out, struct err *e)
{
    struct str said = buf_str(&t->said);

    while (said.len > 0) {
        struct str key;
        struct str value = arena_str(ctx->arena, next_line(&said, &key));

        if (str_eq(key, S("error"))) {
            return refused(value, o, e);
        }
        if (str_eq(key, S("run"))) {
            out->run = value;
        } else if (str_eq(key, S("log"))) {
            out->log = value;
        } else if (str_eq(key, S("dir"))) {
            out->dir = value;
        } else if (str_eq(key, S("how"))) {
            out->how = value;
        } else if (str_eq(key, S("note"))) {
            out->note = value;
        } else if (str_eq(key, S("was"))) {
            (void)task_parse_end(value, &out->was_run, &out->was);
        } else if (str_eq(key, S("end"))) {
            return 0;
        }
    }
    return broke_off(t, e);
}

struct looked {
    const struct ctx *ctx;
    struct str run;
    struct task_begun *out;
};

static int is_it(void *arg, const struct task_seen *seen, struct err *e)
{
    struct looked *l = arg;

    (void)e;
    if (str_eq(seen->run, l->run) && seen->end.state != TASK_UNKNOWN &&
        seen->end.state != TASK_REPLACED) {
        *l->out = (struct task_begun){
            .run = arena_str(l->ctx->arena, seen->run),
            .log = arena_str(l->ctx->arena, seen->log),
            .dir = arena_str(l->ctx->arena, seen->dir),
            .how = arena_str(l->ctx->arena, seen->how),
            .recovered = true,
        };
    }
    return 0;
}

/* Nobody said that it started, and nobody that it did not: the box knows. */
static int look_for_it(struct box *b, const struct ctx *ctx, const struct task_order *o,
                       struct str run_id, struct task_begun *out, struct err *e)
{
    struct looked l = {.ctx = ctx, .run = run_id, .out = out};
    struct task_want want = {.name = o->name, .run = run_id, .from = -1};
    struct task_wait wait = {0};
    struct err why = *e;

    out->recovered = false;
    if (task_look(b, ctx, &want, 1, &wait, is_it, &l, e) < 0) {
        *e = why;
        return err_wrap(e, "the task may have been started or not (look with "
                           "check_background_task before you start it again)");
    }
    if (!out->recovered) {
        *e = why;
        return err_wrap(e, "the task was not started");
    }
    return 0;
}

int task_start(struct box *b, const struct ctx *ctx, const struct task_order *order,
               struct str run_id, struct task_begun *out, struct err *e)
{
    struct talk_sh t CLEANUP(talk_fini) = {.input = order->command};

    *out = (struct task_begun){0};
    prepare(&t, script_task_start);
    add_arg(&t, str_from(how_for(b)));
    add_arg(&t, order->name);
    add_arg(&t, order->cwd);
    add_arg(&t, order->log);
    add_arg(&t, run_id);
    add_number(&t, ctx, (int64_t)order->command.len);
    add_arg(&t, task_head(ctx->arena, order->command));
    add_arg(&t, order->after);
    t.source = (struct source){.read = read_input, .arg = &t, .fd = -1};
    t.req = (struct exec_req){.id = run_id, .input = &t.source, .leave = &t.enough};
    if (run(&t, b, ctx, START_MS, e) < 0) {
        bool may_run = !t.result.not_sent &&
                       (e->kind == ERR_UNREACHABLE || e->kind == ERR_TIMEOUT) &&
                       ctx_check(ctx, &(struct err){0}) == 0;

        return may_run ? look_for_it(b, ctx, order, run_id, out, e) : -1;
    }
    return read_begun(&t, ctx, order, out, e);
}

/* ---- looking --------------------------------------------------------------------------- */

static void add_want(struct talk_sh *t, const struct ctx *ctx, const struct task_want *w)
{
    add_arg(t, w->dir);
    add_arg(t, w->name);
    add_arg(t, w->log);
    add_arg(t, w->run);
    if (w->from >= 0) {
        add_number(t, ctx, w->from);
    } else {
        add_arg(t, STR_EMPTY);
    }
    add_number(t, ctx, w->max < 0 ? 0 : w->max > TASK_TEXT_MAX ? TASK_TEXT_MAX : w->max);
    add_arg(t, w->check_cwd);
    add_arg(t, w->check_file);
    add_arg(t, w->check_command);
}

int task_look(struct box *b, const struct ctx *ctx, const struct task_want *wants, size_t n,
              const struct task_wait *wait, task_seen_fn *each, void *arg, struct err *e)
{
    struct talk_sh t CLEANUP(talk_fini) = {0};
    char mark[33];

    if (n > TASK_LOOKS_MAX) {
        return err_set(e, ERR_BUG, "more than %d tasks are looked at together", TASK_LOOKS_MAX);
    }
    id_hex(mark, 16);
    prepare(&t, script_task_probe);
    add_arg(&t, str_from(mark));
    add_number(&t, ctx, wait->seconds);
    add_arg(&t, wait->until);
    add_number(&t, ctx, wait->check_s);
    add_number(&t, ctx, TASK_CHECK_MAX);
    for (size_t i = 0; i < n; i++) {
        add_want(&t, ctx, &wants[i]);
    }
    if (wait->scan) {
        add_want(&t, ctx, &(struct task_want){.name = S("/"), .from = -1});
    }
    if (run(&t, b, ctx, LOOK_MS + (wait->seconds + wait->check_s) * 1000, e) < 0) {
        return -1;
    }
    if (!str_ends(buf_str(&t.said), S("end\t\n"))) {
        return broke_off(&t, e);
    }
    /* What each() is given must live as long as the call. */
    return task_parse(arena_str(ctx->arena, buf_str(&t.said)), str_from(mark), each, arg, e);
}

/* ---- ending ---------------------------------------------------------------------------- */

int task_cancel(struct box *b, const struct ctx *ctx, const struct task_want *want, int64_t grace_s,
                enum task_cut *out, struct err *e)
{
    static const struct {
        const char *word;
        enum task_cut cut;
    } words[] = {{"cancelled", TASK_CUT},
                 {"ended", TASK_HAD_ENDED},
                 {"unknown", TASK_CUT_UNKNOWN},
                 {"replaced", TASK_CUT_REPLACED},
                 {"left", TASK_CUT_LEFT}};
    struct talk_sh t CLEANUP(talk_fini) = {0};
    struct str key;

    prepare(&t, script_task_cancel);
    add_arg(&t, want->dir);
    add_arg(&t, want->name);
    add_arg(&t, want->log);
    add_arg(&t, want->run);
    add_number(&t, ctx, grace_s);
    if (run(&t, b, ctx, LOOK_MS + grace_s * 1000, e) < 0) {
        return -1;
    }
    struct str said = buf_str(&t.said);
    struct str value = next_line(&said, &key);
    for (size_t i = 0; str_eq(key, S("result")) && i < COUNTOF(words); i++) {
        if (str_eq(value, str_from(words[i].word))) {
            *out = words[i].cut;
            return 0;
        }
    }
    return broke_off(&t, e);
}
