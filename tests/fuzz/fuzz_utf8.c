/* Text that comes from programs: always valid, plain and bounded afterwards. */
#include <stdlib.h>

#include "base/plain.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition) {
        abort();
    }
}

static void check_scrub(struct str in, size_t max)
{
    struct buf out own_buf = {.max = max};

    utf8_scrub(in, &out);
    must(out.len <= max && utf8_valid(buf_str(&out)));
    must(out.cut || out.len >= in.len);
    if (utf8_valid(in) && in.len <= max) {
        must(str_eq(buf_str(&out), in));
    }
}

/* What may not be in plain text: controls, and what starts a sequence. */
static void check_plain_char(uint32_t c)
{
    must(c == '\t' || c == '\n' || (c >= 0x20 && c < 0x7F) || c >= 0xA0);
    must(c != 0x2028 && c != 0x2029 && c != 0x202E && c != 0x200B && c != 0xFEFF);
    must(c < 0xE0000 || c > 0xE0FFF);
}

static void check_plain(struct str in, size_t max)
{
    struct buf out own_buf = {.max = max};
    struct buf again own_buf = {.max = max};
    struct str rest;

    plain_text(in, &out);
    must(out.len <= max);
    for (rest = buf_str(&out); rest.len > 0;) {
        uint32_t c = 0;
        size_t len = utf8_decode(rest, &c);

        must(len > 0);
        check_plain_char(c);
        rest = str_skip(rest, len);
    }
    plain_text(buf_str(&out), &again); /* plain text is plain already */
    must(str_eq(buf_str(&again), buf_str(&out)));
}

static void check_cuts(struct str in, size_t n)
{
    struct str head = utf8_head(in, n);
    struct str tail = utf8_tail(in, n);

    must(head.len <= n && head.len <= in.len && tail.len <= n && tail.len <= in.len);
    must(head.len + 3 >= n || head.len == in.len);
    if (utf8_valid(in)) {
        must(utf8_valid(head) && utf8_valid(tail));
    }
    must(utf8_count(in) <= in.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str in = {(const char *)data, size};
    size_t small = size > 0 ? data[0] : 0;

    check_scrub(in, size * 3);
    check_scrub(in, small);
    check_plain(in, size * 3);
    check_plain(in, small);
    check_cuts(in, small);
    return 0;
}
