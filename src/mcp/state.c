/* state.c - a token (core/token.h) of what the state is bound to, followed by it as JSON. */
#include "mcp/state.h"

#include <string.h>

#include "base/clock.h"
#include "json/js.h"

/* Parts of different lengths must not be exchangeable. */
static void add_part(struct sha256 *h, struct str part)
{
    uint64_t len = part.len;

    sha256_add(h, (struct str){(const char *)&len, sizeof(len)});
    sha256_add(h, part);
}

static int add_json(const char *bytes, size_t n, void *arg)
{
    sha256_add(arg, (struct str){bytes, n});
    return 0;
}

void state_bind(struct str owner, struct str method, json_t *params, unsigned char out[SHA256_SIZE])
{
    static const char *const apart[] = {"_meta", "inputResponses", "requestState"};
    json_t *rest own_json = json_object();
    struct sha256 h;

    if (params != NULL) {
        (void)json_object_update(rest, params);
    }
    for (size_t i = 0; i < COUNTOF(apart); i++) {
        (void)json_object_del(rest, apart[i]);
    }
    sha256_init(&h);
    add_part(&h, owner);
    add_part(&h, method);
    (void)json_dump_callback(rest, add_json, &h, JSON_COMPACT | JSON_SORT_KEYS);
    sha256_end(&h, out);
}

int state_seal(struct tokens *tokens, const unsigned char bound[SHA256_SIZE], const json_t *state,
               struct buf *out, struct err *e)
{
    struct buf payload own_buf = {0};

    buf_init(&payload, TOKEN_PAYLOAD_MAX);
    buf_add(&payload, (struct str){(const char *)bound, SHA256_SIZE});
    js_dump(state, &payload);
    if (payload.cut) {
        return err_set(e, ERR_LIMIT,
                       "what this call was told so far is more than %u bytes; answer in fewer "
                       "words",
                       (unsigned)TOKEN_PAYLOAD_MAX);
    }
    return token_make(tokens, TOKEN_REQUEST, buf_str(&payload), clock_wall_ms() + STATE_LIFETIME_MS,
                      out, e);
}

static json_t *not_ours(struct err *e)
{
    (void)err_set(e, ERR_INVALID,
                  "\"requestState\" is not what this server gave out for this request: send it "
                  "back unchanged with the same parameters, or leave it out to be asked again");
    return NULL;
}

json_t *state_open(struct tokens *tokens, const unsigned char bound[SHA256_SIZE], struct str text,
                   struct arena *a, struct err *e)
{
    struct str payload;

    if (token_read(tokens, TOKEN_REQUEST, text, a, &payload, e) < 0) {
        return e->kind == ERR_DENIED ? not_ours(e) : NULL;
    }
    if (payload.len < SHA256_SIZE || memcmp(payload.p, bound, SHA256_SIZE) != 0) {
        return not_ours(e);
    }
    payload = str_skip(payload, SHA256_SIZE);
    return js_parse(payload.p, payload.len, e);
}
