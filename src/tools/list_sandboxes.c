/* list_sandboxes.c - every box, whether it lives, and how busy it is when asked. */
#include "base/thread.h"
#include "core/idle.h"
#include "tools/answer.h"
#include "tools/rows.h"

struct args {
    bool check_resources;
};

struct listing {
    struct call *call;
    bool check_resources;
    struct str active;
    json_t *list;
};

/* ---- how busy ------------------------------------------------------------------------ */

static json_t *megabytes(int64_t bytes)
{
    return bytes < 0 ? json_null() : json_integer(bytes >> 20);
}

/* {total_mb, used_mb, free_mb, used_pct} */
static json_t *space(int64_t used, int64_t total)
{
    bool known = used >= 0 && total > 0;
    json_t *o = json_object();

    (void)json_object_set_new(o, "total_mb", megabytes(total));
    (void)json_object_set_new(o, "used_mb", megabytes(used));
    (void)json_object_set_new(o, "free_mb", megabytes(known ? total - used : -1));
    (void)json_object_set_new(o, "used_pct",
                              answer_round(known ? 100.0 * (double)used / (double)total : -1, 1));
    return o;
}

static json_t *gpus(const struct usage *u)
{
    json_t *list = json_array();

    for (size_t i = 0; i < u->n_gpus; i++) {
        const struct gpu_usage *g = &u->gpus[i];
        bool known = g->memory_used_mb >= 0 && g->memory_total_mb > 0;
        double pct = known ? 100.0 * (double)g->memory_used_mb / (double)g->memory_total_mb : -1;
        json_t *o = json_object();

        (void)json_object_set_new(o, "index", json_integer(g->index));
        (void)json_object_set_new(o, "util_pct", answer_round(g->busy_pct, 1));
        (void)json_object_set_new(o, "mem_used_mb", answer_round((double)g->memory_used_mb, 0));
        (void)json_object_set_new(o, "mem_total_mb", answer_round((double)g->memory_total_mb, 0));
        (void)json_object_set_new(o, "mem_used_pct", answer_round(pct, 1));
        (void)json_array_append_new(list, o);
    }
    return list;
}

static json_t *resources(const struct usage *u)
{
    json_t *cpu = json_object();
    json_t *o = json_object();

    (void)json_object_set_new(cpu, "load_1m", answer_round(u->load_1m, 2));
    (void)json_object_set_new(cpu, "load_5m", answer_round(u->load_5m, 2));
    (void)json_object_set_new(cpu, "load_15m", answer_round(u->load_15m, 2));
    (void)json_object_set_new(cpu, "count", u->cpus > 0 ? json_integer(u->cpus) : json_null());
    (void)json_object_set_new(o, "cpu", cpu);
    (void)json_object_set_new(o, "memory", space(u->memory_used, u->memory_total));
    (void)json_object_set_new(o, "disk", space(u->disk_used, u->disk_total));
    (void)json_object_set_new(o, "processes",
                              u->processes < 0 ? json_null() : json_integer(u->processes));
    (void)json_object_set_new(o, "gpu", gpus(u));
    (void)json_object_set_new(o, "idle_score", answer_round(idle_score(u), 3));
    return o;
}

static json_t *show_resources(const struct box_view *view)
{
    json_t *o;

    if (view->usage != NULL) {
        return resources(view->usage);
    }
    o = json_object();
    answer_str(o, "error", view->usage_problem);
    (void)json_object_set_new(o, "idle_score", json_null());
    return o;
}

/* ---- the two shapes ------------------------------------------------------------------ */

static int add_box(void *arg, const struct box_view *view, struct box *box, struct err *e)
{
    struct listing *l = arg;
    json_t *o = json_object();

    (void)box;
    (void)e;
    answer_str(o, "name", view->row.name);
    answer_str(o, "id", view->row.id);
    answer_str(o, "sandbox_id", view->row.id);
    answer_str(o, "provider", view->row.provider);
    (void)json_object_set_new(o, "status", json_string(answer_status(view)));
    (void)json_object_set_new(o, "is_active", json_boolean(view->selected));
    answer_connection(o, view);
    answer_box(o, view);
    if (l->check_resources) {
        (void)json_object_set_new(o, "resources", show_resources(view));
    }
    if (view->selected) {
        l->active = arena_str(l->call->ctx->arena, view->row.name);
    }
    (void)json_array_append_new(l->list, o);
    return 0;
}

static bool has_selection(struct scope *scope)
{
    LOCKED(&scope->lock);
    return scope->selected[0] != '\0';
}

/* Nothing is selected, but a call that names no box has one all the same. (A selected box
 * that is not in the list has ended: the next call that would use it is told so.) */
