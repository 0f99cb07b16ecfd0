/* asking.c - tools that ask the client: its user, its model, or for its folders. */
#include "fixtures.h"

#define MODEL_TOKENS 100

/* A form with one field, and what is asked. */
static json_t *form(const char *message, const char *field, const char *type)
{
    return json_pack("{s:s, s:{s:s, s:{s:{s:s}}, s:[s]}}", "message", message, "requestedSchema",
                     "type", "object", "properties", field, "type", type, "required", field);
}

static json_t *model_params(const char *prompt)
{
    return json_pack("{s:[{s:s, s:{s:s, s:s}}], s:i}", "messages", "role", "user", "content",
                     "type", "text", "text", prompt, "maxTokens", MODEL_TOKENS);
}

/* "<prefix><the answer as JSON>" */
static int answer_with(struct call *c, const char *prefix, const json_t *answer)
{
    struct buf text own_buf = {0};

    buf_init(&text, 8192);
    buf_add(&text, str_from(prefix));
    if (answer != NULL) {
        js_dump(answer, &text);
    } else {
        buf_add(&text, S("no answer"));
    }
    return answer_block(c,
                        json_pack("{s:s, s:o}", "type", "text", "text", js_string(buf_str(&text))));
}

/* One question, whose parameters are consumed; its answer is the tool's. */
static int ask_one(struct call *c, const char *key, enum client_can kind, json_t *params,
                   const char *prefix, struct err *e)
{
    json_t *held own_json = params;
    struct question q = {.key = key, .kind = kind, .params = held};
    int end = call_require(c, (unsigned)kind, e) < 0 ? -1 : c->ask(c, &q, 1, e);

    if (end < 0) {
        return -1;
    }
    return end == ASK_LATER ? 0 : answer_with(c, prefix, q.answer);
}

/* ---- up to 2025-11-25 ----------------------------------------------------------------------- */

struct text_args {
    struct str text;
};

RUN(sampling)
{
    const struct text_args *a = args;

    return ask_one(c, "model", CAN_SAMPLE, model_params(arena_cstr(c->ctx->arena, a->text)),
                   "LLM response: ", e);
}

static const struct param sampling_params[] = {
    {.name = "prompt",
     .type = PARAM_STRING,
     .offset = offsetof(struct text_args, text),
     .required = true,
     .help = "what to ask the model"},
};

const struct tool fixture_test_sampling = {
    .name = "test_sampling",
    .help = "Asks the client's model.",
    .params = sampling_params,
    .n_params = COUNTOF(sampling_params),
    .args_size = sizeof(struct text_args),
    .toolsets = TOOLSET_DEFAULT | TOOLSET_ALL,
    .run = sampling,
};

RUN(elicitation)
{
    const struct text_args *a = args;

    return ask_one(c, "user", CAN_FORM,
                   json_pack("{s:s, s:{s:s, s:{s:{s:s, s:s}, s:{s:s, s:s}}, s:[s, s]}}", "message",
                             arena_cstr(c->ctx->arena, a->text), "requestedSchema", "type",
                             "object", "properties", "username", "type", "string", "description",
                             "User's response", "email", "type", "string", "description",
                             "User's email address", "required", "username", "email"),
                   "User response: ", e);
}

static const struct param elicitation_params[] = {
    {.name = "message",
     .type = PARAM_STRING,
     .offset = offsetof(struct text_args, text),
     .required = true,
     .help = "what to show the user"},
};

const struct tool fixture_test_elicitation = {
    .name = "test_elicitation",
    .help = "Asks the client's user.",
    .params = elicitation_params,
    .n_params = COUNTOF(elicitation_params),
    .args_size = sizeof(struct text_args),
    .toolsets = TOOLSET_DEFAULT | TOOLSET_ALL,
    .run = elicitation,
};

/* A form given as JSON. */
static json_t *parsed(const char *text)
{
    struct err ignored;

    return js_parse(text, strlen(text), &ignored);
}

RUN(with_defaults)
{
    return ask_one(
        c, "user", CAN_FORM,
        parsed(
            "{\"message\":\"Please review these values\",\"requestedSchema\":{\"type\":\"object\","
            "\"properties\":{\"name\":{\"type\":\"string\",\"default\":\"John Doe\"},"
            "\"age\":{\"type\":\"integer\",\"default\":30},"
            "\"score\":{\"type\":\"number\",\"default\":95.5},"
            "\"status\":{\"type\":\"string\",\"enum\":[\"active\",\"inactive\",\"pending\"],"
            "\"default\":\"active\"},\"verified\":{\"type\":\"boolean\",\"default\":true}},"
            "\"required\":[]}}"),
        "Elicitation completed: ", e);
}
FIXTURE(test_elicitation_sep1034_defaults, "Asks the user with defaults in the form.",
        with_defaults);

