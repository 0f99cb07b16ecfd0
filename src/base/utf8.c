#include "base/utf8.h"

static const struct str replacement = {"\xEF\xBF\xBD", 3};

/* What the first byte of a code point promises: how many bytes there are and which
 * range the second one must be in (this excludes overlong forms, surrogates and
 * values above U+10FFFF). */
struct lead {
    size_t len;
    unsigned char second_min, second_max;
};

static struct lead lead_of(unsigned char c)
{
    if (c < 0x80) {
        return (struct lead){1, 0, 0};
    }
    if (c < 0xC2) {
        return (struct lead){0, 0, 0};
    }
    if (c < 0xE0) {
        return (struct lead){2, 0x80, 0xBF};
    }
    if (c < 0xF0) {
        return (struct lead){3, c == 0xE0 ? 0xA0 : 0x80, c == 0xED ? 0x9F : 0xBF};
    }
    if (c < 0xF5) {
        return (struct lead){4, c == 0xF0 ? 0x90 : 0x80, c == 0xF4 ? 0x8F : 0xBF};
    }
    return (struct lead){0, 0, 0};
}

/* How many bytes at the start of `s` (s.len > 0) belong to the code point that its
 * first byte promises; *complete tells whether all are there. At least 1. */
static size_t scan(struct str s, bool *complete)
{
    const unsigned char *p = (const unsigned char *)s.p;
    struct lead lead = lead_of(p[0]);
    size_t n = 1;

    *complete = lead.len == 1;
    if (lead.len < 2 || s.len < 2 || p[1] < lead.second_min || p[1] > lead.second_max) {
        return 1;
    }
    for (n = 2; n < lead.len && n < s.len && (p[n] & 0xC0) == 0x80; n++) {
    }
    *complete = n == lead.len;
    return n;
}

size_t utf8_decode(struct str s, uint32_t *out)
{
    const unsigned char *p = (const unsigned char *)s.p;
    bool complete;
    size_t len = scan(s, &complete);
    uint32_t value;

    if (!complete) {
        return 0;
    }
    value = p[0] & (len == 1 ? 0x7Fu : 0x7Fu >> len);
    for (size_t i = 1; i < len; i++) {
        value = value << 6 | (p[i] & 0x3Fu);
    }
    *out = value;
    return len;
}

struct str utf8_bad_run(struct str s)
{
    bool complete;

    return str_head(s, scan(s, &complete));
}

/* The length of the longest valid prefix. */
static size_t valid_len(struct str s)
{
    size_t n = 0;

    while (n < s.len) {
        bool complete;
        size_t len = scan(str_skip(s, n), &complete);

        if (!complete) {
            break;
        }
        n += len;
    }
    return n;
}

bool utf8_valid(struct str s)
{
    return valid_len(s) == s.len;
}

void utf8_scrub(struct str s, struct buf *out)
{
    while (s.len > 0 && !out->cut) {
        size_t valid = valid_len(s);
        struct str whole = utf8_head(str_head(s, valid), out->max - out->len);

        buf_add(out, whole);
        s = str_skip(s, whole.len);
        if (s.len == 0) {
            return;
        }
        if (whole.len < valid || out->max - out->len < replacement.len) {
            out->cut = true;
            return;
        }
        buf_add(out, replacement);
        s = str_skip(s, utf8_bad_run(s).len);
    }
}

size_t utf8_count(struct str s)
{
    size_t count = 0;

    while (s.len > 0) {
        uint32_t ignored;
        size_t len = utf8_decode(s, &ignored);

        s = str_skip(s, len > 0 ? len : 1);
        count++;
    }
    return count;
}

/* The start and the length of the code point around byte `at`; false when at is a
 * boundary, or inside something invalid, where any cut is as good as another. */
static bool around(struct str s, size_t at, size_t *start, size_t *len)
{
    for (size_t back = 1; back <= 3 && back <= at; back++) {
        uint32_t ignored;

        *start = at - back;
        *len = utf8_decode(str_skip(s, *start), &ignored);
        if (*len > 0) {
            return *len > back;
        }
    }
    return false;
}

struct str utf8_head(struct str s, size_t n)
{
    size_t start, len;

    if (n >= s.len) {
        return s;
    }
    return str_head(s, around(s, n, &start, &len) ? start : n);
}

struct str utf8_tail(struct str s, size_t n)
{
    size_t start, len, at;

    if (n >= s.len) {
        return s;
    }
    at = s.len - n;
    return str_skip(s, around(s, at, &start, &len) ? start + len : at);
}
