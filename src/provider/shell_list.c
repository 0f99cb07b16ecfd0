/*
 * A tree of a host as its find tells it: one command, and a second one for sums. What is to be
 * left out is left out here, where the rules are; the host's names are checked like any box's.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/own.h"
#include "base/path.h"
#include "provider/shell.h"
#include "tree/apply.h"
#include "tree/exclude.h"

#define ENTRIES_MAX 10000000 /* of a tree */
#define RECORD_MAX  ((size_t)3 * TREE_PATH_MAX)
#define SUM_TEXT    ((size_t)2 * TREE_SUM)
#define IGNORE_MAX  (1u << 20)
#define ARENA_MAX   ((size_t)4 << 30)

struct listing {
    const struct tree_req *req;
    struct shell shell;
    struct arena arena; /* of names */
    struct tree_entry *all;
    size_t n, cap;
    struct buf rest;  /* the beginning of a record */
    unsigned n_facts; /* of the two that come first */
    char type;        /* of the root: find's letter, '-' nothing */
    struct str real;
    struct str head; /* of the record whose link's target is awaited */
    bool has_head;
};

/* ---- what find prints -------------------------------------------------------------------- */

static bool get_field(struct str *s, int64_t max, int base, int64_t *out)
{
    struct str field = str_cut(*s, ' ', s);
    int64_t v = 0;
    size_t i = 0;
    bool is_negative = field.len > 0 && field.p[0] == '-';
    for (i = is_negative ? 1 : 0; i < field.len && field.p[i] != '.'; i++) {
        int digit = field.p[i] - '0';
        if (digit < 0 || digit >= base || v > (max - digit) / base) {
            return false;
        }
        v = v * base + digit;
    }
    *out = is_negative ? -v : v;
    return i > (is_negative ? 1u : 0u) && s->p != NULL;
}

static enum tree_type type_of(char letter)
{
    switch (letter) {
    case 'f': return TREE_FILE;
    case 'd': return TREE_DIR;
    case 'l': return TREE_LINK;
    default: return TREE_OTHER;
    }
}

static int bad(struct err *e)
{
    return err_set(e, ERR_PROTOCOL, "the host's find printed what cannot be right");
}

static int add_entry(struct listing *l, struct str head, struct str target, struct err *e)
{
    struct tree_entry x = {0};
    int64_t mode;
    int64_t size;
    int64_t seconds;
    struct str letter = str_cut(head, ' ', &head);
    if (letter.len != 1 || !get_field(&head, 07777, 8, &mode) ||
        !get_field(&head, INT64_MAX, 10, &size) ||
        !get_field(&head, INT64_C(1) << 33, 10, &seconds) || !tree_path_ok(head) ||
        target.len > TREE_PATH_MAX) {
        return bad(e);
    }
    if (l->n == ENTRIES_MAX) {
        return err_set(e, ERR_LIMIT, "the folder on the host holds more than %d files",
                       ENTRIES_MAX);
    }
    x.type = type_of(letter.p[0]);
    x.path = arena_str(&l->arena, head);
    x.mode = (uint32_t)mode & 0777;
    x.size = x.type == TREE_FILE ? (uint64_t)size : 0;
    x.mtime_ns = seconds * 1000000000;
    if (x.type == TREE_LINK) {
        x.target = arena_str(&l->arena, target);
    }
    if (l->n == l->cap) {
        l->cap = l->cap > 0 ? 2 * l->cap : 256;
        l->all = xrealloc(l->all, l->cap, sizeof *l->all);
    }
    l->all[l->n++] = x;
    return 0;
}

static int take_record(struct listing *l, struct str record, struct err *e)
{
    if (l->n_facts < 2) {
        if (l->n_facts++ == 0) {
            if (record.len == 1) {
                l->type = record.p[0];
            }
        } else {
            l->real = arena_str(&l->arena, str_head(record, TREE_PATH_MAX));
        }
        return 0;
    }
    if (!l->has_head) {
        l->head = arena_str(&l->arena, record);
        l->has_head = true;
        return 0;
    }
    l->has_head = false;
    return add_entry(l, l->head, record, e);
}

static int take_output(void *arg, struct str bytes, struct err *e)
{
    struct listing *l = arg;
    while (bytes.len > 0) {
        const char *end = memchr(bytes.p, '\0', bytes.len);
        size_t n = end != NULL ? (size_t)(end - bytes.p) : bytes.len;
        buf_add(&l->rest, str_head(bytes, n));
        if (l->rest.cut) {
            return bad(e);
        }
        if (end == NULL) {
            return 0;
        }
        if (take_record(l, buf_str(&l->rest), e) < 0) {
            return -1;
        }
        buf_clear(&l->rest);
        bytes = str_skip(bytes, n + 1);
    }
    return 0;
}

