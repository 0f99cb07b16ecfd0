#include "tree/exclude.h"

#include <string.h>

#include "base/path.h"
#include "tree/glob.h"

struct rule {
    struct str base; /* folder it is bound to */
    struct glob *glob;
    bool keeps;     /* '!' */
    bool dirs_only; /* git: a '/' at the end */
    bool any_depth; /* no '/' in it: for the last component; legacy: for any */
};

struct exclude {
    struct arena *arena;
    enum exclude_style style;
    struct rule *rules;
    size_t n, cap;
};

struct exclude *exclude_new(struct arena *a, enum exclude_style style)
{
    struct exclude *x = arena_new(a, struct exclude);
    x->arena = a;
    x->style = style;
    return x;
}

/* ---- reading patterns --------------------------------------------------------- */

/* Without spaces at the end, but for one behind a backslash. */
static struct str trim_end(struct str s)
{
    size_t keep = 0;
    for (size_t i = 0; i < s.len; i++) {
        if (s.p[i] == '\\') {
            i++;
            keep = i + 1;
        } else if (s.p[i] != ' ') {
            keep = i + 1;
        }
    }
    return str_head(s, keep);
}

static bool take_bang(struct str *s)
{
    if (!str_starts(*s, S("!"))) {
        return false;
    }
    *s = str_skip(*s, 1);
    return true;
}

/* False: it is no pattern. */
static bool read_git(struct arena *a, struct str line, struct rule *out)
{
    struct str s = trim_end(line);
    if (s.len == 0 || s.p[0] == '#') {
        return false;
    }
    out->keeps = take_bang(&s);
    if (str_ends(s, S("/"))) {
        out->dirs_only = true;
        s = str_head(s, s.len - 1);
    }
    if (s.len == 0) {
        return false; /* "/" matches nothing */
    }
    out->any_depth = !str_has(s, '/');
    if (s.p[0] == '/') {
        s = str_skip(s, 1);
    }
    out->glob = glob_new(a, GLOB_GIT, s);
    return true;
}

static bool read_legacy(struct arena *a, struct str line, struct rule *out)
{
    struct str s = str_trim(line);
    if (s.len == 0 || s.p[0] == '#') {
        return false;
    }
    out->keeps = take_bang(&s);
    char *text = arena_alloc(a, s.len + 2, 1);
    for (size_t i = 0; i < s.len; i++) {
        text[i] = s.p[i];
        if (text[i] == '\\') {
            text[i] = '/';
        }
    }
    s.p = text;
    while (str_starts(s, S("./"))) {
        s = str_skip(s, 2);
    }
    while (str_starts(s, S("/"))) {
        s = str_skip(s, 1);
    }
    if (s.len == 0) {
        return false;
    }
    if (str_ends(s, S("/"))) {
        text[s.p - text + (ptrdiff_t)s.len] = '*';
        s.len++;
    }
    out->any_depth = !str_has(s, '/');
    out->glob = glob_new(a, GLOB_FNMATCH, s);
    return true;
}

static void add_rule(struct exclude *x, const struct rule *r)
{
    if (x->n == x->cap) {
        size_t cap = x->cap > 0 ? x->cap * 2 : 16;
        struct rule *more = arena_alloc(x->arena, cap, sizeof *more);
        if (x->n > 0) {
            memcpy(more, x->rules, x->n * sizeof *more);
        }
        x->rules = more;
        x->cap = cap;
    }
    x->rules[x->n++] = *r;
}

int exclude_add(struct exclude *x, struct str base, struct str line, struct err *e)
{
    struct rule r = {0};
    if (line.len >= GLOB_MAX) {
        return err_set(e, ERR_INVALID,
                       "the exclude pattern \"%.*s...\" has %zu bytes; at most %d are accepted",
                       STR_ARG(str_head(line, 60)), line.len, GLOB_MAX - 1);
    }
    if (x->n == EXCLUDES_MAX) {
        return err_set(e, ERR_LIMIT,
                       "there are more than %d exclude patterns; name folders instead of single "
                       "files",
                       EXCLUDES_MAX);
    }
    bool is_rule =
        x->style == EXCLUDE_GIT ? read_git(x->arena, line, &r) : read_legacy(x->arena, line, &r);
    if (is_rule) {
        r.base = arena_str(x->arena, base);
        add_rule(x, &r);
    }
    return 0;
}

