#include "core/package.h"

#include <string.h>

#include "base/buf.h"

/* A letter or a digit of ASCII. */
static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static char lower(char c)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";

    if (c >= 'A' && c <= 'Z') {
        return letters[c - 'A'];
    }
    return c;
}

static bool is_name_char(char c)
{
    return is_word(c) || c == '.' || c == '_' || c == '-';
}

static bool is_name(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (!is_name_char(s.p[i])) {
            return false;
        }
    }
    return s.len > 0 && is_word(s.p[0]) && is_word(s.p[s.len - 1]);
}

struct str package_name(struct arena *a, struct str given)
{
    struct buf out own_buf = {0};
    bool after_dash = false;

    if (!is_name(given)) {
        return STR_EMPTY;
    }
    buf_init(&out, given.len + 1);
    for (size_t i = 0; i < given.len; i++) {
        bool is_dash = !is_word(given.p[i]);

        if (!is_dash) {
            buf_addc(&out, lower(given.p[i]));
        } else if (!after_dash) {
            buf_addc(&out, '-');
        }
        after_dash = is_dash;
    }
    return arena_str(a, buf_str(&out));
}

static int refuse(struct str given, const char *why, struct err *e)
{
    char shown[81];
    struct str head = str_head(given, sizeof(shown) - 1);

    for (size_t i = 0; i < head.len; i++) {
        bool is_plain = head.p[i] >= ' ' && head.p[i] < 127;

        shown[i] = '?';
        if (is_plain) {
            shown[i] = head.p[i];
        }
    }
    return err_set(e, ERR_INVALID,
                   "\"%.*s%s\" %s. A package is given by its name in the index, with extras and "
                   "versions if need be: requests, requests[socks], numpy==1.26.4, "
                   "\"pandas>=2,<3\"",
                   (int)head.len, shown, given.len > head.len ? "..." : "", why);
}

/* What people give instead of a name, each with its own word; NULL: none of these. */
static const char *mistaken(struct str s)
{
    if (s.len == 0) {
        return "is empty";
    }
    if (s.len > PACKAGE_MAX) {
        return "is too long for a package's name";
    }
    if (s.p[0] == '-') {
        return "is an option, and options are not accepted";
    }
    if (memmem(s.p, s.len, "://", 3) != NULL || str_has(s, '@')) {
        return "is an address, and packages come from the configured index only";
    }
    if (str_has(s, '/') || str_has(s, '\\') || s.p[0] == '.' || s.p[0] == '~' ||
        str_ends(s, S(".whl")) || str_ends(s, S(".tar.gz")) || str_ends(s, S(".zip"))) {
        return "is a path; to install a file of the sandbox run pip with exec_bash";
    }
    if (str_has(s, ';')) {
        return "has a marker (the part behind ';'), which is not accepted";
    }
    return NULL;
}

/* The operator at the beginning; empty: there is none. */
static struct str take_operator(struct str s)
{
    static const char *const all[] = {"===", "==", "~=", "!=", "<=", ">=", "<", ">"};

    for (size_t i = 0; i < COUNTOF(all); i++) {
        if (str_starts(s, str_from(all[i]))) {
            return str_from(all[i]);
        }
    }
    return STR_EMPTY;
}

static bool is_version(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (!is_word(s.p[i]) && (s.p[i] == '\0' || strchr(".*+!_-", s.p[i]) == NULL)) {
            return false;
        }
    }
    return s.len > 0 && is_word(s.p[0]);
}

static bool add_versions(struct buf *out, struct str rest)
{
    bool first = true;

    while (rest.p != NULL) {
        struct str one = str_trim(str_cut(rest, ',', &rest));
        struct str op = take_operator(one);
        struct str version = str_trim(str_skip(one, op.len));

        if (op.len == 0 || !is_version(version)) {
            return false;
        }
        buf_addf(out, "%s%.*s%.*s", first ? "" : ",", STR_ARG(op), STR_ARG(version));
        first = false;
    }
    return true;
}

static bool add_extras(struct buf *out, struct str inside)
{
    bool first = true;

    buf_addc(out, '[');
    while (inside.p != NULL) {
        struct str one = str_trim(str_cut(inside, ',', &inside));

        if (!is_name(one)) {
            return false;
        }
        buf_addf(out, "%s%.*s", first ? "" : ",", STR_ARG(one));
        first = false;
    }
    buf_addc(out, ']');
    return true;
}

int package_check(struct arena *a, struct str given, struct str *out, struct err *e)
{
    struct str s = str_trim(given);
    const char *mistake = mistaken(s);
    struct buf text own_buf = {0};
    size_t n = 0;

    if (mistake != NULL) {
        return refuse(s, mistake, e);
    }
    while (n < s.len && is_name_char(s.p[n])) {
        n++;
    }
    if (!is_name(str_head(s, n))) {
        return refuse(s, "does not begin with a package's name (letters, digits, '.', '_', '-')",
                      e);
    }
    buf_init(&text, 2 * (size_t)PACKAGE_MAX);
    buf_add(&text, str_head(s, n));
    s = str_trim(str_skip(s, n));
    if (s.len > 0 && s.p[0] == '[') {
        struct str rest;
        struct str inside = str_cut(str_skip(s, 1), ']', &rest);

        if (rest.p == NULL || !add_extras(&text, inside)) {
            return refuse(str_trim(given), "has extras that cannot be read", e);
        }
        s = str_trim(rest);
    }
    if (s.len > 0 && !add_versions(&text, s)) {
        return refuse(str_trim(given), "has something behind the name that is no version", e);
    }
    *out = arena_str(a, buf_str(&text));
    return 0;
}
