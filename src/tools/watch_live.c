#include "tools/watch_live.h"

#define LINE_GUESS 400 /* bytes of a line, to know how much of the log is asked for */

int watch_live_task(struct call *c, const struct watch_row *w, int64_t lines, json_t **out,
                    struct err *e)
{
    struct task_ctx t = task_call(c);
    struct task_query query = {
        .box = {.id = w->order.box_id},
        .name = w->order.session,
        .log = w->order.log_file,
    };
    struct task_wait wait = {0};
    struct task_view view;

    if (tasks_check(&t, &query, -1, lines * LINE_GUESS, &wait, &view, e) < 0) {
        return -1;
    }
    *out = task_answer(c, &view);
    task_answer_text(*out, &view, -1, lines);
    return 0;
}

int watch_live_checkpoint(struct call *c, const struct watch_row *w, int64_t max,
                          struct checkpoint *out, struct err *e)
{
    struct str id;
    struct box *b CLEANUP(box_unref_p) = boxes_find(
        c->services->boxes, c->ctx, c->scope, &(struct box_want){.id = w->order.box_id}, &id, e);

    return b == NULL ? -1 : checkpoint_ask(b, c->ctx, &w->order, (size_t)max, out, e);
}
