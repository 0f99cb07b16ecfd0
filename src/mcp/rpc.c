#include "mcp/rpc.h"

#include "base/utf8.h"
#include "json/js.h"

/* By its digits: js_parse() makes a real of an integer beyond 64 bits. */
static bool is_whole(const json_t *v, struct str raw)
{
    return json_is_number(v) && !str_has(raw, '.') && !str_has(raw, 'e') && !str_has(raw, 'E');
}

struct str rpc_echo(const json_t *v, struct str raw)
{
    if ((!json_is_string(v) && !is_whole(v, raw)) || raw.len > RPC_ID_MAX || !utf8_valid(raw)) {
        return STR_EMPTY;
    }
    return raw;
}

static const char *find_problem(const struct rpc_msg *m)
{
    const json_t *version = js_get(m->json, "jsonrpc");
    const json_t *method = js_get(m->json, "method");

    if (!json_is_object(m->json)) {
        return "A message must be a JSON object.";
    }
    if (!str_eq(js_str(version), S("2.0"))) {
        return "A message must have the member \"jsonrpc\" with the value \"2.0\".";
    }
    if (m->id != NULL && m->raw_id.len == 0 && method != NULL) {
        return "The member \"id\" must be a string or an integer, in UTF-8 and of at most 1024 "
               "bytes; leave it out for a notification.";
    }
    if (method != NULL && !json_is_string(method)) {
        return "The member \"method\" must be a string.";
    }
    if (method == NULL && js_get(m->json, "result") == NULL && js_get(m->json, "error") == NULL) {
        return "A message must have the member \"method\", or be an answer with \"result\" or "
               "\"error\".";
    }
    return NULL;
}

void rpc_classify(json_t *v, struct str text, struct rpc_msg *out)
{
    const json_t *params = js_get(v, "params");

    *out = (struct rpc_msg){.text = text, .json = v, .id = js_get(v, "id")};
    if (out->id != NULL) {
        out->raw_id = rpc_echo(out->id, js_raw(text, "id", NULL));
    }
    out->problem = find_problem(out);
    if (out->problem != NULL) {
        out->kind = RPC_BAD;
        return;
    }
    if (js_get(v, "method") == NULL) {
        out->kind = RPC_RESPONSE;
        return;
    }
    out->kind = out->id != NULL ? RPC_REQUEST : RPC_NOTIFICATION;
    out->method = js_str(js_get(v, "method"));
    out->params = json_is_null(params) ? NULL : params;
    out->claim = js_path(params, "_meta", RPC_META_VERSION, NULL);
}

enum rpc_code rpc_code_of(enum err_kind kind)
{
    return kind == ERR_INVALID || kind == ERR_NOT_FOUND || kind == ERR_LIMIT ? RPC_INVALID_PARAMS
                                                                             : RPC_INTERNAL_ERROR;
}

void rpc_add_string(struct buf *out, struct str s)
{
    json_t *v own_json = js_string(s);

    js_dump(v, out);
}

static void begin(struct buf *out, struct str raw_id)
{
    buf_add(out, S("{\"jsonrpc\":\"2.0\","));
    if (raw_id.len > 0) {
        buf_add(out, S("\"id\":"));
        buf_add(out, raw_id);
        buf_addc(out, ',');
    }
}

void rpc_begin_result(struct buf *out, struct str raw_id)
{
    begin(out, raw_id);
    buf_add(out, S("\"result\":"));
}

void rpc_add_error(struct buf *out, struct str raw_id, int code, struct str message,
                   struct str data)
{
    begin(out, raw_id);
    buf_addf(out, "\"error\":{\"code\":%d,\"message\":", code);
    rpc_add_string(out, message);
    if (data.len > 0) {
        buf_add(out, S(",\"data\":"));
        buf_add(out, data);
    }
    buf_add(out, S("}}"));
}

int rpc_error_code(struct str message, struct str raw_id)
{
    struct buf start own_buf = {0};
    int64_t code = 0;
    struct str rest;
    struct err ignored;

    buf_init(&start, RPC_ID_MAX + 64);
    begin(&start, raw_id);
    buf_add(&start, S("\"error\":{\"code\":"));
    if (!str_starts(message, buf_str(&start)) ||
        str_to_i64(str_cut(str_skip(message, start.len), ',', &rest), INT32_MIN, INT32_MAX, &code,
                   &ignored) < 0) {
        return 0;
    }
    return (int)code;
}