static int run_find(struct listing *l, struct err *e)
{
    struct buf script own_buf = {0};
    buf_init(&script, 64u << 10);
    buf_add(&script, S("LC_ALL=C;export LC_ALL;r="));
    shell_add_path(&script, l->req->root);
    buf_add(&script, S(";t=-;[ -e \"$r\" ]&&t=o;[ -f \"$r\" ]&&t=f;[ -d \"$r\" ]&&t=d;"
                       "printf '%s\\0%s\\0' \"$t\" \"$(readlink -m -- \"$r\" 2>/dev/null)\";"
                       "case $t in -|o)exit 0;;esac;"
                       "case $t in f)exec find -H \"$r\" -printf '%y %m %s %T@ \\0\\0';;esac;"
                       "cd -- \"$r\"||exit 96;exec find . -name '" TREE_TEMP_PREFIX "*' -prune "
                       "-o -printf '%y %m %s %T@ %P\\0%l\\0'"));
    l->shell.out = take_output;
    l->shell.arg = l;
    if (shell_run(&l->shell, buf_str(&script), NULL, e) < 0) {
        return -1;
    }
    /* 1: some of it could not be read, and is told. */
    if (l->shell.code > 1 || l->n_facts < 2 || l->rest.len > 0 || l->has_head) {
        return shell_fail(&l->shell, "list", e);
    }
    return 0;
}

/* ---- without find ------------------------------------------------------------------------- */

static const char letters[] = {
    [FILE_REGULAR] = 'f', [FILE_DIR] = 'd', [FILE_SYMLINK] = 'l', [FILE_OTHER] = 'o'};

static int add_found(void *arg, const struct file_info *info, struct err *e)
{
    struct listing *l = arg;
    struct str root = l->req->root;
    struct buf head own_buf = {0};
    struct str path = str_skip(info->path, root.len);
    while (str_starts(path, S("/"))) {
        path = str_skip(path, 1);
    }
    if (str_starts(path_base(path), S(TREE_TEMP_PREFIX))) {
        return 0;
    }
    buf_init(&head, RECORD_MAX);
    buf_addf(&head, "%c %o %lld %lld ", letters[info->type], (unsigned)info->mode & 07777,
             (long long)info->size, (long long)info->mtime_s);
    buf_add(&head, path);
    return add_entry(l, buf_str(&head), STR_EMPTY, e);
}

/* The root by itself, then all that is in it, then where links lead. */
static int run_files(struct listing *l, struct err *e)
{
    const struct shell_way *way = l->shell.way;
    struct box *b = l->shell.box;
    const struct ctx *ctx = l->shell.ctx;
    struct list_req all = {.dir = l->req->root, .recursive = true, .max = ENTRIES_MAX};
    struct file_info root = {0};
    struct err why = {0};
    bool more = false;
    if (way->files->stat(b, ctx, l->req->root, &root, &why) < 0) {
        *e = why;
        return why.kind == ERR_NOT_FOUND ? 0 : -1;
    }
    l->type = letters[root.type];
    if (l->type == 'l') {
        l->type = 'o';
    }
    root.path = l->req->root;
    if (l->type == 'o') {
        return 0;
    }
    if (add_found(l, &root, e) < 0 ||
        (l->type == 'd' && way->files->list(b, ctx, &all, add_found, l, &more, e) < 0)) {
        return -1;
    }
    if (more) {
        return err_set(e, ERR_LIMIT, "the folder on the host holds more files than can be listed");
    }
    return way->links(b, ctx, l->req->root, l->all, l->n, &l->arena, e);
}

static int run_list(struct listing *l, struct err *e)
{
    int has_tools = l->shell.way->has_tools(l->shell.box, l->shell.ctx, e);
    if (has_tools < 0) {
        return -1;
    }
    return has_tools > 0 ? run_find(l, e) : run_files(l, e);
}

/* ---- what is left out ------------------------------------------------------------------------ */

static int by_path(const void *a, const void *b)
{
    return tree_path_cmp(((const struct tree_entry *)a)->path,
                         ((const struct tree_entry *)b)->path);
}

/* Sorts, and drops what two names of one path would make of it. */
static void sort(struct listing *l)
{
    size_t kept = 0;
    if (l->n > 0) {
        qsort(l->all, l->n, sizeof *l->all, by_path);
    }
    for (size_t i = 0; i < l->n; i++) {
        if (kept == 0 || !str_eq(l->all[kept - 1].path, l->all[i].path)) {
            l->all[kept++] = l->all[i];
        }
    }
    l->n = kept;
}

