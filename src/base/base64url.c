#include "base/base64url.h"

#include <stdint.h>

#define SHARED "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

void base64url_add(struct buf *out, struct str bytes)
{
    static const char digits[] = SHARED "-_";

    while (bytes.len > 0) {
        struct str part = str_head(bytes, 3);
        uint32_t bits = 0;

        for (size_t i = 0; i < 3; i++) {
            bits = bits << 8 | (i < part.len ? (unsigned char)part.p[i] : 0u);
        }
        for (size_t i = 0; i <= part.len; i++) {
            buf_addc(out, digits[(bits >> (18 - 6 * i)) & 63]);
        }
        bytes = str_skip(bytes, part.len);
    }
}

/* 0 to 63, or -1. `last` are the two digits in which the alphabets differ. */
static int value_of(char c, const char last[2])
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == last[0] ? 62 : c == last[1] ? 63 : -1;
}

/* Without padding. */
static int read_digits(struct str text, const char last[2], struct buf *out, struct err *e)
{
    uint32_t bits = 0;
    unsigned n_bits = 0;

    if (text.len % 4 == 1) {
        return err_set(e, ERR_INVALID, "this is not base64: it breaks off after %zu characters",
                       text.len);
    }
    for (size_t i = 0; i < text.len; i++) {
        int v = value_of(text.p[i], last);

        if (v < 0) {
            return err_set(e, ERR_INVALID,
                           "this is not base64: character %zu is not of its "
                           "alphabet",
                           i + 1);
        }
        bits = bits << 6 | (uint32_t)v;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            buf_addc(out, (char)(unsigned char)(bits >> n_bits));
            bits &= (1u << n_bits) - 1;
        }
    }
    if (bits != 0) {
        return err_set(e, ERR_INVALID,
                       "this is not base64: its last character holds bits that "
                       "belong to no byte");
    }
    return 0;
}

int base64url_read(struct str text, struct buf *out, struct err *e)
{
    return read_digits(text, "-_", out, e);
}

int base64_read_strict(struct str text, struct buf *out, struct err *e)
{
    size_t n_pad = 0;

    if (text.len % 4 != 0) {
        return err_set(e, ERR_INVALID,
                       "this is not base64 with padding: %zu characters are not "
                       "groups of four",
                       text.len);
    }
    while (n_pad < 2 && n_pad < text.len && text.p[text.len - 1 - n_pad] == '=') {
        n_pad++;
    }
    return read_digits(str_head(text, text.len - n_pad), "+/", out, e);
}
