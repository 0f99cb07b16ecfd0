/* Commands over the agent's protocol: the requests. How one is followed: agent_run.c. */
#include "base/clock.h"
#include "base/id.h"
#include "provider/agent_run.h"
#include "provider/agent_script.h"
#include "provider/over_agent.h"

#define OVERDUE_MS     15000 /* TERM, KILL and what hangs in the kernel take up to half of it */
#define TASKS_TOLD_MAX (TASKS_MAX + TASKS_KEPT)

/* ---- exec ----------------------------------------------------------------------- */

static int check_argv(const struct exec_req *req, struct err *e)
{
    if (req->shell != SHELL_NONE) {
        return talk_check_text(req->command, COMMAND_BYTES_MAX, true, "the command", e);
    }
    if (req->n_argv == 0 || req->n_argv > ARGV_MAX) {
        return err_set(e, ERR_INVALID, "a command has 1 to %d words, this one has %zu", ARGV_MAX,
                       req->n_argv);
    }
    for (size_t i = 0; i < req->n_argv; i++) {
        if (talk_check_text(req->argv[i], ARG_BYTES_MAX, i > 0, "an argument of the command", e) <
            0) {
            return -1;
        }
    }
    return 0;
}

static int check_request(const struct exec_req *req, struct err *e)
{
    if (check_argv(req, e) < 0 || talk_check_env(req->env, req->n_env, e) < 0) {
        return -1;
    }
    if (talk_check_text(req->id, ID_MAX, true, "the task id", e) < 0) {
        return -1;
    }
    if (req->timeout_ms < 0 || req->window_ms < 0) {
        return err_set(e, ERR_INVALID, "a time-out cannot be negative; 0 means none");
    }
    return talk_check_text(req->cwd, PATH_MAX_BYTES, true, "the working folder", e);
}

static int add_exec(struct talk *t, struct str id, const struct exec_req *req,
                    const struct str *argv, size_t n_argv, struct err *e)
{
    struct wire_out w = wire_begin(&t->out, FRAME_EXEC);
    wire_str(&w, id);
    wire_list(&w, argv, n_argv);
    wire_str(&w, req->cwd);
    wire_list(&w, req->env, req->n_env);
    wire_u8(&w, (uint8_t)((req->input != NULL ? EXEC_INPUT : 0) | (req->keep ? EXEC_KEEP : 0)));
    wire_u64(&w, (uint64_t)req->timeout_ms);
    wire_u32(&w, KILL_GRACE_MS);
    if (!wire_end(&w)) {
        return err_set(e, ERR_LIMIT,
                       "the command with its environment is too large: at most %u bytes in all",
                       FRAME_MAX);
    }
    return 0;
}

static int exec_argv(struct box *b, const struct ctx *ctx, const struct exec_req *req,
                     const struct argv *argv, const struct sink *output, struct exec_result *out,
                     struct err *e)
{
    int64_t now = clock_mono_ms();
    char minted[33];
    struct str id = req->id;
    if (id.len == 0) {
        id_hex(minted, 16);
        id = str_from(minted);
    }
    struct run r own_run = {
        .box = b,
        .talk = TALK_NONE,
        .id = id,
        .sink = output,
        .input = req->input,
        .had_input = req->input != NULL,
        .leave = req->leave,
        .ask_ms = req->timeout_ms > 0 ? now + req->timeout_ms + RUN_ASK_MS : 0,
        .overdue_ms = req->timeout_ms > 0 ? now + req->timeout_ms + OVERDUE_MS : 0,
    };
    if (talk_open(&r.talk, b, ctx, e) < 0 ||
        add_exec(&r.talk, id, req, argv->words, argv->n, e) < 0) {
        out->not_sent = true;
        return -1;
    }
    return run_follow(&r, ctx, req->window_ms, out, e);
}

