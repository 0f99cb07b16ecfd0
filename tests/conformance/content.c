/* content.c - answers of every kind, progress, log messages, and changes. */
#include "base/clock.h"
#include "fixtures.h"

#define PAUSE_MS    50
#define PROGRESS_MS 1050 /* progress is sent once a second at most */

json_t *text_block(const char *text)
{
    return json_pack("{s:s, s:s}", "type", "text", "text", text);
}

json_t *image_block(void)
{
    return json_pack("{s:s, s:s, s:s}", "type", "image", "data", PNG_BASE64, "mimeType",
                     "image/png");
}

json_t *resource_block(const char *uri, const char *mime, const char *text)
{
    return json_pack("{s:s, s:{s:s, s:s, s:s}}", "type", "resource", "resource", "uri", uri,
                     "mimeType", mime, "text", text);
}

int answer_block(struct call *c, json_t *block)
{
    if (c->content == NULL) {
        c->content = json_array();
    }
    (void)json_array_append_new(c->content, block);
    return 0;
}

int answer_text(struct call *c, const char *text)
{
    return answer_block(c, text_block(text));
}

static int sleep_ms(struct call *c, int64_t ms, struct err *e)
{
    return ctx_wait(c->ctx, NULL, 0, clock_mono_ms() + ms, e);
}

RUN(simple_text)
{
    return answer_text(c, "This is a simple text response for testing.");
}
FIXTURE(test_simple_text, "Answers with a text.", simple_text);

RUN(image)
{
    return answer_block(c, image_block());
}
FIXTURE(test_image_content, "Answers with an image.", image);

RUN(audio)
{
    return answer_block(c, json_pack("{s:s, s:s, s:s}", "type", "audio", "data", WAV_BASE64,
                                     "mimeType", "audio/wav"));
}
FIXTURE(test_audio_content, "Answers with a sound.", audio);

RUN(embedded)
{
    return answer_block(c, resource_block("test://embedded-resource", "text/plain",
                                          "This is an embedded resource content."));
}
FIXTURE(test_embedded_resource, "Answers with a resource.", embedded);

RUN(mixed)
{
    (void)answer_text(c, "Multiple content types test:");
    (void)answer_block(c, image_block());
    return answer_block(c, resource_block("test://mixed-content-resource", "application/json",
                                          "{\"test\":\"data\",\"value\":123}"));
}
FIXTURE(test_multiple_content_types, "Answers with a text, an image and a resource.", mixed);

RUN(fail)
{
    return err_set(e, ERR_INVALID, "This tool intentionally returns an error for testing");
}
FIXTURE(test_error_handling, "Fails.", fail);

RUN(progress)
{
    static const char *const steps[] = {"begun", "half of it", "done"};

    for (size_t i = 0; i < COUNTOF(steps); i++) {
        if (i > 0 && sleep_ms(c, PROGRESS_MS, e) < 0) {
            return -1;
        }
        if (c->progress != NULL) {
            c->progress(c, str_from(steps[i]));
        }
    }
    return answer_text(c, "Progress was told.");
}
FIXTURE(test_tool_with_progress, "Tells its progress three times.", progress);

RUN(say)
{
    static const char *const steps[] = {"Tool execution started", "Tool processing data",
                                        "Tool execution completed"};

    for (size_t i = 0; i < COUNTOF(steps); i++) {
        if (i > 0 && sleep_ms(c, PAUSE_MS, e) < 0) {
            return -1;
        }
        if (c->log != NULL) {
            c->log(c, LEVEL_INFO, str_from(steps[i]));
        }
    }
    return answer_text(c, "Messages were sent to whom they were wanted by.");
}
const struct tool fixture_test_tool_with_logging = {
    .name = "test_tool_with_logging",
    .help = "Sends three messages to the client's log.",
    .args_size = 1,
    .toolsets = TOOLSET_DEFAULT | TOOLSET_ALL,
    .logs = true,
    .run = say,
};
const struct tool fixture_test_logging_tool = {
    .name = "test_logging_tool",
    .help = "The same under another name.",
    .args_size = 1,
    .toolsets = TOOLSET_DEFAULT | TOOLSET_ALL,
    .logs = true,
    .run = say,
};

RUN(change_tools)
{
    c->changed(c, CHANGED_TOOLS, STR_EMPTY);
    return answer_text(c, "It is said that the tools have changed.");
}
const struct tool fixture_test_trigger_tool_change = {
    .name = "test_trigger_tool_change",
    .help = "Tells who listens that the list of tools has changed.",
    .args_size = 1,
    .toolsets = TOOLSET_DEFAULT | TOOLSET_ALL,
    .changes = CHANGED_TOOLS,
    .run = change_tools,
};

/* Its resource, too, for who watches that. */
RUN(change_prompts)
{
    c->changed(c, CHANGED_PROMPTS, STR_EMPTY);
    c->changed(c, CHANGED_RESOURCE, S("test://watched-resource"));
    return answer_text(c, "It is said that the prompts have changed.");
}
const struct tool fixture_test_trigger_prompt_change = {
    .name = "test_trigger_prompt_change",
    .help = "Tells who listens that the list of prompts and the watched resource have changed.",
    .args_size = 1,
    .toolsets = TOOLSET_DEFAULT | TOOLSET_ALL,
    .changes = CHANGED_PROMPTS,
    .run = change_prompts,
};
