#include "tree/glob.h"

#include <string.h>

#include "base/attr.h"

enum kind {
    LITERAL, /* this byte */
    SET,     /* one byte out of a set */
    STAR,    /* any bytes but '/' */
    ALL,     /* any bytes */
    FOLDERS, /* nothing, or ALL and '/': the two tokens that follow */
};

struct token {
    enum kind kind;
    unsigned char byte;
    const struct set *set;
};

struct set {
    uint8_t bits[32];
};

struct glob {
    struct token *tokens;
    size_t n;
    size_t plain; /* so many literals come first */
    bool is_tail; /* then comes one star, and the rest are literals: "*.pyc" */
    bool never;   /* malformed */
};

static void set_add(struct set *s, unsigned char c)
{
    s->bits[c >> 3] |= (uint8_t)(1u << (c & 7));
}

static bool set_has(const struct set *s, unsigned char c)
{
    return (s->bits[c >> 3] >> (c & 7)) & 1;
}

static void set_add_range(struct set *s, unsigned char from, unsigned char to)
{
    for (unsigned c = from; c <= to; c++) {
        set_add(s, (unsigned char)c);
    }
}

static void set_invert(struct set *s)
{
    for (size_t i = 0; i < sizeof s->bits; i++) {
        s->bits[i] = (uint8_t)~s->bits[i];
    }
}

static void set_remove(struct set *s, unsigned char c)
{
    s->bits[c >> 3] &= (uint8_t) ~(1u << (c & 7));
}

/* ---- reading a pattern ------------------------------------------------------ */

struct reader {
    struct arena *arena;
    struct str text;
    size_t at;
    struct glob *out;
};

/* The byte that many places on; 0 beyond the end. */
static unsigned char peek(const struct reader *r, size_t ahead)
{
    return r->at + ahead < r->text.len ? (unsigned char)r->text.p[r->at + ahead] : 0;
}

static void put(struct reader *r, enum kind kind, unsigned char byte, const struct set *set)
{
    r->out->tokens[r->out->n++] = (struct token){.kind = kind, .byte = byte, .set = set};
}

/* Adds what "[:name:]" means, in ASCII. False: there is no such class. */
static bool add_class(struct set *s, struct str name)
{
    static const struct {
        const char *name;
        const char *ranges; /* pairs */
    } classes[] = {
        {"alnum", "09AZaz"},   {"alpha", "AZaz"},
        {"blank", "  \t\t"},   {"cntrl", "\x01\x1f\x7f\x7f"},
        {"digit", "09"},       {"graph", "!~"},
        {"lower", "az"},       {"print", " ~"},
        {"punct", "!/:@[`{~"}, {"space", "  \t\r"},
        {"upper", "AZ"},       {"xdigit", "09AFaf"},
    };
    for (size_t i = 0; i < COUNTOF(classes); i++) {
        if (str_eq(name, str_from(classes[i].name))) {
            for (const char *p = classes[i].ranges; *p != '\0'; p += 2) {
                set_add_range(s, (unsigned char)p[0], (unsigned char)p[1]);
            }
            return true;
        }
    }
    return false;
}

/* At "[:": takes the class. 1: done; 0: it is none, but a '[' like any other; -1: malformed. */
static int take_class(struct reader *r, struct set *s)
{
    size_t from = r->at + 2;
    const char *p = r->text.p + from;
    const char *close = from < r->text.len ? memchr(p, ']', r->text.len - from) : NULL;
    if (close == NULL) {
        return -1;
    }
    if (close == p || close[-1] != ':') {
        return 0;
    }
    r->at = (size_t)(close - r->text.p) + 1;
    return add_class(s, (struct str){p, (size_t)(close - p) - 1}) ? 1 : -1;
}

/* One byte of a set, perhaps behind a backslash. False: the pattern ends. */
static bool take_byte(struct reader *r, unsigned char *out)
{
    if (peek(r, 0) == '\\') {
        r->at++;
    }
    *out = peek(r, 0);
    r->at++;
    return *out != 0;
}

/* One member of a git set. `last` is the byte that a range may start with, 0: none. */
static bool take_member(struct reader *r, struct set *s, unsigned char *last)
{
    unsigned char c = peek(r, 0);
    if (c == '-' && *last != 0 && peek(r, 1) != 0 && peek(r, 1) != ']') {
        unsigned char to;
        r->at++;
        if (!take_byte(r, &to)) {
            return false;
        }
        set_add_range(s, *last, to);
        *last = 0;
        return true;
    }
    if (c == '[' && peek(r, 1) == ':') {
        int class = take_class(r, s);
        if (class != 0) {
            *last = 0;
            return class > 0;
        }
    }
    if (!take_byte(r, last)) {
        return false;
    }
    set_add(s, *last);
    return true;
}

