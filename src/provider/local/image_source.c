/* What this machine is (os-release), and where its packages come from (apt's sources). */
#include <dirent.h>
#include <fcntl.h>

#include "base/fd.h"
#include "base/path.h"
#include "provider/local/image.h"

#define TEXT_MAX (1u << 20)

/* ---- os-release -------------------------------------------------------------------- */

struct str image_os_value(struct str os_release, struct str key)
{
    while (os_release.len > 0) {
        struct str value = STR_EMPTY;
        struct str line = str_cut(os_release, '\n', &os_release);
        if (!str_eq(str_trim(str_cut(line, '=', &value)), key)) {
            continue;
        }
        value = str_trim(value);
        if (value.len >= 2 && (value.p[0] == '"' || value.p[0] == '\'') &&
            value.p[value.len - 1] == value.p[0]) {
            value = (struct str){value.p + 1, value.len - 2};
        }
        return value;
    }
    return STR_EMPTY;
}

/* ---- apt ---------------------------------------------------------------------------- */

static struct str next_word(struct str *text)
{
    *text = str_trim(*text);
    size_t n = 0;
    while (n < text->len && text->p[n] != ' ' && text->p[n] != '\t') {
        n++;
    }
    struct str word = str_head(*text, n);
    *text = str_skip(*text, n);
    return word;
}

static bool has_word(struct str words, struct str wanted)
{
    while (words.len > 0) {
        if (str_eq(next_word(&words), wanted)) {
            return true;
        }
    }
    return false;
}

static bool can_use(struct str uri)
{
    return str_starts(uri, S("http://")) || str_starts(uri, S("https://")) ||
           str_starts(uri, S("file:///"));
}

/* "deb [options] URI suite component..." */
static bool parse_line(struct str line, struct str suite, struct str *uri)
{
    if (!str_eq(next_word(&line), S("deb"))) {
        return false;
    }
    line = str_trim(line);
    if (str_starts(line, S("["))) {
        (void)str_cut(line, ']', &line);
    }
    *uri = next_word(&line);
    return can_use(*uri) && str_eq(next_word(&line), suite);
}

static bool parse_lines(struct str text, struct str suite, struct str *uri)
{
    while (text.len > 0) {
        struct str line = str_cut(text, '\n', &text);
        if (parse_line(str_cut(line, '#', &(struct str){0}), suite, uri)) {
            return true;
        }
    }
    return false;
}

struct stanza {
    struct str uri;
    bool deb, suite, off;
};

static void take_field(struct stanza *s, struct str key, struct str value, struct str suite)
{
    if (str_eq_nocase(key, S("types"))) {
        s->deb = s->deb || has_word(value, S("deb"));
    } else if (str_eq_nocase(key, S("suites"))) {
        s->suite = s->suite || has_word(value, suite);
    } else if (str_eq_nocase(key, S("enabled"))) {
        s->off = str_eq_nocase(str_trim(value), S("no"));
    } else if (str_eq_nocase(key, S("uris"))) {
        while (value.len > 0 && s->uri.len == 0) {
            struct str word = next_word(&value);
            s->uri = can_use(word) ? word : STR_EMPTY;
        }
    }
}

static bool is_wanted(const struct stanza *s)
{
    return s->deb && s->suite && !s->off && s->uri.len > 0;
}

/* Fields of a stanza; a line that begins with a space goes on with the field before it. */
static bool parse_stanzas(struct str text, struct str suite, struct str *uri)
{
    struct stanza s = {0};
    struct str key = STR_EMPTY;
    while (text.len > 0) {
        struct str line = str_cut(text, '\n', &text);
        struct str value = line;
        if (str_trim(line).len == 0) {
            if (is_wanted(&s)) {
                break;
            }
            s = (struct stanza){0};
            continue;
        }
        if (line.p[0] == '#') {
            continue;
        }
        if (line.p[0] != ' ' && line.p[0] != '\t') {
            key = str_trim(str_cut(line, ':', &value));
        }
        take_field(&s, key, value, suite);
    }
    *uri = s.uri;
    return is_wanted(&s);
}

bool image_parse_sources(struct str text, bool deb822, struct str suite, struct str *uri)
{
    struct str found = STR_EMPTY;
    bool known = deb822 ? parse_stanzas(text, suite, &found) : parse_lines(text, suite, &found);
    *uri = known ? found : STR_EMPTY;
    return known;
}

/* ---- this machine --------------------------------------------------------------------- */

static bool look_into(struct arena *a, const char *path, struct str suite, struct str *mirror)
{
    struct str text;
    struct err ignored;
    bool deb822 = str_ends(str_from(path), S(".sources"));
    if (!deb822 && !str_ends(str_from(path), S(".list"))) {
        return false;
    }
    return fd_read_file(AT_FDCWD, path, TEXT_MAX, a, &text, &ignored) == 0 &&
           image_parse_sources(text, deb822, suite, mirror);
}

static struct str find_mirror(struct arena *a, struct str suite)
{
    static const char folder[] = "/etc/apt/sources.list.d";
    struct str mirror = STR_EMPTY;
    if (look_into(a, "/etc/apt/sources.list", suite, &mirror)) {
        return mirror;
    }
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        return STR_EMPTY;
    }
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (look_into(a, arena_printf(a, "%s/%s", folder, entry->d_name).p, suite, &mirror)) {
            break;
        }
    }
    (void)closedir(dir);
    return mirror;
}

void image_own_source(struct arena *a, struct str *suite, struct str *mirror)
{
    struct str text;
    struct err ignored;
    *suite = *mirror = STR_EMPTY;
    if (fd_read_file(AT_FDCWD, "/etc/os-release", TEXT_MAX, a, &text, &ignored) < 0 ||
        !str_eq(image_os_value(text, S("ID")), S("debian"))) {
        return;
    }
    *suite = image_os_value(text, S("VERSION_CODENAME"));
    if (suite->len > 0) {
        *mirror = find_mirror(a, *suite);
    }
}
