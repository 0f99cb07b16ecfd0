/*
 * deploy_app.c - a program that serves a port, from its source to a URL that opens from here.
 *
 * It is put together from what there is: sync or upload, a command that installs, a background task that
 * runs it, and a forward that outlives us (core/lasting.h). Each step is the tool of that name, so an
 * application is looked at and ended like any task. deployment_id is the task's id.
 */
#include <inttypes.h>

#include "base/clock.h"
#include "base/own.h"
#include "core/lasting.h"
#include "tools/deploy_health.h"
#include "tools/exec.h"
#include "tools/rows.h"
#include "tools/task_answer.h"

#define TRY_MS      200
#define AT_ONCE_MS  1000 /* in which a program ends that cannot be started */
#define FREE_MS     5000 /* for the port of one that was ended */
#define GET_MS      5000
#define LOG_LINES   40
#define INSTALL_S   900
#define HEALTH_S    60
#define HEALTH_PATH 1024

struct file {
    struct str path, content, encoding, mode;
};

struct args {
    struct box_args box;
    struct str source, path, name, install_command, start_command, health_path;
    struct object_list files;
    struct str_list env;
    int64_t port, health_timeout_s;
    bool restart, stop;
};

struct deploy {
    struct call *call;
    const struct args *args;
    struct box_args box; /* by its id, once it is known */
    struct str name, dir;
    struct str task_id, log_file;
    struct health health;
    struct str problem; /* why it is not up */
    bool ended;
};

/* ---- the other tools ----------------------------------------------------------------------- */

/* Borrows the arguments. NULL is the failure. */
static json_t *use(struct call *c, const struct tool *t, json_t *arguments, struct err *e)
{
    const void *args = tool_decode(t, arguments, c->ctx->arena, e);
    json_t *answer = NULL;

    if (args == NULL || t->run(c, args, &answer, e) < 0) {
        return NULL;
    }
    return answer;
}

static json_t *with_box(const struct deploy *d)
{
    json_t *o = json_object();

    answer_str_if(o, "sandbox_id", d->box.id);
    answer_str_if(o, "sandbox_name", d->box.name);
    return o;
}

/* ---- the source ------------------------------------------------------------------------------ */

static int sync_source(struct deploy *d, struct err *e)
{
    json_t *arguments own_json = with_box(d);
    json_t *answer own_json = NULL;

    answer_str(arguments, "local_path", d->args->source);
    answer_str(arguments, "remote_path", d->dir);
    answer = use(d->call, &tool_sync_local_to_remote, arguments, e);
    if (answer == NULL) {
        return err_wrap(e, "bring over source");
    }
    if (d->call->asked || js_get(answer, "task_id") != NULL) {
        return err_set(e, ERR_LIMIT,
                       "source is large and is being brought over in the background (task %lld): "
                       "wait for it with check_file_transfer_task, then call deploy_app without "
                       "source and with path \"%.*s\"",
                       (long long)json_integer_value(js_get(answer, "task_id")), STR_ARG(d->dir));
    }
    return 0;
}

static int upload_files(struct deploy *d, struct err *e)
{
    const struct file *files = d->args->files.items;
    json_t *arguments own_json = with_box(d);
    json_t *answer own_json = NULL;
    json_t *list = json_array();

    (void)json_object_set_new(arguments, "files", list);
    for (size_t i = 0; i < d->args->files.n; i++) {
        json_t *o = json_object();

        answer_str(o, "path",
                   arena_printf(d->call->ctx->arena, "%.*s/%.*s", STR_ARG(d->dir),
                                STR_ARG(files[i].path)));
        answer_str(o, "content", files[i].content);
        answer_str(o, "encoding", files[i].encoding);
        answer_str_if(o, "mode", files[i].mode);
        (void)json_array_append_new(list, o);
    }
    answer = use(d->call, &tool_upload_files, arguments, e);
    if (answer == NULL) {
        return err_wrap(e, "bring over files");
    }
    if (json_array_size(js_get(answer, "failed")) > 0) {
        const json_t *first = json_array_get(js_get(answer, "failed"), 0);

        d->call->is_error = false; /* it is told as an error of ours */
        return err_set(e, ERR_INVALID, "%.*s: %.*s", STR_ARG(js_str(js_get(first, "path"))),
                       STR_ARG(js_str(js_get(first, "error"))));
    }
    return 0;
}

