/* parse.c - media types, Accept, Authorization, Range, MCP's header values. */
#include "serve/http/parse.h"

#include <string.h>

#include "base/base64url.h"

/* ---- the grammar's small parts ------------------------------------------------------ */

/* RFC 9110 "tchar". */
static bool is_token_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static struct str skip_space(struct str s)
{
    while (s.len > 0 && (s.p[0] == ' ' || s.p[0] == '\t')) {
        s = str_skip(s, 1);
    }
    return s;
}

struct str http_trim(struct str s)
{
    s = skip_space(s);
    while (s.len > 0 && (s.p[s.len - 1] == ' ' || s.p[s.len - 1] == '\t')) {
        s.len--;
    }
    return s;
}

/* Takes a token off the front of *s; empty when there is none. */
static struct str take_token(struct str *s)
{
    size_t n = 0;

    while (n < s->len && is_token_char(s->p[n])) {
        n++;
    }
    struct str token = str_head(*s, n);
    *s = str_skip(*s, n);
    return token;
}

/* Takes a quoted string, with its quotes, off the front of *s; empty when it is none. */
static struct str take_quoted(struct str *s)
{
    struct str all = *s;

    if (all.len == 0 || all.p[0] != '"') {
        return STR_EMPTY;
    }
    for (size_t i = 1; i < all.len; i++) {
        unsigned char c = (unsigned char)all.p[i];

        if (c == '"') {
            *s = str_skip(all, i + 1);
            return str_head(all, i + 1);
        }
        if (c == '\\') {
            i++;
            c = i < all.len ? (unsigned char)all.p[i] : 0;
        }
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            break;
        }
    }
    return STR_EMPTY;
}

struct param {
    struct str name, value; /* the value with its quotes */
};

/* Takes "; name=value" off the front. 1: taken (also an empty one, whose name is empty),
 * 0: there is no ';' in front, -1: it is broken. */
static int take_param(struct str *s, struct param *out)
{
    struct str at = skip_space(*s);

    *out = (struct param){0};
    if (at.len == 0 || at.p[0] != ';') {
        return 0;
    }
    at = skip_space(str_skip(at, 1));
    out->name = take_token(&at);
    if (out->name.len > 0) {
        if (at.len == 0 || at.p[0] != '=') {
            return -1;
        }
        at = str_skip(at, 1);
        out->value = at.len > 0 && at.p[0] == '"' ? take_quoted(&at) : take_token(&at);
        if (out->value.len == 0) {
            return -1;
        }
    }
    *s = at;
    return 1;
}

static struct str unquote(struct arena *a, struct str value)
{
    char *to;
    size_t n = 0;

    if (value.len < 2 || value.p[0] != '"') {
        return arena_str(a, value);
    }
    to = arena_alloc(a, value.len, 1);
    for (size_t i = 1; i + 1 < value.len; i++) {
        if (value.p[i] == '\\') {
            i++;
        }
        to[n++] = value.p[i];
    }
    return (struct str){to, n};
}

/* ---- media types ---------------------------------------------------------------------- */

/* Takes "type/subtype" off the front. */
static bool take_essence(struct str *s, struct media_type *out)
{
    out->type = take_token(s);
    if (out->type.len == 0 || s->len == 0 || s->p[0] != '/') {
        return false;
    }
    *s = str_skip(*s, 1);
    out->subtype = take_token(s);
    return out->subtype.len > 0;
}

int http_media_type(struct str value, struct media_type *out, struct err *e)
{
    struct str rest = http_trim(value);
    struct param p;
    int got;

    *out = (struct media_type){0};
    if (!take_essence(&rest, out)) {
        return err_set(e, ERR_INVALID, "this is not a media type such as application/json");
    }
    out->params = rest;
    do {
        got = take_param(&rest, &p);
    } while (got > 0);
    if (got < 0 || skip_space(rest).len > 0) {
        return err_set(e, ERR_INVALID,
                       "the parameters of this media type are not of the form ; name=value");
    }
    return 0;
}

bool media_type_is(const struct media_type *m, struct str essence)
{
    struct str subtype;
    struct str type = str_cut(essence, '/', &subtype);

    return str_eq_nocase(m->type, type) && str_eq_nocase(m->subtype, subtype);
}

