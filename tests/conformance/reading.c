/* reading.c - prompts and resources. */
#include "fixtures.h"

/* ---- prompts --------------------------------------------------------------------------------- */

static void add_message(json_t *messages, json_t *content)
{
    (void)json_array_append_new(messages,
                                json_pack("{s:s, s:o}", "role", "user", "content", content));
}

static const char *text_of(json_t *arguments, const char *name)
{
    const char *text = json_string_value(js_get(arguments, name));

    return text != NULL ? text : "";
}

GET(simple)
{
    *messages = json_array();
    add_message(*messages, text_block("This is a simple prompt for testing."));
    return 0;
}
static const struct prompt simple_prompt = {
    .name = "test_simple_prompt", .help = "A prompt without blanks.", .get = simple};

GET(with_arguments)
{
    struct str text = arena_printf(c->ctx->arena, "Prompt with arguments: arg1='%s', arg2='%s'",
                                   text_of(arguments, "arg1"), text_of(arguments, "arg2"));

    *messages = json_array();
    add_message(*messages, text_block(text.p));
    return 0;
}

static int complete(UNUSED struct call *c, struct str name, struct str start, json_t **values,
                    UNUSED struct err *e)
{
    static const char *const words[] = {"paris", "park", "party", "testing", "tests"};

    *values = json_array();
    for (size_t i = 0; i < COUNTOF(words); i++) {
        if (str_eq(name, S("arg1")) && str_starts(str_from(words[i]), start)) {
            (void)json_array_append_new(*values, json_string(words[i]));
        }
    }
    return 0;
}

static const struct prompt_blank two_blanks[] = {
    {"arg1", "First test argument", true},
    {"arg2", "Second test argument", true},
};
static const struct prompt arguments_prompt = {
    .name = "test_prompt_with_arguments",
    .help = "A prompt with two blanks.",
    .blanks = two_blanks,
    .n_blanks = COUNTOF(two_blanks),
    .get = with_arguments,
    .complete = complete,
};

GET(with_resource)
{
    *messages = json_array();
    add_message(*messages, resource_block(text_of(arguments, "resourceUri"), "text/plain",
                                          "Embedded resource content for testing."));
    add_message(*messages, text_block("Please process the embedded resource above."));
    return 0;
}
static const struct prompt_blank uri_blank[] = {
    {"resourceUri", "URI of the resource to embed", true}};
static const struct prompt resource_prompt = {
    .name = "test_prompt_with_embedded_resource",
    .help = "A prompt with a resource in it.",
    .blanks = uri_blank,
    .n_blanks = COUNTOF(uri_blank),
    .get = with_resource,
};

GET(with_image)
{
    *messages = json_array();
    add_message(*messages, image_block());
    add_message(*messages, text_block("Please analyze the image above."));
    return 0;
}
static const struct prompt image_prompt = {
    .name = "test_prompt_with_image", .help = "A prompt with an image in it.", .get = with_image};

GET(asking)
{
    json_t *params own_json =
        json_pack("{s:s, s:{s:s, s:{s:{s:s}}, s:[s]}}", "message",
                  "What context should the prompt use?", "requestedSchema", "type", "object",
                  "properties", "context", "type", "string", "required", "context");
    struct question q = {.key = "user_context", .kind = CAN_FORM, .params = params};
    const char *context;
    int end = call_require(c, CAN_FORM, e) < 0 ? -1 : c->ask(c, &q, 1, e);

    if (end != ASK_ANSWERED) {
        return end < 0 ? -1 : 0;
    }
    context = json_string_value(js_path(q.answer, "content", "context", NULL));
    *messages = json_array();
    add_message(*messages, text_block(context != NULL ? context : "No context was given."));
    return 0;
}
static const struct prompt asking_prompt = {
    .name = "test_input_required_result_prompt", .help = "A prompt that asks.", .get = asking};

const struct prompt *const prompts[] = {
    &simple_prompt, &arguments_prompt, &resource_prompt, &image_prompt, &asking_prompt, NULL,
};

/* ---- resources -------------------------------------------------------------------------------- */

static json_t *one_text(struct str uri, const char *mime, const char *text)
{
    return json_pack("[{s:o, s:s, s:s}]", "uri", js_string(uri), "mimeType", mime, "text", text);
}

READ(read_text)
{
    *contents = one_text(uri, "text/plain", "This is the content of the static text resource.");
    return 0;
}

READ(read_binary)
{
    *contents = json_pack("[{s:o, s:s, s:s}]", "uri", js_string(uri), "mimeType", "image/png",
                          "blob", PNG_BASE64);
    return 0;
}

READ(read_data)
{
    json_t *data own_json =
        json_pack("{s:o, s:b, s:o}", "id", js_string(values[0]), "templateTest", 1, "data",
                  js_string(arena_printf(c->ctx->arena, "Data for ID: %.*s", STR_ARG(values[0]))));
    struct buf text own_buf = {0};

    buf_init(&text, 8192);
    js_dump(data, &text);
    *contents = one_text(uri, "application/json", text.p);
    return 0;
}

static const struct resource static_text = {.uri = "test://static-text",
                                            .name = "static-text",
                                            .help = "A text that stays.",
                                            .mime = "text/plain",
                                            .read = read_text};
static const struct resource static_binary = {.uri = "test://static-binary",
                                              .name = "static-binary",
                                              .help = "An image that stays.",
                                              .mime = "image/png",
                                              .read = read_binary};
static const struct resource watched = {.uri = "test://watched-resource",
                                        .name = "watched-resource",
                                        .help = "A text that is said to change.",
                                        .mime = "text/plain",
                                        .changes = true,
                                        .read = read_text};
static const struct resource data = {.uri = "test://template/{id}/data",
                                     .name = "template-data",
                                     .help = "Data of an id.",
                                     .mime = "application/json",
                                     .read = read_data};

const struct resource *const resources[] = {&static_text, &static_binary, &watched, &data, NULL};
