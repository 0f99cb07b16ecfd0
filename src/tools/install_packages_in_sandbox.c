/*
 * install_packages_in_sandbox.c - Python packages for a box.
 *
 * The installer is a command like any other (exec.h): the same time-outs, the same hand-over of what
 * takes long. Where an index is configured a relay to it is started before (core/index_relay.h), which
 * ends with the installer.
 */
#include "base/clock.h"
#include "base/id.h"
#include "core/index_relay.h"
#include "tools/exec.h"
#include "tools/packages_answer.h"
#include "tools/rows.h"

#define OUTPUT_CHARS 6000 /* of each stream, of an install that failed */

struct job {
    struct str_list names;
    struct packages_order order;
    struct index_relay *relay;
    json_t *report;
    char task[17];
};

/* ---- before ---------------------------------------------------------------------------------- */

static int no_index(struct call *c, struct err *e)
{
    return err_set(e, ERR_UNSUPPORTED,
                   "this sandbox has no network, and no package index is configured that could be "
                   "reached for it: set pypi_index_url in [mirror] of %.*s (the address of an "
                   "index's /simple/ page), or make a sandbox with network internet",
                   STR_ARG(str_head(c->services->config->file, 300)));
}

static int prepare(void *arg, struct call *c, struct box *b, struct str id, struct err *e)
{
    const struct config *config = c->services->config;
    const struct index_conf conf = {.url = config->pypi_index_url,
                                    .file_hosts = config->mirror_file_hosts,
                                    .max_file = config->mirror_max_file};
    struct job *j = arg;
    struct box_info info;

    (void)id;
    if (box_info(b, c->ctx, &info, e) < 0) {
        return -1;
    }
    if (info.state == BOX_GONE) {
        return err_set(e, ERR_GONE, "it has ended: %.*s", STR_ARG(info.ended));
    }
    if (conf.url.len == 0) {
        return info.network == NETWORK_NONE ? no_index(c, e) : 0;
    }
    if (info.network != NETWORK_NONE && !index_conf_is_secret(&conf)) {
        j->order.index = conf.url;
    }
    j->relay = index_relay_start(c->services->relays, b, c->ctx, &conf, e);
    if (j->relay == NULL && e->kind == ERR_NOT_FOUND) {
        return packages_no_python(e);
    }
    if (j->relay == NULL) {
        return e->kind == ERR_UNSUPPORTED && j->order.index.len > 0 ? 0 : -1;
    }
    j->order.relay = index_relay_url(j->relay, c->ctx->arena);
    return 0;
}

/* ---- after ----------------------------------------------------------------------------------- */

static int look(void *arg, struct call *c, struct box *b, struct str id, struct err *e)
{
    struct job *j = arg;

    (void)id;
    return packages_look(b, c->ctx, j->names.items, j->names.n, &j->report, e);
}

/* The line that says it best: a sentence of ours about the index, else an installer's first
 * ERROR, else its last words. */
static struct str reason(struct str said)
{
    struct str ours = STR_EMPTY;
    struct str error = STR_EMPTY;
    struct str last = STR_EMPTY;

    for (struct str rest = said; rest.p != NULL;) {
        struct str line = str_trim(str_cut(rest, '\n', &rest));

        if (str_starts(line, S("anybox: ")) &&
            !str_starts(line, S("anybox: the installer ended")) &&
            !str_starts(line, S("anybox: there is no pip"))) {
            ours = str_skip(line, 8);
        } else if (error.len == 0 &&
                   (str_starts(line, S("ERROR:")) || str_starts(line, S("error:")))) {
            error = line;
        }
        last = line.len > 0 ? line : last;
    }
    return str_head(ours.len > 0 ? ours : error.len > 0 ? error : last, 600);
}

static void put_failed(json_t *o, const json_t *ran)
{
    struct str said = js_str(js_get(ran, "stderr"));

    answer_str(o, "status", S("failed"));
    answer_str(o, "message", reason(said));
    answer_str(o, "stdout", js_str(js_get(ran, "stdout")));
    answer_str(o, "stderr", said);
    (void)json_object_set(o, "exit_code", js_get(ran, "exit_code"));
    (void)json_object_set_new(o, "complete", json_true());
    (void)json_object_set_new(o, "success", json_false());
}

/* What an agent would not think of by itself. */
static struct str note_of(struct call *c, const json_t *report)
{
    struct arena *a = c->ctx->arena;
    struct str note = STR_EMPTY;
    const char *name;
    json_t *one;

    if (str_eq(js_str(js_get(report, "where")), S("folder"))) {
        note = arena_printf(a,
                            "they are in %.*s, which execute_python_code looks into; for other "
                            "programs put it into PYTHONPATH",
                            STR_ARG(str_head(js_str(js_get(report, "folder")), 1000)));
    }
    json_object_foreach (js_get(report, "packages"), name, one) {
        if (js_get(one, "replaced") != NULL) {
            return arena_printf(a,
                                "%.*s%san interpreter that has imported the version that was there "
                                "before keeps it: execute_python_code with reset begins afresh",
                                STR_ARG(note), note.len > 0 ? "; " : "");
        }
    }
    return note;
}

static void put_installed(struct call *c, const struct job *j, json_t *o)
{
    struct packages_verdict v = packages_judge(c, j->report);
    bool ok = str_eq(str_from(v.status), S("success"));

    answer_str(o, "status", ok ? S("success") : S("failed"));
    answer_str(o, "message", v.message);
    (void)json_object_set_new(o, "complete", json_true());
    (void)json_object_set_new(o, "success", json_boolean(ok));
    answer_str_if(o, "note", note_of(c, j->report));
}

