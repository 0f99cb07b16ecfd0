/*
 * fixtures.h - what the official conformance suite expects of a server under test: tools,
 * prompts and resources of agreed names that do one thing of the protocol each. They are rows
 * of the same tables as the product's, and take their place in build/anybox-conformance.
 */
#ifndef TESTS_CONFORMANCE_FIXTURES_H
#define TESTS_CONFORMANCE_FIXTURES_H

#include "json/js.h"
#include "tools/prompt.h"
#include "tools/resource.h"
#include "tools/tool.h"

#define PNG_BASE64 /* one red pixel */                                                             \
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC"
#define WAV_BASE64 /* a millisecond of silence */                                                  \
    "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA=="

/* The heads of their functions, of which most need little. */
#define RUN(fn)                                                                                    \
    static int fn(UNUSED struct call *c, UNUSED const void *args, UNUSED json_t **out,             \
                  UNUSED struct err *e)
#define GET(fn)                                                                                    \
    static int fn(UNUSED struct call *c, UNUSED json_t *arguments, json_t **messages,              \
                  UNUSED struct err *e)
#define READ(fn)                                                                                   \
    static int fn(UNUSED struct call *c, struct str uri, UNUSED const struct str *values,          \
                  json_t **contents, UNUSED struct err *e)

#define FIXTURE(tool_name, what, fn)                                                               \
    const struct tool fixture_##tool_name = {.name = #tool_name,                                   \
                                             .help = (what),                                       \
                                             .args_size = 1,                                       \
                                             .toolsets = TOOLSET_DEFAULT | TOOLSET_ALL,            \
                                             .hints = HINT_READ_ONLY | HINT_IDEMPOTENT,            \
                                             .run = (fn)}

/* Content blocks, new references. */
json_t *text_block(const char *text);
json_t *image_block(void);
json_t *resource_block(const char *uri, const char *mime, const char *text);
/* The answer is this one block. */
int answer_block(struct call *c, json_t *block);
/* The same, of text. */
int answer_text(struct call *c, const char *text);

#define FIXTURES(X)                                                                                \
    X(test_audio_content)                                                                          \
    X(test_elicitation)                                                                            \
    X(test_elicitation_sep1034_defaults)                                                           \
    X(test_elicitation_sep1330_enums)                                                              \
    X(test_embedded_resource)                                                                      \
    X(test_error_handling)                                                                         \
    X(test_image_content)                                                                          \
    X(test_input_required_result_capabilities)                                                     \
    X(test_input_required_result_elicitation)                                                      \
    X(test_input_required_result_list_roots)                                                       \
    X(test_input_required_result_multi_round)                                                      \
    X(test_input_required_result_multiple_inputs)                                                  \
    X(test_input_required_result_request_state)                                                    \
    X(test_input_required_result_sampling)                                                         \
    X(test_input_required_result_tampered_state)                                                   \
    X(test_logging_tool)                                                                           \
    X(test_missing_capability)                                                                     \
    X(test_multiple_content_types)                                                                 \
    X(test_sampling)                                                                               \
    X(test_simple_text)                                                                            \
    X(test_streaming_elicitation)                                                                  \
    X(test_tool_with_logging)                                                                      \
    X(test_tool_with_progress)                                                                     \
    X(test_trigger_prompt_change)                                                                  \
    X(test_trigger_tool_change)

#define DECLARE(name) extern const struct tool fixture_##name;
FIXTURES(DECLARE)
#undef DECLARE

#endif
