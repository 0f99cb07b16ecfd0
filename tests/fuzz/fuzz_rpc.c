/*
 * fuzz_rpc.c - messages to the protocol layer, one a line. The pool has no threads and
 * the table one tool, so that a call is looked up and refused but nothing runs. What
 * is answered must be JSON, in one line, of at most MCP_MESSAGE_MAX.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/alloc.h"
#include "base/own.h"
#include "base/thread.h"
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
    char *text own_mem = xmemdup(message.p, message.len);
    json_t *v own_json = NULL;
    struct err e;

    (void)p;
    (void)kind;
    v = js_parse(text, message.len, &e);
    if (v == NULL || message.len > MCP_MESSAGE_MAX || str_has(message, '\n') ||
        memcmp(text, message.p, message.len) != 0) { /* nothing had to be repaired */
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct peer_ops ops = {.send = check_answer, .one_stream = true};
    struct config config = {.max_calls = 0};
    struct services services = {.config = &config, .calls = pool_new("call", 0)};
    struct mcp *mcp = mcp_new(&services, TOOLSET_DEFAULT);
    struct peer peer;
    struct lines lines;
    size_t cap, len;
    char *to, *text;
    enum line_kind kind;

    peer_init(&peer, &ops, mcp, NULL);
    lines_init(&lines, 1 << 16);
    do {
        size_t n;

        to = lines_room(&lines, &cap);
        n = size < cap ? size : cap;
        if (n > 0) {
            memcpy(to, data, n);
        }
        lines_added(&lines, n);
        data += n;
        size -= n;
        while ((kind = lines_next(&lines, size == 0, &text, &len)) != LINE_NONE) {
            if (kind == LINE_TEXT) {
                mcp_feed(&peer, text, len);
            } else {
                mcp_feed_too_long(&peer);
            }
        }
    } while (size > 0);
    lines_fini(&lines);
    if (!peer_close(&peer, 0)) {
        abort();
    }
    peer_fini(&peer);
    mcp_free(mcp);
    pool_free(services.calls);
    return 0;
}