/* Behind '['. False: malformed. */
static bool take_git_set(struct reader *r)
{
    struct set *s = arena_new(r->arena, struct set);
    bool negated = peek(r, 0) == '!' || peek(r, 0) == '^';
    unsigned char last = 0;
    if (negated) {
        r->at++;
    }
    do {
        if (peek(r, 0) == 0 || !take_member(r, s, &last)) {
            return false;
        }
    } while (peek(r, 0) != ']');
    r->at++;
    if (negated) {
        set_invert(s);
    }
    set_remove(s, '/');
    put(r, SET, 0, s);
    return true;
}

static void put_any(struct reader *r, bool slash)
{
    struct set *s = arena_new(r->arena, struct set);
    set_invert(s);
    if (!slash) {
        set_remove(s, '/');
    }
    put(r, SET, 0, s);
}

/* At '*'. `start`: where git begins to look for wildcards; "**" there counts as behind a '/',
 * even when it is not (so does git: "a**" + "/b" matches "ab"). */
static void take_stars(struct reader *r, size_t start)
{
    size_t n = 1;
    bool front = r->at == start || r->text.p[r->at - 1] == '/';
    while (peek(r, n) == '*') {
        n++;
    }
    r->at += n;
    unsigned char next = peek(r, 0);
    bool end = next == 0 || next == '/' || (next == '\\' && peek(r, 1) == '/');
    if (n == 1 || !front || !end) {
        put(r, STAR, 0, NULL);
        return;
    }
    if (next == '/') {
        put(r, FOLDERS, 0, NULL);
    }
    put(r, ALL, 0, NULL);
}

/* False: malformed. */
static bool take_git(struct reader *r, size_t start)
{
    unsigned char c = peek(r, 0);
    switch (c) {
    case '*': take_stars(r, start); return true;
    case '?':
        r->at++;
        put_any(r, false);
        return true;
    case '[': r->at++; return take_git_set(r);
    default: {
        bool whole = take_byte(r, &c);
        put(r, LITERAL, c, NULL);
        return whole;
    }
    }
}

/* Where the ']' of a Python set is, from behind its '['; 0: there is none. */
static size_t fnmatch_close(const struct reader *r)
{
    size_t at = r->at + (peek(r, 0) == '!' ? 1 : 0);
    at += at < r->text.len && r->text.p[at] == ']' ? 1 : 0;
    while (at < r->text.len && r->text.p[at] != ']') {
        at++;
    }
    return at < r->text.len ? at : 0;
}

static void take_fnmatch_set(struct reader *r, size_t close)
{
    struct set *s = arena_new(r->arena, struct set);
    bool negated = peek(r, 0) == '!';
    r->at += negated ? 1 : 0;
    while (r->at < close) {
        unsigned char c = (unsigned char)r->text.p[r->at];
        if (r->at + 2 < close && r->text.p[r->at + 1] == '-') {
            set_add_range(s, c, (unsigned char)r->text.p[r->at + 2]);
            r->at += 3;
            continue;
        }
        set_add(s, c);
        r->at++;
    }
    r->at = close + 1;
    if (negated) {
        set_invert(s);
    }
    put(r, SET, 0, s);
}

static void take_fnmatch(struct reader *r)
{
    unsigned char c = (unsigned char)r->text.p[r->at++];
    size_t close = c == '[' ? fnmatch_close(r) : 0;
    if (c == '*') {
        put(r, ALL, 0, NULL);
        return;
    }
    if (c == '?') {
        put_any(r, true);
        return;
    }
    if (close > 0) {
        take_fnmatch_set(r, close);
        return;
    }
    put(r, LITERAL, c, NULL);
}

/* How much of a git pattern is plain text. */
static size_t plain_len(struct str s)
{
    size_t n = 0;
    while (n < s.len && strchr("*?[\\", s.p[n]) == NULL) {
        n++;
    }
    return n;
}

static bool is_tail(const struct glob *g)
{
    if (g->plain == g->n || (g->tokens[g->plain].kind != STAR && g->tokens[g->plain].kind != ALL)) {
        return false;
    }
    for (size_t i = g->plain + 1; i < g->n; i++) {
        if (g->tokens[i].kind != LITERAL) {
            return false;
        }
    }
    return true;
}

