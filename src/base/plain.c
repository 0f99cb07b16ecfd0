/*
 * How plain_text() works.
 *
 * The line that is being read is built at the end of `out`, from line_start on, so
 * that "\b" and "\r" can take it back. A "\r" only becomes effective when something
 * visible follows it: "100%\r\n" keeps its line. Characters of a line that `out` has
 * no room for are counted, because a later "\r" or "\b" may take them back too; only
 * when the line stands is the text cut.
 *
 * Every escape sequence is skipped by one forward scan over the bytes it consumes, so
 * the whole is linear. Strings (OSC and its kin) end at a newline at the latest:
 * an unterminated one cannot swallow the rest of the output.
 */
#include "base/plain.h"

#include "base/attr.h"
#include "base/utf8.h"

#define ESC '\x1b'
#define BEL '\a'
#define DEL '\x7f'

struct writer {
    struct buf *out;
    size_t line_start;
    size_t skipped; /* characters of this line that out has no room for */
    bool returned;  /* a "\r" was read: what comes next starts the line again */
};

static bool in_range(char c, char first, char last)
{
    return c >= first && c <= last;
}

/* The length of the C1 control (as a code point) or 0; *c is its 7-bit letter. */
static size_t c1_at(struct str s, char *c)
{
    if (s.len >= 2 && s.p[0] == '\xC2' && in_range(s.p[1], '\x80', '\x9F')) {
        *c = (char)('@' + (s.p[1] & 0x1F));
        return 2;
    }
    return 0;
}

/* ---- skipping escape sequences ---- */

/* From behind "ESC [": parameters, intermediates and the final byte. */
static size_t skip_csi(struct str s)
{
    size_t n = 0;

    while (n < s.len && in_range(s.p[n], '0', '?')) {
        n++;
    }
    while (n < s.len && in_range(s.p[n], ' ', '/')) {
        n++;
    }
    return n < s.len && in_range(s.p[n], '@', '~') ? n + 1 : n;
}

/* From behind "ESC ]" and its kin: up to and with BEL or ST, or up to what cannot be
 * inside: a newline, or an escape that starts something else. */
static size_t skip_string(struct str s)
{
    for (size_t n = 0; n < s.len; n++) {
        char c = s.p[n];

        if (c == BEL) {
            return n + 1;
        }
        if (c == '\n') {
            return n;
        }
        if (c == ESC) {
            return n + 1 < s.len && s.p[n + 1] == '\\' ? n + 2 : n;
        }
        if (c1_at(str_skip(s, n), &c) > 0 && c == '\\') {
            return n + 2;
        }
    }
    return s.len;
}

/* From behind the introducer, which `letter` says in its 7-bit form. */
static size_t skip_body(char letter, struct str s)
{
    switch (letter) {
    case '[': return skip_csi(s);
    case ']':
    case 'P':
    case 'X':
    case '^':
    case '_': return skip_string(s);
    default: return 0;
    }
}

/* At an ESC: how many bytes belong to it. */
static size_t skip_escape(struct str s)
{
    size_t n = 1;

    if (s.len < 2) {
        return 1;
    }
    if (in_range(s.p[1], ' ', '/')) { /* such as "ESC ( B" */
        while (n < s.len && in_range(s.p[n], ' ', '/')) {
            n++;
        }
        return n < s.len && in_range(s.p[n], '0', '~') ? n + 1 : n;
    }
    if (in_range(s.p[1], '0', '~')) {
        return 2 + skip_body(s.p[1], str_skip(s, 2));
    }
    return 1;
}

/* ---- writing lines ---- */

static void truncate_to(struct buf *b, size_t len)
{
    b->len = len;
    if (b->p != NULL) {
        b->p[len] = '\0';
    }
}

/* `text` is whole characters, n of them. */
static void write_text(struct writer *w, struct str text, size_t n)
{
    if (w->returned) {
        truncate_to(w->out, w->line_start);
        w->skipped = 0;
        w->returned = false;
    }
    if (w->skipped > 0 || text.len > w->out->max - w->out->len) {
        w->skipped += n;
        return;
    }
    buf_add(w->out, text);
}