/* Drops what one of the lists excludes, and what is below it. */
static void leave_out(struct listing *l, const struct exclude *first, const struct exclude *second)
{
    struct str gone = STR_EMPTY; /* a folder that was left out */
    size_t kept = 0;
    for (size_t i = 0; i < l->n; i++) {
        struct tree_entry *x = &l->all[i];
        bool below = gone.len > 0 && x->path.len > gone.len && str_starts(x->path, gone) &&
                     x->path.p[gone.len] == '/';
        if (below) {
            continue;
        }
        enum exclude_answer said = exclude_ask(first, x->path, x->type == TREE_DIR);
        if (said == EXCLUDE_UNSAID && second != NULL) {
            said = exclude_ask(second, x->path, x->type == TREE_DIR);
        }
        if (said == EXCLUDE_OUT) {
            gone = x->type == TREE_DIR ? x->path : gone;
            continue;
        }
        l->all[kept++] = *x;
    }
    l->n = kept;
}

/* The .gitignore files of the tree, fetched in one exchange. */
struct ignores {
    struct exclude *exclude;
    const struct str *paths;
    size_t next;
    struct buf text;
};

static int ignore_entry(void *arg, const struct tree_entry *entry, struct err *e)
{
    struct ignores *g = arg;
    (void)entry, (void)e;
    g->next++;
    buf_clear(&g->text);
    return 0;
}

static int ignore_data(void *arg, struct str bytes, struct err *e)
{
    (void)e;
    buf_add(&((struct ignores *)arg)->text, bytes);
    return 0;
}

/* One that cannot be read, or is too long, says nothing. */
static int ignore_done(void *arg, bool ok, struct str why, struct err *e)
{
    struct ignores *g = arg;
    struct str path = g->paths[g->next - 1];
    size_t cut = path.len - (sizeof ".gitignore" - 1);
    struct err ignored;
    (void)why, (void)e;
    if (ok && !g->text.cut) {
        (void)!exclude_add_text(g->exclude, str_head(path, cut > 0 ? cut - 1 : 0),
                                buf_str(&g->text), &ignored);
    }
    return 0;
}

static int read_ignores(struct listing *l, struct exclude *to, struct err *e)
{
    struct str *paths own_mem = xcalloc(l->n + 1, sizeof *paths);
    size_t n = 0;
    struct ignores g = {.exclude = to, .paths = paths};
    struct tree_sink sink = {
        .entry = ignore_entry, .data = ignore_data, .done = ignore_done, .arg = &g};
    for (size_t i = 0; i < l->n; i++) {
        if (l->all[i].type == TREE_FILE && str_eq(path_base(l->all[i].path), S(".gitignore"))) {
            paths[n++] = l->all[i].path;
        }
    }
    buf_init(&g.text, IGNORE_MAX);
    int rc = n == 0 ? 0
                    : shell_tree_get(l->shell.way, l->shell.box, l->shell.ctx, l->req->root, paths,
                                     n, &sink, e);
    buf_fini(&g.text);
    return rc;
}

static int apply_rules(struct listing *l, struct err *e)
{
    const struct tree_req *req = l->req;
    struct exclude *own = exclude_new(&l->arena, req->legacy_style ? EXCLUDE_LEGACY : EXCLUDE_GIT);
    struct exclude *theirs = exclude_new(&l->arena, EXCLUDE_GIT);
    for (size_t i = 0; i < req->n_excludes; i++) {
        if (exclude_add(own, STR_EMPTY, req->excludes[i], e) < 0) {
            return -1;
        }
    }
    leave_out(l, own, NULL);
    if (req->gitignore) {
        if (read_ignores(l, theirs, e) < 0) {
            return -1;
        }
        leave_out(l, own, theirs);
    }
    return 0;
}

/* ---- sums --------------------------------------------------------------------------------------- */

struct summing {
    struct listing *listing;
    size_t next;
    struct buf rest;
};

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "64 digits, two characters, ./path". Those without one were skipped by the host. */
static bool take_sum(struct summing *s, struct str record)
{
    struct listing *l = s->listing;
    struct str path = str_skip(record, SUM_TEXT + 2);
    if (l->type == 'f' && str_eq(path, S("-"))) {
        path = STR_EMPTY; /* the root itself, from stdin */
    } else if (record.len < SUM_TEXT + 4 || !str_starts(path, S("./"))) {
        return false;
    } else {
        path = str_skip(path, 2);
    }
    while (s->next < l->n && !str_eq(l->all[s->next].path, path)) {
        s->next++;
    }
    if (s->next == l->n) {
        return false;
    }
    struct tree_entry *x = &l->all[s->next];
    for (size_t i = 0; i < TREE_SUM; i++) {
        int high = digit(record.p[2 * i]);
        int low = digit(record.p[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        x->sum[i] = (uint8_t)(high << 4 | low);
    }
    x->has_sum = true;
    return true;
}

static int take_sums(void *arg, struct str bytes, struct err *e)
{
    struct summing *s = arg;
    while (bytes.len > 0) {
        struct str rest;
        bool is_whole = memchr(bytes.p, '\0', bytes.len) != NULL;
        buf_add(&s->rest, str_cut(bytes, '\0', &rest));
        if (s->rest.cut || (is_whole && !take_sum(s, buf_str(&s->rest)))) {
            return err_set(e, ERR_PROTOCOL, "the host's sha256sum printed what cannot be right");
        }
        if (is_whole) {
            buf_clear(&s->rest);
        }
        bytes = rest;
    }
    return 0;
}

/* Files that the host did not sum could not be read, and are not part of the tree. */
static void drop_unsummed(struct listing *l, struct tree_facts *facts)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->n; i++) {
        if (l->all[i].type == TREE_FILE && !l->all[i].has_sum) {
            facts->unreadable++;
            if (facts->first_unreadable.len == 0) {
                facts->first_unreadable = arena_str(l->shell.ctx->arena, l->all[i].path);
            }
            continue;
        }
        l->all[kept++] = l->all[i];
    }
    l->n = kept;
}

