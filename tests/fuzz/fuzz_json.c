/* JSON from clients: what is accepted survives a round trip, and raw values are found
 * inside the text or not at all. */
#include <stdlib.h>

#include "base/own.h"
#include "base/utf8.h"
#include "json/js.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition) {
        abort();
    }
}

static void check_inside(struct str part, struct str whole)
{
    must(part.len == 0 || (part.p >= whole.p && part.p + part.len <= whole.p + whole.len));
}

/* The raw text of a member is there exactly when the parser finds one, and parses to
 * the same value. */
static void check_raw_member(struct str in, const json_t *v, const char *key)
{
    struct str raw = js_raw(in, key, NULL);
    json_t *want = js_get(v, key);
    struct err e;

    must((raw.len > 0) == (want != NULL));
    if (raw.len > 0) {
        json_t *got own_json = js_parse(raw.p, raw.len, &e);

        must(json_equal(got, want));
    }
}

static void check_value(struct str in, const json_t *v)
{
    struct buf once own_buf = {.max = in.len * 16 + 1024};
    struct buf twice own_buf = {.max = in.len * 16 + 1024};
    struct err e;
    json_t *again own_json = NULL;

    js_dump(v, &once);
    must(!once.cut && utf8_valid(buf_str(&once)));
    must(!str_has(buf_str(&once), '\n') && !str_has(buf_str(&once), '\x7F'));
    again = js_parse(once.p, once.len, &e);
    must(again != NULL && json_equal(v, again));
    js_dump(again, &twice);
    must(str_eq(buf_str(&once), buf_str(&twice)));
    check_raw_member(in, v, "id");
    check_raw_member(in, v, "params");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* An exact copy, so that a byte read beyond the end is noticed. */
    char *text own_mem = malloc(size > 0 ? size : 1);
    struct str in = {text, size};
    json_t *v own_json = NULL;
    struct err e = {0};

    for (size_t i = 0; i < size; i++) {
        text[i] = (char)data[i];
    }
    check_inside(js_raw(in, "id", NULL), in);
    check_inside(js_raw(in, "params", "_meta", "progressToken", NULL), in);
    check_inside(js_raw_item(in, 0), in);
    check_inside(js_raw_item(in, 3), in);
    v = js_parse(text, size, &e);
    if (v == NULL) {
        must(e.kind == ERR_INVALID && e.msg[0] != '\0' && utf8_valid(str_from(e.msg)));
        return 0;
    }
    check_value(in, v);
    return 0;
}
