#include "base/mime.h"

#include "base/attr.h"

/* Passive: what a browser shows without running anything. HTML, SVG, XML, PDF and scripts are
 * active or have viewers that are. */
static const struct {
    const char *ends; /* with spaces between them */
    struct mime type;
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

struct mime mime_of(struct str name)
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
    return (struct mime){"application/octet-stream", false};
}
