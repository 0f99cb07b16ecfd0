/*
 * fuzz_rpc.c - messages to the protocol layer, one a line. The pool has no threads and
 * the table one tool, so that a call is looked up and refused but nothing runs. What
 * is answered must be JSON, in one line, of at most MCP_MESSAGE_MAX.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/thread.h"
#include "base/utf8.h"
#include "json/js.h"
#include "mcp/mcp.h"
#include "mcp/peer.h"
#include "serve/lines.h"
#include "tools/tool.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_never(struct call *c, const void *args, json_t **out, struct err *e)
{
    (void)c;
    (void)args;
    (void)out;
    (void)e;
    abort();
}

static const struct tool tool_only = {.name = "exec_bash",
                                      .title = "T",
                                      .help = "H",
                                      .args_size = 1,
                                      .toolsets = TOOLSET_DEFAULT,
                                      .run = run_never};
/* In place of the program's table, which the linker then leaves out. */
const struct tool *const tools[] = {&tool_only, NULL};

static void check_answer(struct peer *p, struct str message, enum send_kind kind)
{
    struct err e;
    json_t *v own_json = js_parse(message.p, message.len, &e);

    (void)p;
    (void)kind;
    if (v == NULL || message.len > MCP_MESSAGE_MAX || str_has(message, '\n') ||
        !utf8_valid(message)) {
        abort();
    }
}

static void feed_lines(struct peer *p, struct lines *l, bool at_end)
{
    for (;;) {
        const char *text;
        size_t len;

        switch (lines_next(l, at_end, &text, &len)) {
        case LINE_NONE: return;
        case LINE_TEXT: mcp_feed(p, text, len); break;
        case LINE_TOO_LONG: mcp_feed_too_long(p); break;
        }
    }
}

static void feed(struct peer *p, const uint8_t *data, size_t size)
{
    struct lines lines;

    lines_init(&lines, 1 << 16);
    while (size > 0) {
        size_t cap;
        char *to = lines_room(&lines, &cap);
        size_t n = size < cap ? size : cap;

        memcpy(to, data, n);
        lines_added(&lines, n);
        data += n;
        size -= n;
        feed_lines(p, &lines, size == 0);
    }
    lines_fini(&lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct peer_ops ops = {.send = check_answer, .one_stream = true};
    struct config config = {.max_calls = 0};
    struct services services = {.config = &config, .calls = pool_new("call", 0)};
    struct scope scope;
    struct mcp *mcp = mcp_new(&services, TOOLSET_DEFAULT);
    struct peer peer;

    scope_init(&scope, STR_EMPTY, S("/"));
    peer_init(&peer, &ops, mcp, &scope);
    feed(&peer, data, size);
    if (!peer_close(&peer, 0)) {
        abort();
    }
    peer_fini(&peer);
    mcp_free(mcp);
    pool_free(services.calls);
    scope_fini(&scope);
    return 0;
}