int agent_exec(struct box *b, const struct ctx *ctx, const struct exec_req *req,
               const struct sink *output, struct exec_result *out, struct err *e)
{
    *out = (struct exec_result){0};
    if (check_request(req, e) < 0) {
        return -1;
    }
    struct argv argv;
    if (script_argv(b, ctx, req, &argv, e) < 0) {
        out->not_sent = true;
        return -1;
    }
    int rc = exec_argv(b, ctx, req, &argv, output, out, e);
    if (rc < 0 && !out->timed_out) { /* who is silent is asked for nothing more */
        script_remove(b, ctx, &argv);
    }
    return rc;
}

/* ---- tasks ---------------------------------------------------------------------- */

static int task_attach(struct box *b, const struct ctx *ctx, const struct attach_req *req,
                       const struct sink *output, struct exec_result *out, struct err *e)
{
    if (talk_check_text(req->id, ID_MAX, false, "the task id", e) < 0) {
        return -1;
    }
    struct run r own_run = {
        .box = b,
        .talk = TALK_NONE,
        .id = req->id,
        .sink = output,
        .ask_ms = req->due_ms > 0 ? req->due_ms + RUN_ASK_MS : 0,
        .next = {req->from_out, req->from_err},
    };
    if (talk_open(&r.talk, b, ctx, e) < 0) {
        return -1;
    }
    struct wire_out w = wire_begin(&r.talk.out, FRAME_ATTACH);
    wire_str(&w, req->id);
    wire_u64(&w, req->from_out);
    wire_u64(&w, req->from_err);
    if (!wire_end(&w)) {
        return err_set(e, ERR_BUG, "an attach request did not fit its buffer");
    }
    return run_follow(&r, ctx, req->window_ms, out, e);
}

static int get_task(const struct ctx *ctx, struct frame f, struct task_state *out, struct err *e)
{
    struct wire_in r = wire_read(f.fields);
    struct str id = wire_get_str(&r);
    bool running = wire_get_u8(&r) != 0;
    bool good = run_get_result(&r, &out->result);
    uint64_t started_ms = wire_get_u64(&r);
    if (f.type != FRAME_TASK || !good || !wire_done(&r) || id.len > ID_MAX) {
        return talk_bad(e, "the state of a command");
    }
    out->id = arena_str(ctx->arena, id);
    out->started_at = run_millis(started_ms) / 1000;
    if (running) {
        out->result.end = EXEC_RUNNING;
    }
    return 0;
}

static int task_state(struct box *b, const struct ctx *ctx, struct str id, task_state_fn *each,
                      void *arg, struct err *e)
{
    struct talk t own_talk = TALK_NONE;
    if (talk_check_text(id, ID_MAX, true, "the task id", e) < 0 || talk_open(&t, b, ctx, e) < 0) {
        return -1;
    }
    struct wire_out w = wire_begin(&t.out, FRAME_STATE);
    wire_str(&w, id);
    if (!wire_end(&w)) {
        return err_set(e, ERR_BUG, "a state request did not fit its buffer");
    }
    for (int i = 0; i <= TASKS_TOLD_MAX; i++) {
        struct frame f;
        if (talk_get(&t, ctx, &f, e) < 0) {
            return -1;
        }
        if (f.type == FRAME_OK && id.len == 0) {
            return 0;
        }
        struct task_state state = {0};
        if (get_task(ctx, f, &state, e) < 0 || each(arg, &state, e) < 0) {
            return -1;
        }
        if (id.len > 0) {
            return 0;
        }
    }
    return talk_bad(e, "a list of commands");
}

static int task_kill(struct box *b, const struct ctx *ctx, struct str id, int32_t grace_ms,
                     struct err *e)
{
    if (talk_check_text(id, ID_MAX, false, "the task id", e) < 0) {
        return -1;
    }
    return run_kill(b, ctx, id, grace_ms < 0 ? KILL_GRACE_MS : (uint32_t)grace_ms, e);
}

const struct task_ops tasks_over_agent = {
    .attach = task_attach,
    .state = task_state,
    .kill = task_kill,
};