bool media_type_param(const struct media_type *m, struct str name, struct arena *a, struct str *out)
{
    struct str rest = m->params;
    struct param p;

    while (take_param(&rest, &p) > 0) {
        if (p.name.len > 0 && str_eq_nocase(p.name, name)) {
            *out = unquote(a, p.value);
            return true;
        }
    }
    return false;
}

/* ---- Accept ------------------------------------------------------------------------------ */

/* "0", "0.5", "1.000" in thousandths; -1: something else. */
static int weight_of(struct str s)
{
    static const int places[] = {100, 10, 1};
    int q;

    if (s.len == 0 || s.len > 5 || (s.p[0] != '0' && s.p[0] != '1') ||
        (s.len > 1 && s.p[1] != '.')) {
        return -1;
    }
    q = (s.p[0] - '0') * 1000;
    for (size_t i = 2; i < s.len; i++) {
        if (s.p[i] < '0' || s.p[i] > '9') {
            return -1;
        }
        q += (s.p[i] - '0') * places[i - 2];
    }
    return q <= 1000 ? q : -1;
}

/* One element of Accept up to its comma, which may be inside a quoted string. */
static struct str take_element(struct str *s)
{
    struct str all = *s;
    bool quoted = false;
    size_t i;

    for (i = 0; i < all.len && (quoted || all.p[i] != ','); i++) {
        if (quoted && all.p[i] == '\\') {
            i++;
        } else if (all.p[i] == '"') {
            quoted = !quoted;
        }
    }
    *s = str_skip(all, i + 1);
    return http_trim(str_head(all, i));
}

/* How exactly the range names the type: 3 itself, 2 "type" and any subtype, 1 any, 0 not at
 * all, -1 when this is no range. *q is its weight. */
static int match_range(struct str element, struct str type, struct str subtype, int *q)
{
    struct media_type range;
    struct param p;
    int got;

    *q = 1000;
    if (!take_essence(&element, &range)) {
        return -1;
    }
    for (got = take_param(&element, &p); got > 0; got = take_param(&element, &p)) {
        if (str_eq_nocase(p.name, S("q"))) {
            *q = weight_of(p.value);
        }
    }
    if (got < 0 || skip_space(element).len > 0 || *q < 0) {
        return -1;
    }
    if (str_eq(range.type, S("*"))) {
        return str_eq(range.subtype, S("*")) ? 1 : -1;
    }
    if (!str_eq_nocase(range.type, type)) {
        return 0;
    }
    return str_eq(range.subtype, S("*")) ? 2 : str_eq_nocase(range.subtype, subtype) ? 3 : 0;
}

int http_accept_q(struct str accept, struct str essence)
{
    struct str subtype;
    struct str type = str_cut(essence, '/', &subtype);
    struct str rest = accept;
    bool any = false;
    int best = 0, best_q = 0;

    while (rest.len > 0) {
        int q;
        int match = match_range(take_element(&rest), type, subtype, &q);

        any = any || match >= 0;
        /* Named twice with two weights: the kinder one. */
        if (match > best || (match > 0 && match == best && q > best_q)) {
            best = match;
            best_q = q;
        }
    }
    return any ? best_q : 1000;
}

/* ---- Authorization -------------------------------------------------------------------------- */

static bool is_credential_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-._~+/", c) != NULL);
}

static bool is_credential(struct str s)
{
    size_t n = 0;

    while (n < s.len && is_credential_char(s.p[n])) {
        n++;
    }
    if (n == 0) {
        return false;
    }
    while (n < s.len && s.p[n] == '=') {
        n++;
    }
    return n == s.len;
}

int http_authorization(struct str value, struct str scheme, struct str *token, struct err *e)
{
    struct str rest = http_trim(value);
    struct str given = take_token(&rest);
    struct str credential = skip_space(rest);

    if (!str_eq_nocase(given, scheme)) {
        return err_set(e, ERR_INVALID, "Authorization must be \"%.*s <key>\"", STR_ARG(scheme));
    }
    if (credential.len == rest.len || !is_credential(credential)) {
        return err_set(
            e, ERR_INVALID,
            "Authorization: behind %.*s there must be one space and one key, of letters, "
            "digits and -._~+/",
            STR_ARG(scheme));
    }
    *token = credential;
    return 0;
}

