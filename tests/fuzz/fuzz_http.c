/*
 * Any bytes as a header's value or a URL's part: an answer or a sentence, and what was
 * accepted has the shape that its contract promises. The first byte chooses the parser.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64url.h"
#include "base/mime.h"
#include "base/percent.h"
#include "base/utf8.h"
#include "serve/http/parse.h"
#include "serve/http/validate.h"

static void must(bool holds)
{
    if (!holds) {
        abort();
    }
}

static bool is_inside(struct str part, struct str whole)
{
    return part.len == 0 || (part.p >= whole.p && part.p + part.len <= whole.p + whole.len);
}

static void types(struct arena *a, struct str s)
{
    struct media_type m;
    struct err e;
    struct str v;
    int q = http_accept_q(s, S("application/json"));

    must(q >= 0 && q <= 1000);
    if (http_media_type(s, &m, &e) == 0) {
        must(m.type.len > 0 && m.subtype.len > 0 && is_inside(m.params, s));
        must(!str_has(m.type, ' ') && !str_has(m.subtype, ';'));
        (void)media_type_param(&m, S("charset"), a, &v);
    } else {
        must(e.kind == ERR_INVALID);
    }
}

static void hosts(struct str s)
{
    struct http_host h;
    struct http_origin o;
    struct err e;

    if (http_host(s, &h, &e) == 0) {
        must(h.name.len > 0 && is_inside(h.name, s) && http_host_same(&h, &h));
        for (size_t i = 0; i < h.name.len; i++) {
            must(h.name.p[i] > ' ' && h.name.p[i] < 0x7f &&
                 strchr("/@?#[]\\%", h.name.p[i]) == NULL);
        }
    }
    if (http_origin(s, &o, &e) == 0) {
        must(http_origin_same(&o, &o) == !o.opaque);
    }
}

static void credentials(struct str s)
{
    struct str token;
    struct err e;

    if (http_authorization(s, S("Bearer"), &token, &e) == 0) {
        must(token.len > 0 && is_inside(token, s) && !str_has(token, ' ') && !str_has(token, '\0'));
    }
}

static void ranges(struct str s)
{
    static const uint64_t sizes[] = {0, 1, 1000, UINT64_MAX};

    for (size_t i = 0; i < COUNTOF(sizes); i++) {
        struct http_range r;

        if (http_range(s, sizes[i], &r) == RANGE_PART) {
            must(r.first <= r.last && r.last < sizes[i]);
        }
    }
}

static void urls(struct arena *a, struct str s)
{
    struct buf escaped own_buf = {0};
    struct str plain, again = STR_EMPTY;
    struct err e;
    bool found;

    if (percent_read(a, s, true, &plain, &e) == 0) {
        must(plain.len <= s.len && !str_has(plain, '\0'));
        buf_init(&escaped, 3 * plain.len + 1);
        percent_add(&escaped, plain, false);
        must(!escaped.cut && percent_read(a, buf_str(&escaped), true, &again, &e) == 0);
        must(str_eq(plain, again));
    }
    if (percent_query(a, s, S("a"), &plain, &found, &e) == 0) {
        must(found || plain.len == 0);
    }
}

static void mcp(struct arena *a, struct str s)
{
    struct str out;
    struct err e;
    int32_t date = http_revision_date(s);

    must(date == 0 || (date >= 10101 && date <= 99991231));
    if (http_mcp_value(a, s, &out, &e) == 0) {
        must(out.len <= s.len);
    }
}

static void files(struct str s)
{
    struct buf out own_buf = {0};

    buf_init(&out, 16384);
    http_disposition(&out, s, mime_of(s).passive);
    must(!out.cut && out.len < 2000);
    for (size_t i = 0; i < out.len; i++) {
        must(out.p[i] >= ' ' && out.p[i] < 0x7f && strchr("\\/", out.p[i]) == NULL);
    }
    must(strchr(strchr(strchr(out.p, '"') + 1, '"') + 1, '"') == NULL);
}

/* One text for any bytes: what is read is written the same again. */
static void base64(struct str s)
{
    struct buf bytes own_buf = {0}, text own_buf = {0};
    struct err e;

    buf_init(&bytes, s.len + 1);
    buf_init(&text, 2 * s.len + 4);
    if (base64url_read(s, &bytes, &e) == 0) {
        base64url_add(&text, buf_str(&bytes));
        must(str_eq(buf_str(&text), s));
    }
    buf_clear(&bytes);
    if (base64_read_strict(s, &bytes, &e) == 0) {
        must(bytes.len <= s.len / 4 * 3);
    }
}

/* What names another version than ours never counts as ours. */
static void conditions(struct str s)
{
    char etag[VALIDATE_ETAG_SIZE], date[VALIDATE_DATE_SIZE];
    struct str tag = validate_etag(10, 255, 1000, etag);
    struct str when = validate_date(255, date);

    if (validate_etag_in(s, tag)) {
        must(str_eq(http_trim(s), S("*")) || memmem(s.p, s.len, tag.p, tag.len) != NULL);
    }
    if (validate_if_range(s, tag, when)) {
        must(str_eq(http_trim(s), tag) || str_eq(http_trim(s), when));
    }
    if (validate_not_since(s, 255)) {
        must(s.len == when.len && validate_not_since(s, -1));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a own_arena = {0};
    struct str s;

    if (size == 0 || size > (1u << 20)) {
        return 0;
    }
    arena_init(&a, 256u << 20);
    s = (struct str){(const char *)data + 1, size - 1};
    switch (data[0] % 16) {
    case 0: types(&a, s); break;
    case 1: hosts(s); break;
    case 2: credentials(s); break;
    case 3: ranges(s); break;
    case 4: urls(&a, s); break;
    case 5: mcp(&a, s); break;
    case 6: files(s); break;
    case 8: conditions(s); break;
    default: base64(s); break;
    }
    return 0;
}
