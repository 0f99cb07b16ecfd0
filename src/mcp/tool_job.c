/* tool_job.c - tools/call: run the tool, and its answer as a result. */
#include "json/js.h"
#include "mcp/calls.h"
#include "mcp/mcp.h"

static void add_result(struct buf *out, const struct running *r, struct str text, bool is_error)
{
    rpc_begin_result(out, r->raw_id);
    buf_add(out, S("{\"content\":[{\"type\":\"text\",\"text\":"));
    rpc_add_string(out, text);
    buf_add(out, S("}]"));
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
