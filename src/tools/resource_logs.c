/* resource_logs.c - sandbox://{id}/logs: what was run in a box, and the logs of its tasks. */
#include <string.h>

#include "base/own.h"
#include "base/percent.h"
#include "base/plain.h"
#include "core/journal.h"
#include "tools/resource_rows.h"
#include "tools/task_answer.h"

#define LINES      1000
#define LINES_MAX  10000
#define TASK_WORD  16 /* hex digits of a task's id */
#define TEXT_LIMIT (512u << 10)

struct wish {
    struct box_want box;
    struct str id; /* of the box */
    struct str task;
    struct str since; /* as the times of the journal are written, or the beginning of one */
    int64_t lines;
};

/* "2026-11-16T04:20:20Z", or less of it from the left. */
static bool is_time(struct str s)
{
    static const char form[] = "0000-00-00T00:00:00Z";

    for (size_t i = 0; i < s.len && i < sizeof(form); i++) {
        bool is_digit = s.p[i] >= '0' && s.p[i] <= '9';

        if (form[i] == '0' ? !is_digit : s.p[i] != form[i]) {
            return false;
        }
    }
    return s.len >= 4 && s.len < sizeof(form);
}

static int read_query(struct call *c, struct str query, struct wish *w, struct err *e)
{
    struct arena *a = c->ctx->arena;
    struct str lines = STR_EMPTY;
    bool found;

    w->lines = LINES;
    if (percent_query(a, query, S("since"), &w->since, &found, e) < 0) {
        return -1;
    }
    if (found && !is_time(w->since)) {
        return err_set(e, ERR_INVALID,
                       "since: \"%.*s\" is no time such as 2026-11-16T04:20:20Z or 2026-11-16 "
                       "(UTC)",
                       STR_ARG(str_head(w->since, 40)));
    }
    if (percent_query(a, query, S("task"), &w->task, &found, e) < 0 ||
        percent_query(a, query, S("lines"), &lines, &found, e) < 0) {
        return -1;
    }
    if (found && str_to_i64(lines, 1, LINES_MAX, &w->lines, e) < 0) {
        return err_wrap(e, "lines");
    }
    return 0;
}

static int read_wish(struct call *c, const struct str *values, struct wish *w, struct err *e)
{
    struct box *b CLEANUP(box_unref_p) = NULL;

    if (resource_box_word(c, values[0], &w->box, e) < 0 || read_query(c, values[1], w, e) < 0) {
        return -1;
    }
    b = boxes_find(c->services->boxes, c->ctx, c->scope, &w->box, &w->id, e);
    return b == NULL ? -1 : 0;
}

/* ---- one task ------------------------------------------------------------------------------ */

static bool is_id(struct str word)
{
    for (size_t i = 0; i < word.len; i++) {
        if (!((word.p[i] >= '0' && word.p[i] <= '9') || (word.p[i] >= 'a' && word.p[i] <= 'f'))) {
            return false;
        }
    }
    return word.len == TASK_WORD;
}

static int look_at_task(struct call *c, const struct wish *w, int64_t max, struct task_view *view,
                        struct err *e)
{
    struct task_args args = {.box.id = w->box.id};
    struct task_ctx t = task_call(c);
    struct task_wait wait = {0};
    struct task_query query;

    if (is_id(w->task)) {
        args.id = w->task;
    } else {
        args.session = w->task;
    }
    if (task_query(c, &args, &query, e) < 0) {
        return -1;
    }
    return tasks_check(&t, &query, -1, max, &wait, view, e);
}

static int add_task_log(struct call *c, const struct wish *w, struct buf *text, struct err *e)
{
    struct task_view view;
    json_t *o own_json = json_object();

    if (look_at_task(c, w, TASK_TEXT_MAX, &view, e) < 0) {
        return -1;
    }
    task_answer_text(o, &view, -1, w->lines);
    buf_add(text, js_str(js_get(o, "log_tail")));
    return 0;
}

/* ---- all ------------------------------------------------------------------------------------ */

static int add_task_line(void *arg, const struct task_view *v, struct err *e)
{
    struct buf *text = arg;

    (void)e;
    buf_addf(text, "== task %.*s (%.*s): %s, log ", STR_ARG(v->row.id),
             STR_ARG(v->row.name.len > 0 ? v->row.name : v->seen.name),
             task_phase_name(v->seen.end.state));
    plain_text(v->row.log.len > 0 ? v->row.log : v->seen.log, text);
    buf_addc(text, '\n');
    return 0;
}

/* From the first command on that began at that time or later: "== 2026-11-16T04:20:20Z $ ls". */
static struct str from_time(struct str text, struct str since)
{
    while (since.len > 0 && text.len > 0) {
        struct str rest;
        struct str line = str_cut(text, '\n', &rest);
        struct str began = str_head(str_skip(line, 3), 20);

        if (str_starts(line, S("== ")) && began.len == 20 && is_time(began) &&
            memcmp(began.p, since.p, since.len) >= 0) {
            return text;
        }
        text = rest;
    }
    return text;
}

static int add_all(struct call *c, const struct wish *w, struct buf *text, struct err *e)
{
    struct task_ctx t = task_call(c);
    struct buf lines own_buf = {0};

    buf_init(&lines, TEXT_LIMIT);
    journal_tail(c->services->journal, boxes_output_id(c->scope, w->id, c->ctx->arena),
                 (size_t)w->lines, &lines);
    buf_add(text, from_time(buf_str(&lines), w->since));
    return tasks_each(&t, &w->box, add_task_line, text, e);
}

static int read_logs(struct call *c, struct str uri, const struct str *values, json_t **contents,
                     struct err *e)
{
    struct buf text own_buf = {0};
    struct wish w = {0};

    buf_init(&text, TEXT_LIMIT);
    if (read_wish(c, values, &w, e) < 0 ||
        (w.task.len > 0 ? add_task_log(c, &w, &text, e) : add_all(c, &w, &text, e)) < 0) {
        return -1;
    }
    *contents = resource_text(uri, "text/plain", buf_str(&text));
    return 0;
}

static int version(struct call *c, const struct str *values, bool quick, struct buf *out,
                   struct err *e)
{
    struct task_view view;
    struct wish w = {0};

    if (read_wish(c, values, &w, e) < 0) {
        return -1;
    }
    if (w.task.len == 0) {
        buf_addf(out, "%llu",
                 (unsigned long long)journal_count(c->services->journal,
                                                   boxes_output_id(c->scope, w.id, c->ctx->arena)));
        return 0;
    }
    if (quick) {
        return 0;
    }
    if (look_at_task(c, &w, 1, &view, e) < 0) {
        return -1;
    }
    buf_addf(out, "%s %lld", task_phase_name(view.seen.end.state), (long long)view.seen.size);
    return 0;
}

static int list(struct call *c, json_t *all, struct err *e)
{
    return resource_each_box(c, "/logs", "logs", "text/plain", all, e);
}

const struct resource resource_logs = {
    .uri = "sandbox://{id}/logs{?lines,since,task}",
    .name = "sandbox-logs",
    .title = "What was run in a sandbox",
    .help = "The commands that this server ran in a sandbox (by id or name), with what they "
            "printed, and its tasks. lines: how many of the last ones (1000); since: those of "
            "commands that began then or later (2026-11-16T04:20:20Z); task: the log of this "
            "task instead (its id or name).",
    .mime = "text/plain",
    .changes = true,
    .read = read_logs,
    .version = version,
    .list = list,
    .complete = resource_complete_box,
};
