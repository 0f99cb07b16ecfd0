/* resource_watches.c - sandbox://watches and sandbox://watches/{id}: what the watchdog sees. */
#include "tools/resource_rows.h"
#include "tools/rows.h"
#include "tools/watch_answer.h"

#define WATCHES_MAX 200

/* How a watched task is; not when it was looked at. */
static void add_version(struct buf *out, const struct watch_row *w)
{
    buf_addf(out, "%lld %d %d %d %lld %lld %lld %lld\n", (long long)w->id, (int)w->memory.status,
             (int)w->memory.state, (int)w->memory.has_exit_code, (long long)w->memory.exit_code,
             (long long)w->memory.resume_attempts, (long long)w->last_event_s,
             (long long)w->checkpoint_s);
}

static int read_answer(struct call *c, const struct tool *t, json_t *arguments, struct str uri,
                       json_t **contents, struct err *e)
{
    const void *args = tool_decode(t, arguments, c->ctx->arena, e);
    json_t *answer own_json = NULL;

    if (args == NULL || t->run(c, args, &answer, e) < 0) {
        return -1;
    }
    *contents = resource_json(uri, answer);
    return 0;
}

static int read_watches(struct call *c, struct str uri, const struct str *values, json_t **contents,
                        struct err *e)
{
    (void)values;
    return read_answer(c, &tool_list_background_watches, NULL, uri, contents, e);
}

static int add_row(void *arg, const struct watch_row *row, struct err *e)
{
    (void)e;
    add_version(arg, row);
    return 0;
}

static int watches_version(struct call *c, const struct str *values, bool quick, struct buf *out,
                           struct err *e)
{
    (void)values;
    (void)quick;
    buf_add(out, S("watches\n"));
    return store_each_watch(c->services->store, &c->scope->owner, -1, WATCHES_MAX, add_row, out, e);
}

const struct resource resource_watches = {
    .uri = "sandbox://watches",
    .name = "watches",
    .title = "All watches",
    .help = "What list_background_watches answers: the watched background tasks, newest first, "
            "and how the watchdog is.",
    .mime = "application/json",
    .changes = true,
    .read = read_watches,
    .version = watches_version,
};

static int read_watch(struct call *c, struct str uri, const struct str *values, json_t **contents,
                      struct err *e)
{
    json_t *arguments own_json = json_object();

    answer_str(arguments, "watch_id", values[0]);
    return read_answer(c, &tool_get_background_watch, arguments, uri, contents, e);
}

static int watch_version(struct call *c, const struct str *values, bool quick, struct buf *out,
                         struct err *e)
{
    struct watch_row w;
    int64_t id;

    (void)quick;
    if (str_to_i64(values[0], 1, INT64_MAX, &id, e) < 0 ||
        store_get_watch(c->services->store, c->ctx->arena, &c->scope->owner, id, &w, e) < 0) {
        return -1;
    }
    add_version(out, &w);
    return 0;
}

const struct resource resource_watch = {
    .uri = "sandbox://watches/{id}",
    .name = "watch",
    .title = "A watched task",
    .help = "One watch by its watch_id: how its task is, and its latest checkpoint.",
    .mime = "application/json",
    .changes = true,
    .read = read_watch,
    .version = watch_version,
};