static int add_sums(struct listing *l, struct tree_facts *facts, struct err *e)
{
    struct str *paths own_mem = xcalloc(l->n + 1, sizeof *paths);
    struct path_feed feed = {.paths = paths};
    struct summing s = {.listing = l};
    struct buf script own_buf = {0};
    for (size_t i = 0; i < l->n; i++) {
        if (l->all[i].type == TREE_FILE) {
            paths[feed.n++] = l->all[i].path;
        }
    }
    if (feed.n == 0) {
        return 0;
    }
    buf_init(&script, 64u << 10);
    buf_init(&s.rest, RECORD_MAX);
    buf_add(&script, S("LC_ALL=C;export LC_ALL;printf x|sha256sum -z >/dev/null 2>&1||exit 97;"));
    buf_add(&script, l->type == 'f' ? S("exec sha256sum -z <") : S("cd -- "));
    shell_add_path(&script, l->req->root);
    if (l->type != 'f') {
        buf_add(&script, S("||exit 96;xargs -0 sha256sum -z --"));
    }
    l->shell.out = take_sums;
    l->shell.arg = &s;
    struct source input = path_feed_source(&feed);
    int rc = shell_run(&l->shell, buf_str(&script), &input, e);
    buf_fini(&s.rest);
    buf_fini(&feed.some);
    if (rc == 0 && l->shell.code == SHELL_NO_TOOL) {
        rc = err_set(e, ERR_UNSUPPORTED,
                     "the host has no sha256sum that takes any name: checksum=true does not work "
                     "there without the agent");
    } else if (rc == 0 && l->shell.code == SHELL_NO_ENTER) {
        rc = shell_fail(&l->shell, "read", e);
    }
    drop_unsummed(l, facts);
    return rc;
}

/* ---- all of it --------------------------------------------------------------------------------------- */

static int fill_facts(struct listing *l, struct tree_facts *out, struct err *e)
{
    const struct ctx *ctx = l->shell.ctx;
    struct str home;
    if (l->shell.way->home(l->shell.box, ctx, &home, e) < 0) {
        return -1;
    }
    *out = (struct tree_facts){.exists = l->type != '-', .type = type_of(l->type)};
    out->home = home;
    struct str path = path_tilde(ctx->arena, l->req->root, home);
    out->real = l->real.len > 0 ? arena_str(ctx->arena, l->real)
                                : path_clean(ctx->arena, path_join(ctx->arena, home, path));
    out->unreadable = l->shell.n_errors;
    out->first_unreadable = shell_first_error(&l->shell);
    return 0;
}

static int list_all(struct listing *l, tree_entry_fn *each, void *arg, struct tree_facts *out,
                    struct err *e)
{
    if (run_list(l, e) < 0 || fill_facts(l, out, e) < 0) {
        return -1;
    }
    sort(l);
    if (apply_rules(l, e) < 0 || (l->req->sums && add_sums(l, out, e) < 0)) {
        return -1;
    }
    for (size_t i = 0; i < l->n; i++) {
        if (each(arg, &l->all[i], e) < 0) {
            return -1;
        }
    }
    return 0;
}

int shell_tree_list(const struct shell_way *way, struct box *b, const struct ctx *ctx,
                    const struct tree_req *req, tree_entry_fn *each, void *arg,
                    struct tree_facts *out, struct err *e)
{
    struct listing l = {.req = req, .type = '-'};
    struct tree_facts facts = {0};
    shell_init(&l.shell, way, b, ctx, req->root);
    arena_init(&l.arena, ARENA_MAX);
    buf_init(&l.rest, RECORD_MAX);
    int rc = list_all(&l, each, arg, &facts, e);
    shell_fini(&l.shell);
    arena_fini(&l.arena);
    buf_fini(&l.rest);
    free(l.all);
    if (rc == 0) {
        *out = facts;
    }
    return rc;
}