/* ---- Range --------------------------------------------------------------------------------------- */

/* Takes digits off the front; false when there are none. Too many give the largest number. */
static bool take_number(struct str *s, uint64_t *out)
{
    size_t n = 0;
    uint64_t v = 0;

    for (; n < s->len && s->p[n] >= '0' && s->p[n] <= '9'; n++) {
        uint64_t digit = (uint64_t)(s->p[n] - '0');

        v = v > (UINT64_MAX - digit) / 10 ? UINT64_MAX : v * 10 + digit;
    }
    *s = str_skip(*s, n);
    *out = v;
    return n > 0;
}

/* "-500": the last so many bytes. */
static enum range_kind suffix(struct str digits, uint64_t size, struct http_range *out)
{
    uint64_t n;

    if (!take_number(&digits, &n) || digits.len > 0) {
        return RANGE_WHOLE;
    }
    if (n == 0 || size == 0) {
        return RANGE_NONE;
    }
    *out = (struct http_range){n < size ? size - n : 0, size - 1};
    return RANGE_PART;
}

enum range_kind http_range(struct str value, uint64_t size, struct http_range *out)
{
    struct str rest;
    struct str unit = http_trim(str_cut(http_trim(value), '=', &rest));
    uint64_t first, last = UINT64_MAX;

    *out = (struct http_range){0};
    rest = http_trim(rest);
    if (!str_eq_nocase(unit, S("bytes"))) {
        return RANGE_WHOLE;
    }
    if (rest.len > 0 && rest.p[0] == '-') {
        return suffix(str_skip(rest, 1), size, out);
    }
    if (!take_number(&rest, &first) || rest.len == 0 || rest.p[0] != '-') {
        return RANGE_WHOLE;
    }
    rest = str_skip(rest, 1);
    if (rest.len > 0 && (!take_number(&rest, &last) || rest.len > 0 || last < first)) {
        return RANGE_WHOLE;
    }
    if (first >= size) {
        return RANGE_NONE;
    }
    *out = (struct http_range){first, last < size ? last : size - 1};
    return RANGE_PART;
}

/* ---- MCP ---------------------------------------------------------------------------------------------- */

int http_mcp_value(struct arena *a, struct str value, struct str *out, struct err *e)
{
    const struct str before = S("=?base64?"), after = S("?=");
    struct str s = http_trim(value);
    struct buf bytes own_buf = {0};

    if (s.len < before.len + after.len || !str_starts(s, before) || !str_ends(s, after)) {
        *out = s;
        return 0;
    }
    s = str_head(str_skip(s, before.len), s.len - before.len - after.len);
    buf_init(&bytes, s.len + 1);
    if (base64_read_strict(s, &bytes, e) < 0) {
        return err_wrap(e, "a header value in =?base64?...?=");
    }
    *out = arena_str(a, buf_str(&bytes));
    return 0;
}

static bool take_digits(struct str *s, size_t n, int32_t *out)
{
    *out = 0;
    if (s->len < n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (s->p[i] < '0' || s->p[i] > '9') {
            return false;
        }
        *out = *out * 10 + (s->p[i] - '0');
    }
    *s = str_skip(*s, n);
    return true;
}

static bool take_dash(struct str *s)
{
    bool there = s->len > 0 && s->p[0] == '-';

    *s = str_skip(*s, there ? 1 : 0);
    return there;
}

int32_t http_revision_date(struct str value)
{
    static const int32_t days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    struct str s = http_trim(value);
    int32_t year, month, day;

    if (!take_digits(&s, 4, &year) || !take_dash(&s) || !take_digits(&s, 2, &month) ||
        !take_dash(&s) || !take_digits(&s, 2, &day) || s.len > 0) {
        return 0;
    }
    if (year < 1 || month < 1 || month > 12 || day < 1 || day > days[month - 1]) {
        return 0;
    }
    return year * 10000 + month * 100 + day;
}