/* The folder that the application is in, as the box has it. */
static int make_folder(void *arg, struct call *c, struct box *b, struct str id, struct err *e)
{
    struct deploy *d = arg;
    struct file_info info = {0};

    d->box = (struct box_args){.id = arena_str(c->ctx->arena, id)};
    if (d->args->source.len > 0 || d->args->files.n > 0) {
        return box_file_mkdir(b, c->ctx, d->dir, e);
    }
    if (box_file_stat(b, c->ctx, d->dir, &info, e) < 0) {
        return e->kind == ERR_NOT_FOUND ? err_wrap(e, "path") : -1;
    }
    return info.type == FILE_DIR
               ? 0
               : err_set(e, ERR_INVALID, "path \"%.*s\" is no folder", STR_ARG(d->dir));
}

/* ---- installing and starting ------------------------------------------------------------------- */

static json_t *environment(const struct deploy *d)
{
    json_t *o = json_object();

    for (size_t i = 0; i < d->args->env.n; i++) {
        struct str value;
        struct str name = str_cut(d->args->env.items[i], '=', &value);

        (void)json_object_set_new(o, arena_cstr(d->call->ctx->arena, name), js_string(value));
    }
    return o;
}

static int install(struct deploy *d, json_t **failed, struct err *e)
{
    json_t *arguments own_json = with_box(d);
    json_t *answer own_json = NULL;

    answer_str(arguments, "command", d->args->install_command);
    answer_str(arguments, "cwd", d->dir);
    (void)json_object_set_new(arguments, "timeout_s", json_integer(INSTALL_S));
    (void)json_object_set_new(arguments, "env", environment(d));
    answer = use(d->call, &tool_exec_bash, arguments, e);
    if (answer == NULL) {
        return err_wrap(e, "install_command");
    }
    if (json_integer_value(js_get(answer, "exit_code")) != 0) {
        *failed = json_incref(answer);
    }
    return 0;
}

/* The variables become part of the shell's text, each quoted: a task has no environment of its
 * own. PORT is what most frameworks look at. */
static struct str command_of(const struct deploy *d)
{
    struct buf text own_buf = {0};
    const struct str_list *env = &d->args->env;

    buf_init(&text, EXEC_COMMAND_MAX);
    if (d->args->port > 0) {
        buf_addf(&text, "export PORT=%" PRId64 "\n", d->args->port);
    }
    for (size_t i = 0; i < env->n; i++) {
        buf_add(&text, S("export "));
        buf_add_quoted(&text, env->items[i]);
        buf_addc(&text, '\n');
    }
    buf_add(&text, d->args->start_command);
    return arena_str(d->call->ctx->arena, buf_str(&text));
}

/* NULL is the failure. */
static json_t *stop_old(struct deploy *d, struct err *e)
{
    json_t *arguments own_json = with_box(d);

    answer_str(arguments, "tmux_session", d->name);
    return use(d->call, &tool_cancel_background_task, arguments, e);
}

/* Else the answers of another program would be taken for those of this one. */
static int check_free(void *arg, struct call *c, struct box *b, struct str id, struct err *e)
{
    const struct deploy *d = arg;
    uint16_t port = (uint16_t)d->args->port;
    int64_t end_ms = clock_mono_ms() + (d->args->restart ? FREE_MS : 0);

    (void)id;
    while (health_is_taken(b, c->ctx, port)) {
        if (clock_mono_ms() >= end_ms) {
            return err_set(e, ERR_EXISTS,
                           "something in the sandbox already answers at port %u: give restart=true "
                           "to replace a deployment of the same name, end what serves it, or "
                           "choose another port",
                           (unsigned)port);
        }
        if (ctx_wait(c->ctx, NULL, 0, clock_mono_ms() + TRY_MS, e) < 0) {
            return -1;
        }
    }
    return 0;
}

static int need_port(struct deploy *d, struct err *e)
{
    return d->args->port > 0 ? answer_with_box(d->call, &d->box, false, check_free, d, NULL, e) : 0;
}

