/* resource_boxes.c - sandbox://list and sandbox://{id}/status. */
#include "base/percent.h"
#include "tools/resource_rows.h"
#include "tools/rows.h"

#define LISTED_MAX 200 /* boxes in resources/list; all others have their addresses as well */

/* ---- what those of boxes share --------------------------------------------------------- */

int resource_box_word(struct call *c, struct str value, struct box_want *out, struct err *e)
{
    *out = (struct box_want){0};
    return percent_read(c->ctx->arena, value, false, &out->id, e);
}

struct listed {
    struct call *call;
    const char *tail, *name, *mime;
    json_t *all;
    size_t n;
};

static void list_one(void *arg, struct str word)
{
    struct listed *l = arg;
    struct arena *a = l->call->ctx->arena;
    struct buf uri own_buf = {0};
    json_t *o;

    if (l->n++ >= LISTED_MAX) {
        return;
    }
    buf_init(&uri, 1024);
    buf_add(&uri, S("sandbox://"));
    percent_add(&uri, word, false);
    buf_addf(&uri, "%s", l->tail);
    o = json_object();
    answer_str(o, "uri", buf_str(&uri));
    answer_str(o, "name", arena_printf(a, "%s of %.*s", l->name, STR_ARG(word)));
    (void)json_object_set_new(o, "mimeType", json_string(l->mime));
    (void)json_array_append_new(l->all, o);
}

int resource_each_box(struct call *c, const char *tail, const char *name, const char *mime,
                      json_t *all, struct err *e)
{
    struct listed l = {.call = c, .tail = tail, .name = name, .mime = mime, .all = all};

    (void)e;
    boxes_each_name(c->services->boxes, c->ctx, c->scope, list_one, &l);
    return 0;
}

struct completed {
    struct str start;
    json_t *values;
};

static void complete_one(void *arg, struct str word)
{
    struct completed *c = arg;

    if (str_starts(word, c->start)) {
        (void)json_array_append_new(c->values, js_string(word));
    }
}

int resource_complete_box(struct call *c, struct str name, struct str start, json_t **values,
                          struct err *e)
{
    struct completed all = {.start = start, .values = json_array()};

    (void)e;
    if (str_eq(name, S("id"))) {
        boxes_each_name(c->services->boxes, c->ctx, c->scope, complete_one, &all);
    }
    *values = all.values;
    return 0;
}

/* ---- sandbox://list ------------------------------------------------------------------- */

static int read_list(struct call *c, struct str uri, const struct str *values, json_t **contents,
                     struct err *e)
{
    const struct tool *t = &tool_list_sandboxes;
    const void *args = tool_decode(t, NULL, c->ctx->arena, e);
    json_t *answer own_json = NULL;

    (void)values;
    if (args == NULL || t->run(c, args, &answer, e) < 0) {
        return -1;
    }
    *contents = resource_json(uri, answer);
    return 0;
}

static int ignore_view(void *arg, const struct box_view *view, struct box *box, struct err *e)
{
    (void)arg;
    (void)view;
    (void)box;
    (void)e;
    return 0;
}

static int add_row(void *arg, const struct box_row *row, struct err *e)
{
    (void)e;
    buf_addf(arg, "%.*s %d %.*s\n", STR_ARG(row->id), (int)row->state, STR_ARG(row->name));
    return 0;
}

/* Boxes that ended by themselves are found by asking them, which ends their rows. */
static int list_version(struct call *c, const struct str *values, bool quick, struct buf *out,
                        struct err *e)
{
    (void)values;
    if (!quick && boxes_each_made(c->services->boxes, c->ctx, c->scope, ignore_view, NULL, e) < 0) {
        return -1;
    }
    buf_add(out, S("boxes\n"));
    return store_each_box(c->services->store, c->ctx->arena, c->scope->owner, false, add_row, out,
                          e);
}

const struct resource resource_list = {
    .uri = "sandbox://list",
    .name = "sandboxes",
    .title = "All sandboxes",
    .help = "What list_sandboxes answers: every sandbox, whether it lives, and which is active.",
    .mime = "application/json",
    .changes = true,
    .read = read_list,
    .version = list_version,
};

/* ---- sandbox://{id}/status ---------------------------------------------------------------- */

static json_t *status_of(const struct box_view *v)
{
    json_t *o = json_object();

    answer_str(o, "id", v->row.id);
    answer_str(o, "sandbox_id", v->row.id);
    answer_str(o, "name", v->row.name);
    answer_str(o, "provider", v->row.provider);
    (void)json_object_set_new(o, "status", json_string(answer_status(v)));
    answer_time(o, "last_used", v->row.used_ms > 0 ? v->row.used_ms : v->row.created_ms);
    answer_connection(o, v);
    answer_box(o, v);
    return o;
}

static int read_status(struct call *c, struct str uri, const struct str *values, json_t **contents,
                       struct err *e)
{
    struct box_view view = {0};
    struct box_want want;
    json_t *o own_json = NULL;

    if (resource_box_word(c, values[0], &want, e) < 0) {
        return -1;
    }
    if (boxes_show(c->services->boxes, c->ctx, c->scope, &want, &view, e) == 0) {
        o = status_of(&view);
    } else if (e->kind == ERR_GONE) {
        o = json_pack("{s:o, s:s, s:s}", "id", js_string(want.id), "status", "ended", "reason",
                      e->msg);
    } else {
        return -1;
    }
    *contents = resource_json(uri, o);
    return 0;
}

/* A row of the database says enough of a box that was made, once the box was asked; a host must
 * be asked. */
static int status_version(struct call *c, const struct str *values, bool quick, struct buf *out,
                          struct err *e)
{
    struct store *store = c->services->store;
    struct box_view view = {0};
    struct box_want want;
    struct box_row row;
    bool is_alive = false;
    bool is_made;

    if (resource_box_word(c, values[0], &want, e) < 0) {
        return -1;
    }
    if (!quick) {
        is_alive =
            boxes_show(c->services->boxes, c->ctx, c->scope, &want, &view, e) == 0 && view.alive;
    }
    is_made = store_box_by_id(store, c->ctx->arena, c->scope->owner, want.id, &row, e) == 0 ||
              store_box_by_name(store, c->ctx->arena, c->scope->owner, want.id, &row, e) == 0;
    if (is_made) {
        buf_addf(out, "%d %lld %.*s", (int)row.state, (long long)row.expires_ms,
                 STR_ARG(row.ended));
    } else if (!quick) {
        buf_addf(out, "host %d", (int)is_alive);
    }
    return 0;
}

static int list_status(struct call *c, json_t *all, struct err *e)
{
    return resource_each_box(c, "/status", "status", "application/json", all, e);
}

const struct resource resource_status = {
    .uri = "sandbox://{id}/status",
    .name = "sandbox-status",
    .title = "How a sandbox is",
    .help = "One sandbox (by id or name): status, image, limits, network, times, and how it is "
            "reached.",
    .mime = "application/json",
    .changes = true,
    .read = read_status,
    .version = status_version,
    .list = list_status,
    .complete = resource_complete_box,
};
