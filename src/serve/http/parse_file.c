/* parse_file.c - under which name and type a file of a box is sent. */
#include <string.h>

#include "base/plain.h"
#include "base/utf8.h"
#include "serve/http/parse.h"

#define FILE_NAME_MAX 200 /* bytes: file systems take 255, and browsers add " (1)" */

/* Inline: what a browser shows without running anything. HTML, SVG, XML, PDF and scripts are
 * active or have viewers that are, and are downloaded. */
static const struct {
    const char *ends; /* with spaces between them */
    struct download_type type;
} types[] = {
    {"gz tgz", {"application/gzip", false}},
    {"ipynb", {"application/json", false}},
    {"json", {"application/json", true}},
    {"pdf", {"application/pdf", false}},
    {"parquet", {"application/vnd.apache.parquet", false}},
    {"pptx", {"application/vnd.openxmlformats-officedocument.presentationml.presentation", false}},
    {"xlsx", {"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", false}},
    {"docx", {"application/vnd.openxmlformats-officedocument.wordprocessingml.document", false}},
    {"wasm", {"application/wasm", false}},
    {"7z", {"application/x-7z-compressed", false}},
    {"bz2", {"application/x-bzip2", false}},
    {"tar", {"application/x-tar", false}},
    {"xz", {"application/x-xz", false}},
    {"xhtml", {"application/xhtml+xml", false}},
    {"xml", {"application/xml", false}},
    {"zip", {"application/zip", false}},
    {"zst", {"application/zstd", false}},
    {"flac", {"audio/flac", true}},
    {"mp3", {"audio/mpeg", true}},
    {"ogg", {"audio/ogg", true}},
    {"wav", {"audio/wav", true}},
    {"avif", {"image/avif", true}},
    {"bmp", {"image/bmp", true}},
    {"gif", {"image/gif", true}},
    {"jpeg jpg", {"image/jpeg", true}},
    {"png", {"image/png", true}},
    {"svg", {"image/svg+xml", false}},
    {"tiff", {"image/tiff", true}},
    {"ico", {"image/vnd.microsoft.icon", true}},
    {"webp", {"image/webp", true}},
    {"css", {"text/css; charset=utf-8", false}},
    {"csv", {"text/csv; charset=utf-8", true}},
    {"htm html", {"text/html; charset=utf-8", false}},
    {"js mjs", {"text/javascript; charset=utf-8", false}},
    {"md", {"text/markdown; charset=utf-8", true}},
    {"c cc conf cpp go h ini jsonl log py rs sh sql toml ts txt yaml yml",
     {"text/plain; charset=utf-8", true}},
    {"tsv", {"text/tab-separated-values; charset=utf-8", true}},
    {"mp4", {"video/mp4", true}},
    {"webm", {"video/webm", true}},
};

static bool has_word(const char *words, struct str word)
{
    struct str rest = str_from(words);

    while (rest.len > 0) {
        if (str_eq_nocase(str_cut(rest, ' ', &rest), word)) {
            return true;
        }
    }
    return false;
}

struct download_type http_file_type(struct str name)
{
    size_t at = name.len;

    while (at > 0 && name.p[at - 1] != '.' && name.p[at - 1] != '/') {
        at--;
    }
    if (at > 1 && name.p[at - 1] == '.' && name.p[at - 2] != '/') {
        for (size_t i = 0; i < COUNTOF(types); i++) {
            if (has_word(types[i].ends, str_skip(name, at))) {
                return types[i].type;
            }
        }
    }
    return (struct download_type){"application/octet-stream", false};
}

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
        http_escape(out, name, false);
    }
}