RUN(with_enums)
{
    return ask_one(
        c, "user", CAN_FORM,
        parsed(
            "{\"message\":\"Please choose\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{"
            "\"untitledSingle\":{\"type\":\"string\",\"enum\":[\"option1\",\"option2\",\"option3\"]},"
            "\"titledSingle\":{\"type\":\"string\",\"oneOf\":["
            "{\"const\":\"value1\",\"title\":\"First Option\"},"
            "{\"const\":\"value2\",\"title\":\"Second Option\"},"
            "{\"const\":\"value3\",\"title\":\"Third Option\"}]},"
            "\"legacyEnum\":{\"type\":\"string\",\"enum\":[\"opt1\",\"opt2\",\"opt3\"],"
            "\"enumNames\":[\"Option One\",\"Option Two\",\"Option Three\"]},"
            "\"untitledMulti\":{\"type\":\"array\",\"items\":{\"type\":\"string\","
            "\"enum\":[\"option1\",\"option2\",\"option3\"]}},"
            "\"titledMulti\":{\"type\":\"array\",\"items\":{\"anyOf\":["
            "{\"const\":\"value1\",\"title\":\"First Choice\"},"
            "{\"const\":\"value2\",\"title\":\"Second Choice\"},"
            "{\"const\":\"value3\",\"title\":\"Third Choice\"}]}}},\"required\":[]}}"),
        "Elicitation completed: ", e);
}
FIXTURE(test_elicitation_sep1330_enums, "Asks the user with choices of every kind.", with_enums);

/* ---- from 2026-07-28 on ------------------------------------------------------------------------ */

RUN(ask_name)
{
    return ask_one(c, "user_name", CAN_FORM, form("What is your name?", "name", "string"),
                   "Hello, ", e);
}
FIXTURE(test_input_required_result_elicitation, "Asks the user for a name.", ask_name);
FIXTURE(test_streaming_elicitation, "The same under another name.", ask_name);

RUN(ask_model)
{
    return ask_one(c, "capital_question", CAN_SAMPLE,
                   model_params("What is the capital of France?"), "The model says: ", e);
}
FIXTURE(test_input_required_result_sampling, "Asks the client's model.", ask_model);

RUN(ask_roots)
{
    return ask_one(c, "client_roots", CAN_ROOTS, json_object(), "Roots: ", e);
}
FIXTURE(test_input_required_result_list_roots, "Asks for the client's folders.", ask_roots);

RUN(confirm)
{
    return ask_one(c, "confirm", CAN_FORM, form("Please confirm", "ok", "boolean"), "state-ok ", e);
}
FIXTURE(test_input_required_result_request_state, "Asks, and knows what it asked.", confirm);
FIXTURE(test_input_required_result_tampered_state, "Asks, and notices a forged state.", confirm);

/* Whatever the client can be asked of these, all at once. */
static int ask_able(struct call *c, unsigned wanted, struct err *e)
{
    json_t *params[] = {form("What is your name?", "name", "string"),
                        model_params("Generate a greeting"), json_object()};
    const struct question all[] = {
        {.key = "user_name", .kind = CAN_FORM, .params = params[0]},
        {.key = "greeting", .kind = CAN_SAMPLE, .params = params[1]},
        {.key = "client_roots", .kind = CAN_ROOTS, .params = params[2]},
    };
    struct question asked[COUNTOF(all)];
    size_t n = 0;
    int end = ASK_ANSWERED;

    for (size_t i = 0; i < COUNTOF(all); i++) {
        if ((wanted & (unsigned)all[i].kind) != 0) {
            asked[n++] = all[i];
        }
    }
    if (n > 0) {
        end = c->ask(c, asked, n, e);
    }
    for (size_t i = 0; i < n && end == ASK_ANSWERED; i++) {
        (void)answer_with(c, asked[i].key, asked[i].answer);
    }
    for (size_t i = 0; i < COUNTOF(params); i++) {
        json_decref(params[i]);
    }
    if (n == 0) {
        return answer_text(c, "There is nothing that this client can be asked.");
    }
    return end < 0 ? -1 : 0;
}

RUN(ask_all)
{
    const unsigned wanted = CAN_FORM | CAN_SAMPLE | CAN_ROOTS;

    return call_require(c, wanted, e) < 0 ? -1 : ask_able(c, wanted, e);
}
FIXTURE(test_input_required_result_multiple_inputs, "Asks three things at once.", ask_all);

RUN(ask_what_it_can)
{
    return ask_able(c, c->can, e);
}
FIXTURE(test_input_required_result_capabilities, "Asks what this client can answer.",
        ask_what_it_can);

RUN(two_rounds)
{
    json_t *name own_json = form("Step 1: What is your name?", "name", "string");
    json_t *colour own_json = form("Step 2: What is your favorite color?", "color", "string");
    struct question first = {.key = "step1", .kind = CAN_FORM, .params = name};
    struct question second = {.key = "step2", .kind = CAN_FORM, .params = colour};
    int end = call_require(c, CAN_FORM, e) < 0 ? -1 : c->ask(c, &first, 1, e);

    if (end == ASK_ANSWERED) {
        end = c->ask(c, &second, 1, e);
    }
    if (end == ASK_ANSWERED) {
        (void)answer_with(c, "name ", first.answer);
        (void)answer_with(c, "color ", second.answer);
    }
    return end < 0 ? -1 : 0;
}
FIXTURE(test_input_required_result_multi_round, "Asks one thing, then another.", two_rounds);

RUN(needs_model)
{
    if (call_require(c, CAN_SAMPLE, e) < 0) {
        return -1;
    }
    return answer_text(c, "This client has a model.");
}
FIXTURE(test_missing_capability, "Works only for clients whose model can be asked.", needs_model);
