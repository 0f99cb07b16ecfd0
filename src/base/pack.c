#include "base/pack.h"

#include <stdint.h>

#define DIGITS_MAX 12

void pack_add(struct buf *to, struct str s)
{
    buf_addf(to, "%zu:", s.len);
    buf_add(to, s);
    buf_addc(to, ',');
}

void pack_add_i64(struct buf *to, int64_t v)
{
    struct buf text own_buf = {0};

    buf_init(&text, 32);
    buf_addf(&text, "%lld", (long long)v);
    pack_add(to, buf_str(&text));
}

int pack_next(struct str *rest, struct str *out, struct err *e)
{
    struct str after;
    struct str digits = str_cut(str_head(*rest, DIGITS_MAX), ':', &after);
    int64_t len = 0;

    if (rest->len == 0) {
        return 0;
    }
    if (after.p == NULL || str_to_i64(digits, 0, INT32_MAX, &len, e) < 0) {
        return err_set(e, ERR_PROTOCOL, "a packed list has no length where one must be");
    }
    after = str_skip(*rest, digits.len + 1);
    if ((size_t)len >= after.len || after.p[len] != ',') {
        return err_set(e, ERR_PROTOCOL, "a packed list is cut");
    }
    *out = str_head(after, (size_t)len);
    *rest = str_skip(after, (size_t)len + 1);
    return 1;
}

int pack_take(struct str *rest, struct str *out, struct err *e)
{
    int rc = pack_next(rest, out, e);

    return rc == 0 ? err_set(e, ERR_PROTOCOL, "a packed list is too short") : rc < 0 ? -1 : 0;
}

int pack_take_i64(struct str *rest, int64_t *out, struct err *e)
{
    struct str text = STR_EMPTY;

    if (pack_take(rest, &text, e) < 0) {
        return -1;
    }
    return str_to_i64(text, INT64_MIN, INT64_MAX, out, e);
}
