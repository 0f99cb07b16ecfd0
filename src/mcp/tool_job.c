/* tool_job.c - tools/call: run the tool, and its answer as a result. */
#include "base/utf8.h"
#include "json/js.h"
#include "mcp/calls.h"
#include "mcp/mcp.h"

/* A block that the client's revision does not know would break its reader. */
static bool is_known(enum revision rev, const json_t *block)
{
    struct str type = js_str(js_get(block, "type"));

    return !(str_eq(type, S("audio")) && !revision_has(rev, REV_AUDIO)) &&
           !(str_eq(type, S("resource_link")) && !revision_has(rev, REV_LINKS));
}

static void add_block(struct buf *out, enum revision rev, const json_t *block)
{
    struct str what = js_str(js_get(block, js_get(block, "uri") != NULL ? "uri" : "mimeType"));
    struct buf note own_buf = {0};

    if (is_known(rev, block)) {
        js_dump(block, out);
        return;
    }
    buf_init(&note, 2048);
    buf_addf(&note, "(%.*s: this version of the protocol cannot carry it)",
             STR_ARG(utf8_head(what, 1024)));
    buf_add(out, S("{\"type\":\"text\",\"text\":"));
    rpc_add_string(out, buf_str(&note));
    buf_addc(out, '}');
}

static void add_content(struct buf *out, const struct running *r, struct str text)
{
    const json_t *blocks = r->call.content;

    for (size_t i = 0; i < json_array_size(blocks); i++) {
        if (i > 0) {
            buf_addc(out, ',');
        }
        add_block(out, r->rev, json_array_get(blocks, i));
    }
    if (blocks == NULL) {
        buf_add(out, S("{\"type\":\"text\",\"text\":"));
        rpc_add_string(out, text);
        buf_addc(out, '}');
    }
}

static void add_result(struct buf *out, const struct running *r, struct str text, bool is_error)
{
    rpc_begin_result(out, r->raw_id);
    buf_add(out, S("{\"content\":["));
    add_content(out, r, text);
    buf_addc(out, ']');
    if (is_error) {
        buf_add(out, S(",\"isError\":true"));
    }
    result_end(out, r->rev);
    buf_addc(out, '}');
}

/* {"error":...,"code":...}: the text of a tool's answer when no tool could say it. */
static void add_problem(struct running *r, enum err_kind kind, struct str sentence, struct buf *out)
{
    struct buf text own_buf = {0};

    buf_init(&text, MCP_MESSAGE_MAX);
    buf_add(&text, S("{\"error\":"));
    rpc_add_string(&text, sentence);
    buf_addf(&text, ",\"code\":\"%s\"}", err_kind_name(kind));
    r->failed = true;
    json_decref(r->call.content);
    r->call.content = NULL;
    add_result(out, r, buf_str(&text), true);
}

static void run(struct running *r, struct buf *out)
{
    json_t *arguments = js_get(r->params, "arguments");
    struct buf text own_buf = {0};

    buf_init(&text, TOOL_TEXT_MAX);
    tool_call(r->row, &r->call, json_is_null(arguments) ? NULL : arguments, &text, &r->failed);
    if (r->call.asked) {
        ask_add_result(r, out);
        return;
    }
    if (r->failed && r->call.need != 0 && revision_has(r->rev, REV_MODERN)) {
        struct err e;

        (void)err_set(
            &e, ERR_UNSUPPORTED,
            "This tool needs a client that can be asked, and this one did not say that it "
            "can.");
        running_fail(r, out, &e);
        return;
    }
    /* Escapes can double a text, so only the whole message shows whether it fits. */
    add_result(out, r, buf_str(&text), r->failed);
    if (out->cut) {
        buf_clear(out);
        add_problem(r, ERR_LIMIT,
                    S("The answer is larger than 1 MiB as JSON and was not sent; the call itself "
                      "has ended. Ask for less at a time: fewer bytes, lines or characters."),
                    out);
    }
}

const struct job tool_job = {.run = run, .refuse = add_problem};