static void write_ascii(struct writer *w, struct str text)
{
    size_t room = w->returned ? w->out->max - w->line_start : w->out->max - w->out->len;

    if (w->skipped > 0 && !w->returned) {
        room = 0;
    }
    if (text.len > room && room > 0) {
        write_text(w, str_head(text, room), room);
        text = str_skip(text, room);
    }
    write_text(w, text, text.len);
}

/* The line stands. If part of it found no room the text is cut here. */
static void end_line(struct writer *w)
{
    if (w->skipped > 0) {
        w->out->cut = true;
    }
    buf_addc(w->out, '\n');
    w->line_start = w->out->len;
    w->returned = false;
}

static void take_back(struct writer *w)
{
    size_t len = w->out->len;

    if (w->returned) { /* the cursor is at the start of the line */
        return;
    }
    if (w->skipped > 0) {
        w->skipped--;
        return;
    }
    if (len == w->line_start) {
        return;
    }
    do {
        len--;
    } while (len > w->line_start && (w->out->p[len] & 0xC0) == 0x80);
    truncate_to(w->out, len);
}

/* ---- reading ---- */

struct range {
    uint32_t first, last;
};

/* U+200D and U+FE0F are not among them: emoji are built with these. */
bool plain_hides(uint32_t c)
{
    static const struct range hidden[] = {
        {0x00AD, 0x00AD},   {0x034F, 0x034F},   {0x061C, 0x061C}, {0x115F, 0x1160},
        {0x17B4, 0x17B5},   {0x180B, 0x180F},   {0x200B, 0x200C}, {0x200E, 0x200F},
        {0x202A, 0x202E},   {0x2060, 0x206F},   {0x3164, 0x3164}, {0xFE00, 0xFE0E},
        {0xFEFF, 0xFEFF},   {0xFFA0, 0xFFA0},   {0xFFF0, 0xFFFB}, {0x1BCA0, 0x1BCA3},
        {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF},
    };

    for (size_t i = 0; i < COUNTOF(hidden); i++) {
        if (c <= hidden[i].last) {
            return c >= hidden[i].first;
        }
    }
    return false;
}

/* At a byte that is not ASCII. Returns how many bytes were used. */
static size_t read_wide(struct writer *w, struct str s)
{
    uint32_t c = 0;
    size_t len = utf8_decode(s, &c);
    char letter;

    if (len == 0) {
        struct str bad = utf8_bad_run(s);

        write_text(w, S("\xEF\xBF\xBD"), 1);
        return bad.len;
    }
    if (c == 0x85 || c == 0x2028 || c == 0x2029) {
        end_line(w);
    } else if (c1_at(s, &letter) > 0) {
        return len + skip_body(letter, str_skip(s, len));
    } else if (!plain_hides(c)) {
        write_text(w, str_head(s, len), 1);
    }
    return len;
}

static size_t printable_len(struct str s)
{
    size_t n = 0;

    while (n < s.len && (in_range(s.p[n], ' ', '~') || s.p[n] == '\t')) {
        n++;
    }
    return n;
}

/* At a C0 control or DEL. Returns how many bytes were used. */
static size_t read_control(struct writer *w, struct str s)
{
    switch (s.p[0]) {
    case '\n': end_line(w); return 1;
    case '\r': w->returned = true; return 1;
    case '\b': take_back(w); return 1;
    case ESC: return skip_escape(s);
    default: return 1;
    }
}

void plain_text(struct str s, struct buf *out)
{
    struct writer w = {.out = out, .line_start = out->len};

    while (s.len > 0 && !out->cut) {
        size_t n = printable_len(s);

        if (n > 0) {
            write_ascii(&w, str_head(s, n));
        } else if ((s.p[0] & 0x80) != 0) {
            n = read_wide(&w, s);
        } else {
            n = read_control(&w, s);
        }
        s = str_skip(s, n);
    }
    if (w.skipped > 0) {
        out->cut = true;
    }
}