struct glob *glob_new(struct arena *a, enum glob_dialect dialect, struct str pattern)
{
    struct glob *g = arena_new(a, struct glob);
    struct reader r = {.arena = a, .text = str_head(pattern, GLOB_MAX), .out = g};
    size_t start = plain_len(r.text);
    if (r.text.len == 0) {
        return g;
    }
    /* A '*' may become two tokens, but only where "**" stood. */
    g->tokens = arena_alloc(a, r.text.len, sizeof *g->tokens);
    g->never = memchr(r.text.p, '\0', r.text.len) != NULL;
    while (r.at < r.text.len && !g->never) {
        if (dialect == GLOB_FNMATCH) {
            take_fnmatch(&r);
        } else {
            g->never = !take_git(&r, start);
        }
    }
    while (g->plain < g->n && g->tokens[g->plain].kind == LITERAL) {
        g->plain++;
    }
    g->is_tail = is_tail(g);
    return g;
}

/* ---- matching ---------------------------------------------------------------- */

#define WORDS (GLOB_MAX / 64 + 1)

/* Which tokens could come next. */
struct front {
    uint64_t bits[WORDS];
    size_t low, high; /* words in use */
};

static void mark(struct front *f, size_t at)
{
    f->bits[at >> 6] |= UINT64_C(1) << (at & 63);
    f->low = at >> 6 < f->low ? at >> 6 : f->low;
    f->high = at >> 6 > f->high ? at >> 6 : f->high;
}

/* Adds a place, and those that are reached from it without a byte. */
static void reach(const struct glob *g, struct front *f, size_t at)
{
    for (;;) {
        if ((f->bits[at >> 6] >> (at & 63)) & 1) {
            return; /* with all that follows from it: this keeps hostile patterns cheap */
        }
        mark(f, at);
        if (at == g->n) {
            return;
        }
        enum kind kind = g->tokens[at].kind;
        if (kind == FOLDERS) {
            mark(f, at + 1); /* something, or nothing, before the '/'... */
            mark(f, at + 2);
            at += 3; /* ...or not even that */
        } else if (kind == STAR || kind == ALL) {
            at++;
        } else {
            return;
        }
    }
}

static void step(const struct glob *g, struct front *to, size_t at, unsigned char c)
{
    const struct token *t = &g->tokens[at];
    switch (t->kind) {
    case LITERAL:
        if (t->byte == c) {
            reach(g, to, at + 1);
        }
        return;
    case SET:
        if (set_has(t->set, c)) {
            reach(g, to, at + 1);
        }
        return;
    case STAR:
        if (c != '/') {
            reach(g, to, at);
        }
        return;
    case ALL: reach(g, to, at); return;
    case FOLDERS: return;
    }
}

static void front_init(struct front *f, size_t words)
{
    memset(f->bits, 0, words * sizeof *f->bits);
    f->low = WORDS;
    f->high = 0;
}

/* All that one more byte leads to. */
static void advance(const struct glob *g, const struct front *from, struct front *to,
                    unsigned char c)
{
    size_t words = g->n / 64 + 1;
    front_init(to, words);
    for (size_t w = from->low; w <= from->high && w < words; w++) {
        for (uint64_t bits = from->bits[w]; bits != 0; bits &= bits - 1) {
            size_t at = w * 64 + (size_t)__builtin_ctzll(bits);
            if (at < g->n) {
                step(g, to, at, c);
            }
        }
    }
}

static bool match_rest(const struct glob *g, struct str text)
{
    struct front fronts[2];
    struct front *now = &fronts[0];
    struct front *next = &fronts[1];
    front_init(now, g->n / 64 + 1);
    reach(g, now, g->plain);
    for (size_t i = 0; i < text.len; i++) {
        advance(g, now, next, (unsigned char)text.p[i]);
        struct front *used = now;
        now = next;
        next = used;
        if (now->low == WORDS) {
            return false;
        }
    }
    return (now->bits[g->n >> 6] >> (g->n & 63)) & 1;
}

/* The most frequent form of a pattern, in the time that its end takes. */
static bool match_tail(const struct glob *g, struct str text)
{
    size_t n = g->n - g->plain - 1;
    if (text.len < n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (g->tokens[g->plain + 1 + i].byte != (unsigned char)text.p[text.len - n + i]) {
            return false;
        }
    }
    return g->tokens[g->plain].kind == ALL || !str_has(str_head(text, text.len - n), '/');
}

bool glob_match(const struct glob *g, struct str text)
{
    if (g->never || text.len < g->plain) {
        return false;
    }
    for (size_t i = 0; i < g->plain; i++) {
        if (g->tokens[i].byte != (unsigned char)text.p[i]) {
            return false;
        }
    }
    if (g->plain == g->n) {
        return text.len == g->n;
    }
    text = str_skip(text, g->plain);
    return g->is_tail ? match_tail(g, text) : match_rest(g, text);
}