static void put_installing(json_t *o, const struct job *j, const json_t *ran)
{
    answer_str(o, "status", S("installing"));
    answer_str(o, "message",
               S("it still runs: check_packages_installation_status tells when they are there, "
                 "check_background_task shows its output, cancel_background_task ends it"));
    (void)json_object_set_new(o, "complete", json_false());
    (void)json_object_set_new(o, "success", json_null());
    (void)json_object_set(o, "task_id", js_get(ran, "task_id"));
    (void)json_object_set(o, "log_file", js_get(ran, "log_file"));
    if (j->relay != NULL) {
        answer_str(o, "note", S("packages come through this anybox: it must stay until then"));
    }
}

static int answer_for(struct call *c, struct job *j, const json_t *ran, json_t **out, struct err *e)
{
    const struct box_args box = {.id = c->box_id};
    json_t *o own_json = json_object();

    if (js_get(ran, "exit_code") == NULL) {
        put_installing(o, j, ran);
    } else if (json_integer_value(js_get(ran, "exit_code")) != 0) {
        put_failed(o, ran);
    }
    if (answer_with_box(c, &box, false, look, j, NULL, e) < 0) {
        return -1;
    }
    if (js_get(o, "status") == NULL) {
        put_installed(c, j, o);
    }
    if (json_is_true(js_get(o, "complete"))) {
        answer_time(o, "end_time", clock_wall_ms());
    }
    (void)json_object_set(o, "packages", js_get(j->report, "packages"));
    (void)json_object_set(o, "duration", js_get(ran, "duration"));
    *out = json_incref(o);
    return 0;
}

/* ---- the tool -------------------------------------------------------------------------------- */

static int install(struct call *c, const struct packages_args *args, struct job *j, json_t **out,
                   struct err *e)
{
    json_t *ran = NULL;
    struct exec_args exec = {.box = {.id = c->box_id},
                             .timeout_s = args->timeout_s,
                             .max_output_chars = OUTPUT_CHARS,
                             .id = str_from(j->task)};
    int failed;

    j->order.names = j->names.items;
    j->order.n = j->names.n;
    j->order.task = exec.id;
    exec.command = packages_command(c->ctx->arena, &j->order);
    exec.input = packages_input(c->ctx->arena, &j->order);
    exec.label = S("install_packages_in_sandbox");
    if (exec_answer(c, &exec, &ran, e) < 0) {
        return -1;
    }
    if (json_is_true(js_get(ran, "connection_error"))) {
        *out = ran; /* its own words say whether it ran */
        return 0;
    }
    failed = answer_for(c, j, ran, out, e);
    json_decref(ran);
    return failed;
}

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct packages_args *args = given;
    struct job j = {0};
    struct str note = STR_EMPTY;
    int failed;

    if (packages_names(c, args, &j.names, e) < 0) {
        return -1;
    }
    id_hex(j.task, 8);
    failed = answer_with_box(c, &args->box, true, prepare, &j, &note, e);
    if (failed == 0) {
        failed = install(c, args, &j, out, e);
    }
    index_relay_leave(j.relay, failed < 0 || json_is_true(js_get(*out, "complete")));
    json_decref(j.report);
    if (failed == 0 && note.len > 0 && js_get(*out, "note") == NULL) {
        answer_str(*out, "note", note);
    }
    return failed;
}

#define PARAM_TIMEOUT_S                                                                            \
    {                                                                                              \
        .name = "timeout_s", .type = PARAM_INTEGER,                                                \
        .offset = offsetof(struct packages_args, timeout_s), .min = 1, .max = EXEC_TIMEOUT_MAX,    \
        .help = "seconds until it is ended; default: after 45 s it goes on as a task",             \
    }

static const struct param params[] = {
    PARAM_BOX(struct packages_args),
    PARAM_PACKAGES(true),
    PARAM_TIMEOUT_S,
    PARAM_PACKAGE(false),
};

const struct tool tool_install_packages_in_sandbox = {
    .name = "install_packages_in_sandbox",
    .title = "Install Python packages",
    .help =
        "Install Python packages where execute_python_code imports them, by uv or pip, from the "
        "configured index; also in a sandbox without network. Answers status (success, failed, "
        "installing), message, packages with the installed versions, stderr.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct packages_args),
    .toolsets = TOOLSET_MCP | TOOLSET_ALL,
    .hints = HINT_IDEMPOTENT | HINT_OPEN_WORLD,
    .run = run,
};

static const struct param params_of_one[] = {
    PARAM_BOX(struct packages_args),
    PARAM_PACKAGE(true),
    PARAM_TIMEOUT_S,
    PARAM_PACKAGES(false),
};

/* The same for one package, as MCP Sandbox once had it. */
const struct tool tool_install_package_in_sandbox = {
    .name = "install_package_in_sandbox",
    .title = "Install a Python package",
    .help = "install_packages_in_sandbox for one package.",
    .params = params_of_one,
    .n_params = COUNTOF(params_of_one),
    .args_size = sizeof(struct packages_args),
    .toolsets = TOOLSET_ALL,
    .hints = HINT_IDEMPOTENT | HINT_OPEN_WORLD,
    .run = run,
};
