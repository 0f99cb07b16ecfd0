/*
 * rpc.h - JSON-RPC 2.0 without a method in it: what kind of message came in, and the
 * envelopes of what goes out.
 *
 * Ids are kept as the bytes that came (raw_id) and echoed as such: 0, negative and
 * huge integers and escaped strings survive.
 */
#ifndef MCP_RPC_H
#define MCP_RPC_H

#include <stdbool.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define RPC_ID_MAX 1024 /* bytes of an id or a progress token as they came */

enum rpc_code {
    RPC_PARSE_ERROR = -32700,
    RPC_INVALID_REQUEST = -32600,
    RPC_METHOD_NOT_FOUND = -32601,
    RPC_INVALID_PARAMS = -32602,
    RPC_INTERNAL_ERROR = -32603,
    RPC_RESOURCE_NOT_FOUND = -32002, /* up to 2025-11-25 */
    RPC_HEADER_MISMATCH = -32020,
    RPC_MISSING_CAPABILITY = -32021,
    RPC_UNSUPPORTED_VERSION = -32022,
};
/* Of an error that has no result to be told in. */
enum rpc_code rpc_code_of(enum err_kind kind);

enum rpc_kind {
    RPC_REQUEST,
    RPC_NOTIFICATION,
    RPC_RESPONSE,
    RPC_BAD, /* .problem says why; raw_id is there when it could be read */
};

struct rpc_msg {
    enum rpc_kind kind;
    struct str text;   /* the whole message; raw values are read from it */
    json_t *json;      /* the same, parsed; borrowed like everything here */
    const json_t *id;  /* NULL: none */
    struct str raw_id; /* empty: none */
    struct str method;
    const json_t *params; /* NULL when absent or null */
    const json_t *claim;  /* params._meta's protocolVersion, of any type; NULL: none */
    const char *problem;
};

#define RPC_META_VERSION      "io.modelcontextprotocol/protocolVersion"
#define RPC_META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define RPC_META_LOG_LEVEL    "io.modelcontextprotocol/logLevel"
#define RPC_META_SUBSCRIPTION "io.modelcontextprotocol/subscriptionId"
#define RPC_META_SERVER_INFO  "io.modelcontextprotocol/serverInfo"

void rpc_classify(json_t *v, struct str text, struct rpc_msg *out);

/* The raw bytes of an id or a token when it is a string or an integer that we can echo:
 * not too long, and valid UTF-8, which js_parse() does not demand; else empty. */
struct str rpc_echo(const json_t *v, struct str raw);

void rpc_add_string(struct buf *out, struct str s); /* as a JSON string, quotes included */

/* {"jsonrpc":"2.0","id":...,"result": - the caller adds the result and a '}'. */
void rpc_begin_result(struct buf *out, struct str raw_id);
/* A whole error; no id when raw_id is empty, `data` is JSON text or empty. */
void rpc_add_error(struct buf *out, struct str raw_id, int code, struct str message,
                   struct str data);
/* The code of an error that rpc_add_error() made with this id; 0 for any other message. */
int rpc_error_code(struct str message, struct str raw_id);

#endif