static int start(struct deploy *d, struct err *e)
{
    json_t *arguments own_json = with_box(d);
    json_t *answer own_json = NULL;
    struct arena *a = d->call->ctx->arena;

    if (d->args->restart) {
        struct err ignored;

        json_decref(stop_old(d, &ignored));
        if (need_port(d, e) < 0) {
            return -1;
        }
    }
    answer_str(arguments, "command", command_of(d));
    answer_str(arguments, "session_name", d->name);
    answer_str(arguments, "cwd", d->dir);
    (void)json_object_set_new(arguments, "watch", json_false());
    answer = use(d->call, &tool_exec_bash_background, arguments, e);
    if (answer == NULL) {
        return e->kind == ERR_EXISTS
                   ? err_set(e, ERR_EXISTS,
                             "\"%.*s\" is deployed and runs: give restart=true to replace it, or "
                             "another name",
                             STR_ARG(d->name))
                   : -1;
    }
    d->task_id = arena_str(a, js_str(js_get(answer, "task_id")));
    d->log_file = arena_str(a, js_str(js_get(answer, "log_file")));
    return 0;
}

/* ---- is it up? ----------------------------------------------------------------------------------- */

/* It is asked for up to an hour, and each answer has the end of a log: with memory of its own. */
static bool has_ended(const struct deploy *d)
{
    struct arena arena own_arena = {0};
    struct ctx ctx = *d->call->ctx;
    struct call call = {.ctx = &ctx,
                        .services = d->call->services,
                        .scope = d->call->scope,
                        .toolsets = d->call->toolsets}; /* without the client's callbacks */
    json_t *arguments own_json = with_box(d);
    json_t *answer own_json = NULL;
    struct err ignored;

    arena_init(&arena, d->call->ctx->arena->limit);
    ctx.arena = &arena;
    answer_str(arguments, "task_id", d->task_id);
    answer = use(&call, &tool_check_background_task, arguments, &ignored);
    return answer != NULL && json_is_false(js_get(answer, "running"));
}

static struct str why_not_up(const struct deploy *d, bool listens)
{
    struct arena *a = d->call->ctx->arena;
    struct str path = d->args->health_path.len > 0 ? d->args->health_path : S("/");

    if (!listens) {
        return arena_printf(a, "nothing listens at port %" PRId64 " after %" PRId64 " s",
                            d->args->port, d->args->health_timeout_s);
    }
    return d->health.status > 0 ? arena_printf(a, "%.*s was answered with status %d", STR_ARG(path),
                                               d->health.status)
                                : arena_printf(a, "%.*s was not answered in HTTP", STR_ARG(path));
}

static int wait_for_port(void *arg, struct call *c, struct box *b, struct str id, struct err *e)
{
    struct deploy *d = arg;
    const struct health_ask ask = {
        .port = (uint16_t)d->args->port, .path = d->args->health_path, .wait_ms = GET_MS};
    int64_t end_ms = clock_mono_ms() + d->args->health_timeout_s * 1000;
    bool listens = false;

    (void)id;
    for (;;) {
        listens = health_ask(b, c->ctx, &ask, &d->health);
        if (listens && d->health.ok) {
            return 0;
        }
        if (ctx_check(c->ctx, e) < 0) {
            return -1;
        }
        if (has_ended(d)) {
            d->ended = true;
            d->problem = S("it ended before it answered");
            return 0;
        }
        if (clock_mono_ms() >= end_ms) {
            break;
        }
        if (ctx_wait(c->ctx, NULL, 0, clock_mono_ms() + TRY_MS, e) < 0) {
            return -1;
        }
    }
    d->problem = why_not_up(d, listens);
    return 0;
}

/* Without a port all that can be seen is that it does not end at once. */
static int wait_a_moment(struct deploy *d, struct err *e)
{
    int64_t end_ms = clock_mono_ms() + AT_ONCE_MS;

    do {
        if (has_ended(d)) {
            d->ended = true;
            d->problem = S("it ended at once");
            return 0;
        }
        if (ctx_wait(d->call->ctx, NULL, 0, clock_mono_ms() + TRY_MS, e) < 0) {
            return -1;
        }
    } while (clock_mono_ms() < end_ms);
    return 0;
}

/* ---- the answer --------------------------------------------------------------------------------- */

static void put_log(struct deploy *d, json_t *o)
{
    json_t *arguments own_json = with_box(d);
    json_t *answer own_json = NULL;
    struct err ignored;

    answer_str(arguments, "task_id", d->task_id);
    (void)json_object_set_new(arguments, "last_n_lines", json_integer(LOG_LINES));
    answer = use(d->call, &tool_check_background_task, arguments, &ignored);
    if (answer != NULL) {
        (void)json_object_set(o, "log_tail", js_get(answer, "log_tail"));
    }
}