void exclude_add_defaults(struct exclude *x)
{
    static const char *const git[] = {".git/",        ".idea/", ".vscode/",
                                      "__pycache__/", "*.pyc",  "node_modules/"};
    static const char *const legacy[] = {".git/*",        ".idea/*", ".vscode/*",
                                         "__pycache__/*", "*.pyc",   "node_modules/*"};
    const char *const *lines = x->style == EXCLUDE_GIT ? git : legacy;
    for (size_t i = 0; i < COUNTOF(git); i++) {
        struct err never;
        (void)!exclude_add(x, STR_EMPTY, str_from(lines[i]),
                           &never); /* a list that is full stays so */
    }
}

int exclude_add_text(struct exclude *x, struct str base, struct str text, struct err *e)
{
    if (str_starts(text, S("\xef\xbb\xbf"))) {
        text = str_skip(text, 3);
    }
    while (text.len > 0) {
        struct str line = str_cut(text, '\n', &text);
        if (str_ends(line, S("\r"))) {
            line = str_head(line, line.len - 1);
        }
        if (exclude_add(x, base, line, e) < 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- matching ------------------------------------------------------------------ */

static bool match_git(const struct rule *r, struct str below, struct str last, bool is_dir)
{
    if (r->dirs_only && !is_dir) {
        return false;
    }
    return glob_match(r->glob, r->any_depth ? last : below);
}

static bool match_parts(const struct rule *r, struct str path)
{
    while (path.len > 0) {
        if (glob_match(r->glob, str_cut(path, '/', &path))) {
            return true;
        }
    }
    return false;
}

/* `slashed` is the path with a '/' at its end. */
static bool match_legacy(const struct rule *r, struct str slashed, bool is_dir)
{
    struct str path = str_head(slashed, slashed.len - 1);
    return glob_match(r->glob, path) || (is_dir && glob_match(r->glob, slashed)) ||
           (r->any_depth && match_parts(r, path));
}

/* The path as the rule's folder sees it; empty: not below that folder. */
static struct str below_base(struct str path, struct str base)
{
    if (base.len == 0) {
        return path;
    }
    if (path.len <= base.len || !str_starts(path, base) || path.p[base.len] != '/') {
        return STR_EMPTY;
    }
    return str_skip(path, base.len + 1);
}

enum exclude_answer exclude_ask(const struct exclude *x, struct str path, bool is_dir)
{
    char slashed[GLOB_MAX + 1];
    if (path.len == 0 || path.len > GLOB_MAX) {
        return EXCLUDE_UNSAID; /* the root itself, or no path of ours */
    }
    if (x->style == EXCLUDE_LEGACY) {
        memcpy(slashed, path.p, path.len);
        slashed[path.len] = '/';
    }
    struct str last = path_base(path);
    for (size_t i = x->n; i-- > 0;) {
        const struct rule *r = &x->rules[i];
        struct str below = below_base(path, r->base);
        if (below.len == 0) {
            continue;
        }
        struct str tail = {slashed + (path.len - below.len), below.len + 1};
        if (x->style == EXCLUDE_GIT ? match_git(r, below, last, is_dir)
                                    : match_legacy(r, tail, is_dir)) {
            return r->keeps ? EXCLUDE_KEPT : EXCLUDE_OUT;
        }
    }
    return EXCLUDE_UNSAID;
}

bool exclude_match(const struct exclude *x, struct str path, bool is_dir)
{
    return exclude_ask(x, path, is_dir) == EXCLUDE_OUT;
}
