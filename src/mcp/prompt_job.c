/* prompt_job.c - prompts/list, prompts/get and completion/complete. */
#include "base/utf8.h"
#include "json/js.h"
#include "mcp/calls.h"
#include "mcp/mcp.h"
#include "mcp/method_rows.h"
#include "tools/prompt.h"
#include "tools/resource.h"

#define VALUES_MAX 100 /* of the protocol */

/* ---- prompts/list -------------------------------------------------------------------------- */

static json_t *blank_json(const struct prompt_blank *b)
{
    return json_pack("{s:s, s:s, s:b}", "name", b->name, "description", b->help, "required",
                     (int)b->required);
}

static json_t *prompt_json(const struct prompt *p, enum revision rev)
{
    json_t *o = json_pack("{s:s, s:s}", "name", p->name, "description", p->help);

    if (revision_has(rev, REV_TITLES) && p->title != NULL) {
        (void)json_object_set_new(o, "title", json_string(p->title));
    }
    if (p->n_blanks > 0) {
        json_t *blanks = json_array();

        for (size_t i = 0; i < p->n_blanks; i++) {
            (void)json_array_append_new(blanks, blank_json(&p->blanks[i]));
        }
        (void)json_object_set_new(o, "arguments", blanks);
    }
    return o;
}

static bool is_offered(const struct exchange *x, const struct prompt *p)
{
    const struct mcp *m = x->peer->mcp;

    return prompt_offered(p, m->toolsets, m->services->config);
}

void run_prompts_list(const struct exchange *x)
{
    json_t *all own_json = json_array();

    for (size_t i = 0; prompts[i] != NULL; i++) {
        if (is_offered(x, prompts[i])) {
            (void)json_array_append_new(all, prompt_json(prompts[i], x->rev));
        }
    }
    exchange_list(x, "prompts", all, CACHE_HINTS);
}

/* ---- prompts/get --------------------------------------------------------------------------- */

/* Are they strings, and is what is required there? */
static int check_blanks(const struct prompt *p, json_t *arguments, struct err *e)
{
    const char *name;
    json_t *value;

    if (arguments != NULL && !json_is_object(arguments)) {
        return err_set(e, ERR_INVALID, "\"arguments\" must be an object of strings");
    }
    json_object_foreach (arguments, name, value) {
        if (!json_is_string(value)) {
            return err_set(e, ERR_INVALID, "the argument \"%.*s\" of a prompt must be a string",
                           STR_ARG(utf8_head(str_from(name), NAME_SHOWN)));
        }
    }
    for (size_t i = 0; i < p->n_blanks; i++) {
        if (p->blanks[i].required && js_get(arguments, p->blanks[i].name) == NULL) {
            return err_set(e, ERR_INVALID, "the prompt \"%s\" needs the argument \"%s\": %s",
                           p->name, p->blanks[i].name, p->blanks[i].help);
        }
    }
    return 0;
}

static void get(struct running *r, struct buf *out)
{
    const struct prompt *p = r->row;
    json_t *given = js_get(r->params, "arguments");
    json_t *arguments = json_is_null(given) ? NULL : given;
    json_t *result own_json = json_pack("{s:s}", "description", p->help);
    json_t *messages = NULL;
    struct err e = {0};

    if (check_blanks(p, arguments, &e) < 0 || p->get(&r->call, arguments, &messages, &e) < 0) {
        running_fail(r, out, &e);
        return;
    }
    if (messages != NULL) {
        (void)json_object_set_new(result, "messages", messages);
    }
    running_result(r, out, result, "");
}

static const struct job get_job = {.run = get, .refuse = running_refuse};

void run_prompts_get(const struct exchange *x)
{
    struct str name = js_str(js_get(x->msg->params, "name"));
    const struct prompt *p = prompt_find(name);

    if (p == NULL || !is_offered(x, p)) {
        exchange_error(x, RPC_INVALID_PARAMS,
                       "There is no prompt \"%.*s\"; prompts/list shows the prompts.",
                       STR_ARG(utf8_head(name, NAME_SHOWN)));
        return;
    }
    calls_start(x, &get_job, p, p->name);
}

/* ---- completion/complete --------------------------------------------------------------------- */

/* What completes the blanks of a prompt or of a resource's template; false: there is no such. */
static bool find_completer(const json_t *ref, complete_fn **out)
{
    struct str type = js_str(js_get(ref, "type"));
    const struct prompt *p = NULL;
    const struct resource *r = NULL;

    if (str_eq(type, S("ref/prompt"))) {
        p = prompt_find(js_str(js_get(ref, "name")));
    } else if (str_eq(type, S("ref/resource"))) {
        r = resource_of_template(js_str(js_get(ref, "uri")));
    }
    *out = p != NULL ? p->complete : r != NULL ? r->complete : NULL;
    return p != NULL || r != NULL;
}

static void complete(struct running *r, struct buf *out)
{
    complete_fn *completer = NULL;
    struct str name = js_str(js_path(r->params, "argument", "name", NULL));
    struct str start = js_str(js_path(r->params, "argument", "value", NULL));
    json_t *values = json_array();
    json_t *completion;
    json_t *result own_json = NULL;
    struct err e = {0};
    size_t n;

    (void)find_completer(js_get(r->params, "ref"), &completer);
    if (completer != NULL) {
        json_decref(values);
        values = NULL;
        if (completer(&r->call, name, start, &values, &e) < 0) {
            running_fail(r, out, &e);
            return;
        }
    }
    n = json_array_size(values);
    while (json_array_size(values) > VALUES_MAX) {
        (void)json_array_remove(values, VALUES_MAX);
    }
    completion = json_pack("{s:o, s:I, s:b}", "values", values, "total", (json_int_t)n, "hasMore",
                           n > VALUES_MAX);
    result = json_pack("{s:o}", "completion", completion);
    running_result(r, out, result, "");
}

static const struct job complete_job = {.run = complete, .refuse = running_refuse};

void run_complete(const struct exchange *x)
{
    complete_fn *completer;

    if (!find_completer(js_get(x->msg->params, "ref"), &completer) ||
        !json_is_string(js_path(x->msg->params, "argument", "name", NULL)) ||
        !json_is_string(js_path(x->msg->params, "argument", "value", NULL))) {
        exchange_error(
            x, RPC_INVALID_PARAMS,
            "completion/complete needs \"ref\" (the type ref/prompt and the name of a "
            "prompt, or ref/resource and the uri of a template), and \"argument\" with \"name\" and \"value\" as strings.");
        return;
    }
    calls_start(x, &complete_job, NULL, "completion/complete");
}
