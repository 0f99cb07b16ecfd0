/* base64.c - see base64.h. */
#include "tools/base64.h"

#include <stdint.h>

#define PADDING 64u /* its place behind the digits */

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";

struct str base64_encode(struct arena *a, struct str bytes)
{
    size_t len = (bytes.len + 2) / 3 * 4;
    char *out = arena_alloc(a, len + 1, 1);
    size_t at = 0;

    for (size_t i = 0; i < bytes.len; i += 3) {
        size_t left = bytes.len - i;
        uint32_t group = (uint32_t)(unsigned char)bytes.p[i] << 16;

        group |= left > 1 ? (uint32_t)(unsigned char)bytes.p[i + 1] << 8 : 0;
        group |= left > 2 ? (uint32_t)(unsigned char)bytes.p[i + 2] : 0;
        out[at++] = alphabet[group >> 18];
        out[at++] = alphabet[group >> 12 & 63];
        out[at++] = alphabet[left > 1 ? group >> 6 & 63 : PADDING];
        out[at++] = alphabet[left > 2 ? group & 63 : PADDING];
    }
    return (struct str){out, len};
}

static int digit(char c)
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
    if (c == '+' || c == '-') {
        return 62;
    }
    return c == '/' || c == '_' ? 63 : -1;
}

int base64_decode(struct arena *a, struct str text, struct str *out, struct err *e)
{
    unsigned char *to = arena_alloc(a, text.len / 4 * 3 + 4, 1);
    size_t len = 0, digits = 0, padding = 0;
    uint32_t group = 0;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.p[i];
        int value = digit(c);

        if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
            continue;
        }
        if (c == '=') {
            padding++;
            continue;
        }
        if (value < 0 || padding > 0) {
            return err_set(e, ERR_INVALID, "it is not base64: unexpected character at position %zu",
                           i + 1);
        }
        group = group << 6 | (uint32_t)value;
        digits++;
        if (digits % 4 == 0) {
            to[len++] = (unsigned char)(group >> 16);
            to[len++] = (unsigned char)(group >> 8);
            to[len++] = (unsigned char)group;
            group = 0;
        }
    }
    if (digits % 4 == 1 || padding > 2 || (padding > 0 && (digits + padding) % 4 != 0)) {
        return err_set(e, ERR_INVALID, "it is not base64: the text ends in the middle of a group");
    }
    if (digits % 4 >= 2) {
        group <<= digits % 4 == 2 ? 12 : 6;
        to[len++] = (unsigned char)(group >> 16);
    }
    if (digits % 4 == 3) {
        to[len++] = (unsigned char)(group >> 8);
    }
    *out = (struct str){(const char *)to, len};
    return 0;
}
