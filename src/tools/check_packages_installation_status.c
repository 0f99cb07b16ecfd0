/* check_packages_installation_status.c - which Python packages a box has, and what is on its way. */
#include "tools/packages_answer.h"
#include "tools/rows.h"

struct job {
    struct str_list names;
    json_t *report;
};

static int look(void *arg, struct call *c, struct box *b, struct str id, struct err *e)
{
    struct job *j = arg;

    (void)id;
    return packages_look(b, c->ctx, j->names.items, j->names.n, &j->report, e);
}

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct packages_args *args = given;
    struct job j = {0};
    struct packages_verdict v;

    if (packages_names(c, args, &j.names, e) < 0 ||
        answer_with_box(c, &args->box, false, look, &j, NULL, e) < 0) {
        return -1;
    }
    v = packages_judge(c, j.report);
    *out = json_object();
    answer_str(*out, "status", str_from(v.status));
    answer_str(*out, "message", v.message);
    (void)json_object_set_new(*out, "complete",
                              json_boolean(!str_eq(str_from(v.status), S("installing"))));
    (void)json_object_set_new(*out, "success",
                              json_boolean(str_eq(str_from(v.status), S("success"))));
    (void)json_object_set(*out, "packages", js_get(j.report, "packages"));
    json_decref(j.report);
    return 0;
}

static const struct param params[] = {
    PARAM_BOX(struct packages_args),
    PARAM_PACKAGES(true),
    PARAM_PACKAGE(false),
};

const struct tool tool_check_packages_installation_status = {
    .name = "check_packages_installation_status",
    .title = "Check Python packages",
    .help = "Which of these Python packages execute_python_code can import, with their versions, "
            "and which are being installed (with the task_id) or could not be. Answers status "
            "(success, installing, failed, not_found), message, packages.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct packages_args),
    .toolsets = TOOLSET_MCP | TOOLSET_ALL,
    .hints = HINT_READ_ONLY | HINT_IDEMPOTENT,
    .run = run,
};

static const struct param params_of_one[] = {
    PARAM_BOX(struct packages_args),
    PARAM_PACKAGE(true),
    PARAM_PACKAGES(false),
};

/* The same for one package, as MCP Sandbox once had it. */
const struct tool tool_check_package_installation_status = {
    .name = "check_package_installation_status",
    .title = "Check a Python package",
    .help = "check_packages_installation_status for one package.",
    .params = params_of_one,
    .n_params = COUNTOF(params_of_one),
    .args_size = sizeof(struct packages_args),
    .toolsets = TOOLSET_ALL,
    .hints = HINT_READ_ONLY | HINT_IDEMPOTENT,
    .run = run,
};
