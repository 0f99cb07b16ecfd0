#include "watch/checkpoint.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/plain.h"

#define SHARED_MAX 4096 /* bytes of a command or a path that goes into a look at many tasks */

static int take(void *arg, enum stream from, struct str bytes, struct err *e)
{
    struct buf *text = arg;

    (void)e;
    if (from == STREAM_OUT) {
        buf_add(text, bytes); /* what is too much is left out */
    }
    return 0;
}

/* A relative path is one of the task's working folder. */
static struct str path_of(const struct watch_order *o, struct arena *a)
{
    struct str p = o->checkpoint_path;

    if (o->cwd.len == 0 || (p.len > 0 && (p.p[0] == '/' || p.p[0] == '~'))) {
        return p;
    }
    return arena_printf(a, "%.*s/%.*s", STR_ARG(o->cwd), STR_ARG(p));
}

static int ask_command(struct box *b, const struct ctx *ctx, const struct watch_order *o,
                       const struct sink *sink, struct checkpoint *out, struct err *e)
{
    const struct exec_req req = {
        .shell = SHELL_BASH,
        .command = o->checkpoint_command,
        .cwd = o->cwd,
        .timeout_ms = CHECKPOINT_MS,
    };

    out->from_command = true;
    return box_exec(b, ctx, &req, sink, &out->result, e);
}

int checkpoint_ask(struct box *b, const struct ctx *ctx, const struct watch_order *o, size_t max,
                   struct checkpoint *out, struct err *e)
{
    struct buf raw own_buf = {0}, text own_buf = {0};
    const struct sink sink = {.write = take, .arg = &raw};
    struct file_info info;
    int rc;

    *out = (struct checkpoint){0};
    buf_init(&raw, max);
    buf_init(&text, 4 * max + 16);
    if (o->checkpoint_command.len > 0) {
        rc = ask_command(b, ctx, o, &sink, out, e);
    } else if (o->checkpoint_path.len > 0) {
        rc = box_file_read(b, ctx, path_of(o, ctx->arena), 0, (int64_t)max, &sink, &info, e);
    } else {
        return err_set(e, ERR_NOT_FOUND,
                       "this watch has neither a checkpoint_path nor a checkpoint_command");
    }
    if (rc < 0 && ctx_check(ctx, e) < 0) {
        return -1;
    }
    if (rc < 0) {
        out->problem = arena_str(ctx->arena, str_from(e->msg));
    }
    plain_text(buf_str(&raw), &text);
    out->text = arena_str(ctx->arena, buf_str(&text));
    return 0;
}

/* ---- in a round ------------------------------------------------------------------------ */

static bool is_short(const struct watch_order *o)
{
    return o->checkpoint_command.len <= SHARED_MAX && o->checkpoint_path.len <= SHARED_MAX;
}

void checkpoint_want(const struct watch_order *o, struct task_want *out)
{
    if (is_short(o)) {
        out->check_cwd = o->cwd;
        out->check_command = o->checkpoint_command;
        out->check_file = o->checkpoint_path;
    }
}

static struct str read_alone(struct box *b, const struct ctx *ctx, const struct watch_order *o,
                             struct str *problem)
{
    const struct ctx limited = {ctx->arena, ctx->cancel, clock_mono_ms() + CHECKPOINT_MS + 5000};
    struct checkpoint found;
    struct err e;

    if (checkpoint_ask(b, &limited, o, CHECKPOINT_MAX, &found, &e) < 0) {
        *problem = arena_str(ctx->arena, str_from(e.msg));
        return STR_EMPTY;
    }
    *problem = found.problem;
    return found.text;
}

static const char *problem_of(enum task_check is)
{
    switch (is) {
    case CHECK_SLOW: return "its command took too long and was ended";
    case CHECK_MISSING: return "the file is not there, is no plain file, or must not be read";
    case CHECK_NO_CWD: return "its working folder is not there";
    case CHECK_NO_ROOM: return "neither /tmp nor the home folder there can be written";
    case CHECK_NONE:
    case CHECK_READ: break;
    }
    return "";
}

void checkpoint_take(struct box *b, const struct ctx *ctx, struct watch_row *w,
                     const struct task_seen *seen)
{
    struct str problem = str_from(problem_of(seen->check_is));
    struct str text = seen->check;

    if (w->order.checkpoint_command.len == 0 && w->order.checkpoint_path.len == 0) {
        return;
    }
    if (is_short(&w->order)) {
        struct buf plain own_buf = {0};

        buf_init(&plain, 4 * CHECKPOINT_MAX + 16);
        plain_text(text, &plain);
        text = arena_str(ctx->arena, buf_str(&plain));
    } else {
        text = read_alone(b, ctx, &w->order, &problem);
    }
    w->words.checkpoint_text =
        problem.len == 0
            ? text
            : arena_printf(ctx->arena, "[checkpoint not read: %.*s]", STR_ARG(problem));
}
