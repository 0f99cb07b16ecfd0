#include "tools/confirm.h"

#include "json/js.h"

#define TICK "ok"

/* {"message":...,"requestedSchema":...}: one required box. */
static json_t *form(struct str message, const char *label)
{
    json_t *tick = json_pack("{s:s, s:s}", "type", "boolean", "title", label);
    json_t *schema = json_pack("{s:s, s:{s:o}, s:[s]}", "type", "object", "properties", TICK, tick,
                               "required", TICK);
    json_t *params = json_object();

    (void)json_object_set_new(params, "message", js_string(message));
    (void)json_object_set_new(params, "requestedSchema", schema);
    return params;
}

static enum confirmed read_answer(const json_t *answer)
{
    struct str action = js_str(js_get(answer, "action"));

    if (str_eq(action, S("accept"))) {
        return json_is_true(js_path(answer, "content", TICK, NULL)) ? CONFIRM_YES : CONFIRM_NO;
    }
    return str_eq(action, S("decline")) ? CONFIRM_NO : CONFIRM_NOBODY;
}

int confirm_ask(struct call *c, struct str about, struct str message, const char *label,
                enum confirmed *out, struct err *e)
{
    json_t *params own_json = form(message, label);
    struct question question = {
        .key = "confirm", .kind = CAN_FORM, .about = about, .params = params};
    int end = c->ask(c, &question, 1, e);

    if (end < 0) {
        return -1;
    }
    *out = end == ASK_LATER ? CONFIRM_LATER : read_answer(question.answer);
    return 0;
}
