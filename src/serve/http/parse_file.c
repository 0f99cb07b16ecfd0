/* parse_file.c - under which name and type a file of a box is sent. */
#include <string.h>

#include "base/percent.h"
#include "base/plain.h"
#include "base/utf8.h"
#include "serve/http/parse.h"

#define FILE_NAME_MAX 200 /* bytes: file systems take 255, and browsers add " (1)" */

/* The last part, whichever system's separators it was written with. */
static struct str last_part(struct str path)
{
    size_t at;

    while (path.len > 0 && (path.p[path.len - 1] == '/' || path.p[path.len - 1] == '\\')) {
        path.len--;
    }
    for (at = path.len; at > 0 && path.p[at - 1] != '/' && path.p[at - 1] != '\\'; at--) {
    }
    return str_skip(path, at);
}

/* Appends what may be in a file name anywhere: no controls, nothing invisible, valid UTF-8,
 * none of the characters that some system or shell reads as more than a character. */
static void add_harmless(struct buf *to, struct str s)
{
    uint32_t c;

    while (s.len > 0) {
        size_t n = utf8_decode(s, &c);
        struct str part = str_head(s, n);

        if (n == 0) {
            part = S("_");
            n = utf8_bad_run(s).len;
        } else if (c < 0x20 || (c >= 0x7f && c < 0xa0) || plain_hides(c) ||
                   (c < 0x80 && strchr("\"\\/:*?<>|", (int)c) != NULL)) {
            part = S("_");
        }
        buf_add(to, part);
        s = str_skip(s, n);
    }
}

static void add_ascii(struct buf *out, struct str name)
{
    uint32_t c;

    while (name.len > 0) {
        size_t n = utf8_decode(name, &c);
        char shown = '_';

        if (c < 0x80 && c != '%') { /* some browsers decode that here */
            shown = (char)c;
        }
        buf_addc(out, shown);
        name = str_skip(name, n);
    }
}

void http_disposition(struct buf *out, struct str path, bool shown_inline)
{
    struct buf harmless own_buf = {0}, ascii own_buf = {0};
    struct str name;

    buf_init(&harmless, 8192);
    buf_init(&ascii, 8192);
    add_harmless(&harmless, last_part(path));
    name = str_trim(utf8_head(buf_str(&harmless), FILE_NAME_MAX));
    if (name.len == 0 || str_eq(name, S(".")) || str_eq(name, S(".."))) {
        name = S("file");
    }
    add_ascii(&ascii, name);
    buf_addf(out, "%s; filename=\"%.*s\"", shown_inline ? "inline" : "attachment",
             STR_ARG(buf_str(&ascii)));
    if (!str_eq(name, buf_str(&ascii))) {
        buf_add(out, S("; filename*=UTF-8''"));
        percent_add(out, name, false);
    }
}