static void mark_active(struct listing *l)
{
    struct call *c = l->call;
    struct box_view view = {0};
    struct err ignored = {0};
    json_t *o;
    size_t i;

    if (has_selection(c->scope) || l->active.len > 0 || json_array_size(l->list) == 0 ||
        boxes_active(c->services->boxes, c->ctx, c->scope, &view, &ignored) < 0) {
        return;
    }
    json_array_foreach (l->list, i, o) {
        if (str_eq(js_str(js_get(o, "id")), view.row.id)) {
            (void)json_object_set_new(o, "is_active", json_true());
            l->active = view.row.name;
        }
    }
}

static json_t *cpu_percent(const struct usage *u)
{
    if (u == NULL || u->load_1m < 0 || u->cpus <= 0) {
        return json_null();
    }
    return answer_round(100.0 * u->load_1m / u->cpus, 1);
}

static int add_box_mcp(void *arg, const struct box_view *view, struct box *box, struct err *e)
{
    struct listing *l = arg;
    json_t *o = json_object();
    int64_t used = view->row.used_ms > 0 ? view->row.used_ms : view->row.created_ms;

    (void)box;
    (void)e;
    answer_str(o, "sandbox_id", view->row.id);
    answer_str(o, "sandbox_short_id", answer_short_id(view->row.id));
    answer_str(o, "name", view->row.name);
    (void)json_object_set_new(o, "status", json_string(answer_status(view)));
    answer_str(o, "image", view->row.image);
    answer_time(o, "created", view->row.created_ms);
    answer_time(o, "last_used", used);
    (void)json_object_set_new(o, "cpu", cpu_percent(view->usage));
    (void)json_array_append_new(l->list, o);
    return 0;
}

/* ---- the tool ------------------------------------------------------------------------ */

static json_t *config_problem(struct str problem)
{
    json_t *o = json_object();

    answer_str(o, "error", problem);
    answer_str(o, "hint",
               S("Correct the file or variable that the error names, then restart the server. "
                 "`anybox doctor` shows which files and variables are read."));
    (void)json_object_set_new(o, "active_sandbox", json_null());
    (void)json_object_set_new(o, "sandboxes", json_array());
    return o;
}

/* A host that is configured wrongly does not hide the others. */
static void add_hosts_problem(const struct config *config, json_t *o)
{
    json_t *diagnostics;

    if (config->hosts_problem.len == 0) {
        return;
    }
    answer_str(o, "error", config->hosts_problem);
    answer_str(o, "hint",
               S("Correct the file or variable that the error names, then restart the server. "
                 "Hosts that are right are listed and work."));
    diagnostics = json_object();
    (void)json_object_set_new(diagnostics, "REMOTE_SANDBOX_LIST_set",
                              json_boolean(config->remote_list_len > 0));
    (void)json_object_set_new(diagnostics, "REMOTE_SANDBOX_LIST_length",
                              json_integer(config->remote_list_len));
    (void)json_object_set_new(diagnostics, "REMOTE_HOST_set",
                              json_boolean(config->remote_host_set));
    answer_str(diagnostics, "init_error", config->hosts_problem);
    (void)json_object_set_new(o, "diagnostics", diagnostics);
}

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct args *args = given;
    struct str problem = c->services->config->problem;
    bool mcp = answer_is_mcp_sandbox(c);
    own_json json_t *list = json_array();
    struct listing l = {.call = c, .check_resources = args->check_resources, .list = list};

    if (problem.len > 0) {
        *out = config_problem(problem);
        return 0;
    }
    if ((mcp || args->check_resources
             ? boxes_each_busy(c->services->boxes, c->ctx, c->scope, mcp ? add_box_mcp : add_box,
                               &l, e)
             : boxes_each(c->services->boxes, c->ctx, c->scope, add_box, &l, e)) < 0) {
        return -1;
    }
    if (mcp) {
        *out = json_incref(list);
        return 0;
    }
    mark_active(&l);
    *out = json_object();
    add_hosts_problem(c->services->config, *out);
    (void)json_object_set_new(*out, "active_sandbox",
                              l.active.len > 0 ? js_string(l.active) : json_null());
    (void)json_object_set(*out, "sandboxes", list);
    return 0;
}

static const struct param params[] = {
    {
        .name = "check_resources",
        .type = PARAM_BOOLEAN,
        .offset = offsetof(struct args, check_resources),
        .help = "also cpu, memory, disk, GPU and idle_score (1 is idle)",
    },
};

const struct tool tool_list_sandboxes = {
    .name = "list_sandboxes",
    .title = "List sandboxes",
    .help =
        "List the sandboxes that exist: name, id, status, limits, network, and which is active.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_DEFAULT | TOOLSET_REMOTE | TOOLSET_OPEN | TOOLSET_MCP | TOOLSET_ALL,
    .hints = HINT_READ_ONLY | HINT_IDEMPOTENT,
    .run = run,
};