static void put_health(const struct deploy *d, json_t *o)
{
    json_t *h = json_object();

    (void)json_object_set_new(h, "ok", json_boolean(d->health.ok));
    (void)json_object_set_new(h, "status",
                              d->health.status > 0 ? json_integer(d->health.status) : json_null());
    (void)json_object_set_new(h, "latency_ms", json_integer(d->health.latency_ms));
    (void)json_object_set_new(o, "health", h);
}

static void put_url(struct deploy *d, json_t *o)
{
    const struct lasting what = {
        .owner = d->call->scope->owner, .box_id = d->box.id, .port = (uint16_t)d->args->port};
    uint16_t local = 0;
    struct err e;

    if (lasting_open(d->call->services, d->call->ctx, &what, &local, &e) < 0) {
        answer_str(o, "url_error", str_from(e.msg));
        return;
    }
    answer_str(o, "url", arena_printf(d->call->ctx->arena, "http://127.0.0.1:%u", (unsigned)local));
}

/* By a tool that this client was shown. */
static struct str how_to_stop(const struct deploy *d)
{
    return (tool_cancel_background_task.toolsets & d->call->toolsets) != 0
               ? S("cancel_background_task(task_id)")
               : arena_printf(d->call->ctx->arena,
                              "deploy_app(sandbox_id, name=\"%.*s\", stop=true)", STR_ARG(d->name));
}

static json_t *answer_for(struct deploy *d)
{
    bool is_up = d->problem.len == 0;
    json_t *o = json_object();

    answer_str(o, "deployment_id", d->task_id);
    answer_str(o, "status", is_up ? S("running") : S("failed"));
    answer_str(o, "name", d->name);
    answer_str(o, "task_id", d->task_id);
    answer_str(o, "sandbox_id", d->box.id);
    answer_str(o, "path", d->dir);
    (void)json_object_set_new(o, "port",
                              d->args->port > 0 ? json_integer(d->args->port) : json_null());
    if (d->args->port > 0) {
        put_health(d, o);
        if (is_up) {
            put_url(d, o);
        }
    }
    answer_str(o, "log_file", d->log_file);
    put_log(d, o);
    answer_str(o, "stop", how_to_stop(d));
    if (!is_up) {
        answer_str(o, "error",
                   arena_printf(d->call->ctx->arena, "the application is not up: %.*s%s",
                                STR_ARG(d->problem),
                                d->ended ? "; see log_tail"
                                         : "; it still runs: see log_tail, and stop says "
                                           "how to end it"));
        answer_str(o, "code", str_from(err_kind_name(ERR_UNREACHABLE)));
        d->call->is_error = true;
    }
    return o;
}

/* ---- the tool ------------------------------------------------------------------------------------- */

static int check(struct call *c, const struct args *a, struct deploy *d, struct err *e)
{
    struct str path = str_trim(a->path);

    if (str_trim(a->start_command).len == 0 && !a->stop) {
        return err_set(e, ERR_INVALID,
                       "start_command is empty; give the command that serves the port");
    }
    if (a->source.len > 0 && a->files.n > 0) {
        return err_set(e, ERR_INVALID, "give source or files, not both");
    }
    if (str_has(a->health_path, '\r') || str_has(a->health_path, '\n') ||
        str_has(a->health_path, ' ')) {
        return err_set(e, ERR_INVALID, "health_path must be a path of a URL, such as /health");
    }
    if (task_check_text(path, "path", e) < 0 ||
        task_name(c->ctx->arena, a->name, &d->name, e) < 0) {
        return -1;
    }
    d->dir = path.len > 0 ? path : a->source.len > 0 || a->files.n > 0 ? d->name : S(".");
    return 0;
}

static int stop(struct deploy *d, json_t **out, struct err *e)
{
    json_t *answer = stop_old(d, e);

    if (answer == NULL) {
        return e->kind == ERR_NOT_FOUND
                   ? err_set(e, ERR_NOT_FOUND, "no deployment is called \"%.*s\" in this sandbox",
                             STR_ARG(d->name))
                   : -1;
    }
    answer_str(answer, "deployment_id", js_str(js_get(answer, "task_id")));
    answer_str(answer, "name", d->name);
    answer_str(answer, "status", S("stopped"));
    *out = answer;
    return 0;
}

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct args *a = given;
    struct deploy d = {.call = c, .args = a, .box = a->box};
    struct str note = STR_EMPTY;
    json_t *failed = NULL;

    if (check(c, a, &d, e) < 0) {
        return -1;
    }
    if (a->stop) {
        return stop(&d, out, e);
    }
    if (answer_with_box(c, &a->box, true, make_folder, &d, &note, e) < 0 ||
        (!a->restart && need_port(&d, e) < 0) || (a->source.len > 0 && sync_source(&d, e) < 0) ||
        (a->files.n > 0 && upload_files(&d, e) < 0) ||
        (str_trim(a->install_command).len > 0 && install(&d, &failed, e) < 0)) {
        return -1;
    }
    if (failed != NULL) {
        answer_str(failed, "status", S("failed"));
        answer_str(failed, "error",
                   S("install_command failed: see stdout and stderr; nothing was started"));
        answer_str(failed, "code", str_from(err_kind_name(ERR_INVALID)));
        c->is_error = true;
        *out = failed;
        return 0;
    }
    if (start(&d, e) < 0 ||
        (a->port > 0 ? answer_with_box(c, &d.box, false, wait_for_port, &d, NULL, e)
                     : wait_a_moment(&d, e)) < 0) {
        return -1;
    }
    *out = answer_for(&d);
    answer_str_if(*out, "note", note);
    return 0;
}

static const char *const encodings[] = {"utf-8", "base64", NULL};

static const struct param file_fields[] = {
    {
        .name = "path",
        .type = PARAM_STRING,
        .offset = offsetof(struct file, path),
        .required = true,
        .max = 4096,
        .help = "relative to the application's folder",
    },
    {
        .name = "content",
        .type = PARAM_STRING,
        .offset = offsetof(struct file, content),
        .required = true,
        .max = 16 << 20,
        .help = "of the file",
    },
    {
        .name = "encoding",
        .type = PARAM_STRING,
        .offset = offsetof(struct file, encoding),
        .choices = encodings,
        .fallback_text = "utf-8",
        .help = "of content",
    },
    {
        .name = "mode",
        .type = PARAM_STRING,
        .offset = offsetof(struct file, mode),
        .max = 8,
        .hidden = true,
        .help = "octal, such as 755",
    },
};

static const struct param params[] = {
    PARAM_BOX(struct args),
    {
        .name = "start_command",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, start_command),
        .max = EXEC_COMMAND_MAX / 2,
        .help = "shell text that serves the port; PORT is set (required unless stop)",
    },
    {
        .name = "port",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, port),
        .min = 0,
        .max = UINT16_MAX,
        .help = "that it listens on; without it no URL",
    },
    {
        .name = "source",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, source),
        .max = 4096,
        .help = "local folder to bring over first",
    },
    {
        .name = "files",
        .type = PARAM_OBJECTS,
        .offset = offsetof(struct args, files),
        .fields = file_fields,
        .n_fields = COUNTOF(file_fields),
        .fields_size = sizeof(struct file),
        .help = "or these",
    },
    {
        .name = "path",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, path),
        .max = 4096,
        .help = "its folder in the sandbox (default: name, or the working folder)",
    },
    {
        .name = "name",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, name),
        .max = (int64_t)4 * TASK_NAME_MAX,
        .fallback_text = "app",
        .help = "of the deployment",
    },
    {
        .name = "install_command",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, install_command),
        .max = EXEC_COMMAND_MAX / 2,
        .help = "run before it starts",
    },
    {
        .name = "health_path",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, health_path),
        .max = HEALTH_PATH,
        .help = "that answers 2xx or 3xx when it is up (default: / and anything below 500)",
    },
    {
        .name = "health_timeout",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, health_timeout_s),
        .min = 1,
        .max = 3600,
        .fallback = HEALTH_S,
        .help = "seconds to wait for that",
    },
    {
        .name = "env",
        .type = PARAM_ENV,
        .offset = offsetof(struct args, env),
        .help = "variables to add",
    },
    {
        .name = "restart",
        .type = PARAM_BOOLEAN,
        .offset = offsetof(struct args, restart),
        .help = "end the one of that name first",
    },
    {
        .name = "stop",
        .type = PARAM_BOOLEAN,
        .offset = offsetof(struct args, stop),
        .help = "only end the one of that name",
    },
};

const struct tool tool_deploy_app = {
    .name = "deploy_app",
    .title = "Deploy an application",
    .help =
        "Start an application that serves a port in a sandbox, and wait until it answers: brings over "
        "source or files, runs install_command, starts start_command as a background task. Answers url "
        "(opens from here, also when the sandbox has no network and after a restart of this server), "
        "health, task_id, log_tail.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_OPEN | TOOLSET_ALL,
    .hints = 0,
    .run = run,
};
