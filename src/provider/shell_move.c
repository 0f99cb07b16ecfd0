/*
 * Contents to and from a host by its own tar.
 *
 * put goes in batches. Each is unpacked into a folder of our own below the root
 * (TREE_TEMP_PREFIX...), and only when all of it is there a second script moves every file to
 * its place, which is one rename(2) for each: so a connection that breaks leaves old files or new
 * ones, and what earlier batches brought. Folders, modes of files that are right already and
 * mtimes of folders come last. Of a link in the way of a folder the script makes a folder, and it
 * moves files from inside the folder that they go to, so that a link that is put in its way
 * meanwhile leads nowhere; only modes and times may then be set elsewhere.
 */
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/own.h"
#include "base/thread.h"
#include "provider/shell.h"
#include "provider/tar.h"
#include "tree/apply.h"

#define BATCH_BYTES (64u << 20)
#define BATCH_FILES 5000
#define PIECE       (64u << 10)
#define LIST_MAX    (256u << 20) /* of what a batch's second script is told */

/* ---- lists of paths ------------------------------------------------------------------------ */

/* As much of the bytes as is wanted. */
static ssize_t give(struct buf *from, char *to, size_t cap)
{
    size_t n = from->len < cap ? from->len : cap;
    if (n > 0) {
        memcpy(to, from->p, n);
        buf_drop(from, n);
    }
    return (ssize_t)n;
}

static ssize_t feed_read(void *arg, char *to, size_t cap, struct err *e)
{
    struct path_feed *f = arg;
    (void)e;
    while (f->some.len < cap && f->next < f->n) {
        size_t at = f->backwards ? f->n - 1 - f->next : f->next;
        f->next++;
        buf_add(&f->some, S("./"));
        buf_add(&f->some, f->paths[at]);
        buf_addc(&f->some, '\0');
    }
    return give(&f->some, to, cap);
}

struct source path_feed_source(struct path_feed *f)
{
    buf_init(&f->some, 4u << 20);
    return (struct source){.read = feed_read, .arg = f, .fd = -1};
}

/* ---- put ------------------------------------------------------------------------------------- */

struct putting {
    struct shell shell;
    const struct tree_source *from;
    struct put_result *result;
    char temp[48];
    struct buf bytes; /* of the archive, not taken yet */
    struct buf list;  /* for the second script: kind, mode, mtime, path */
    uint64_t total;   /* bytes of the archive so far */
    uint64_t left;    /* of the file that is being sent */
    uint64_t size;
    struct buf path; /* of it */
    bool in_file, is_bad;
    bool is_over;   /* the source has ended */
    bool is_closed; /* the archive has */
    unsigned n_files, n_links;
};

static void note(struct putting *p, char kind, const struct tree_entry *entry, struct str path)
{
    long long seconds = entry != NULL ? (long long)tree_timespec(entry->mtime_ns).tv_sec : 0;
    buf_addf(&p->list, "%c%c%o%c%lld%c", kind, '\0', entry != NULL ? entry->mode & 0777 : 0, '\0',
             seconds, '\0');
    buf_add(&p->list, path);
    buf_addc(&p->list, '\0');
}

static void skipped(struct putting *p, struct str path, struct str why)
{
    if (p->result->skipped++ == 0) {
        p->result->first_skipped =
            arena_printf(p->shell.ctx->arena, "%.*s: %.*s", STR_ARG(str_head(path, 300)),
                         STR_ARG(str_head(why, 300)));
    }
}

/* The next entry, as the archive or the list has it. */
static int next_entry(struct putting *p, struct err *e)
{
    struct tree_entry x;
    int got = p->from->next(p->from->arg, &x, e);
    if (got <= 0) {
        p->is_over = got == 0;
        return got;
    }
    if (x.type == TREE_DIR || x.meta_only) {
        note(p, x.type == TREE_DIR ? 'd' : 'm', &x, x.path);
        p->result->dirs += x.type == TREE_DIR ? 1 : 0;
        return 0;
    }
    if (x.type == TREE_OTHER || x.path.len == 0) {
        skipped(p, x.path, S("devices, pipes and sockets are not written"));
        return 0;
    }
    tar_put(&p->bytes, &x);
    if (x.type == TREE_LINK) {
        p->n_links++;
        return 0;
    }
    p->n_files++;
    p->in_file = true;
    p->is_bad = false;
    p->left = p->size = x.size;
    buf_clear(&p->path);
    buf_add(&p->path, x.path);
    return 0;
}

/* A file that cannot be sent whole is filled up with zeros, and removed over there before
 * anything is moved. */
static void spoil(struct putting *p, struct str why)
{
    if (!p->is_bad) {
        p->is_bad = true;
        p->n_files--;
        note(p, 'x', NULL, buf_str(&p->path));
        skipped(p, buf_str(&p->path), why);
    }
}

static void add_zeros(struct putting *p, uint64_t n)
{
    static const char zeros[4096];
    while (n > 0) {
        size_t some = n < sizeof zeros ? (size_t)n : sizeof zeros;
        buf_add(&p->bytes, (struct str){zeros, some});
        n -= some;
    }
}

static int next_piece(struct putting *p, struct err *e)
{
    char *to = buf_room(&p->bytes, PIECE);
    size_t cap = p->left < PIECE ? (size_t)p->left : PIECE;
    bool skip = false;
    if (p->left == 0) {
        tar_pad(&p->bytes, p->size);
        p->in_file = false;
        p->result->bytes += p->is_bad ? 0 : p->size;
        return 0;
    }
    if (p->is_bad || to == NULL) {
        add_zeros(p, cap);
        p->left -= cap;
        return to == NULL ? err_set(e, ERR_BUG, "an archive does not fit its buffer") : 0;
    }
    ssize_t n = p->from->read(p->from->arg, to, cap, &skip, e);
    if (n > 0) {
        p->bytes.len += (size_t)n;
        p->left -= (uint64_t)n;
        return 0;
    }
    if (n < 0 && !skip) {
        return -1;
    }
    spoil(p, n < 0 ? str_from(e->msg) : S("it became shorter while it was read"));
    return 0;
}

static int fill(struct putting *p, struct err *e)
{
    bool is_full = p->total + p->bytes.len > BATCH_BYTES ||
                   p->n_files + p->n_links >= BATCH_FILES || p->list.len > LIST_MAX / 2;
    if (p->in_file) {
        return next_piece(p, e);
    }
    if (p->is_over || is_full) {
        tar_end(&p->bytes, p->total + p->bytes.len);
        p->is_closed = true;
        return 0;
    }
    return next_entry(p, e);
}

static ssize_t archive_read(void *arg, char *to, size_t cap, struct err *e)
{
    struct putting *p = arg;
    while (p->bytes.len < cap && !p->is_closed) {
        if (fill(p, e) < 0) {
            return -1;
        }
    }
    ssize_t n = give(&p->bytes, to, cap);
    p->total += (uint64_t)n;
    return n;
}

static ssize_t list_read(void *arg, char *to, size_t cap, struct err *e)
{
    (void)e;
    return give(&((struct putting *)arg)->list, to, cap);
}

static int unpack(struct putting *p, struct err *e)
{
    struct source input = {.read = archive_read, .arg = p, .fd = -1};
    struct buf script own_buf = {0};
    buf_init(&script, 64u << 10);
    buf_add(&script, S("LC_ALL=C;export LC_ALL;r="));
    shell_add_path(&script, p->shell.root);
    buf_addf(&script,
             ";t=%s;"
             "mkdir -p -- \"$r\"||exit 95;cd -- \"$r\"||exit 96;"
             "find . -maxdepth 1 -name '" TREE_TEMP_PREFIX "*' -mmin +60 -exec rm -rf {} +;"
             "mkdir \"$t\"||exit 95;tar -x -p -f - -C \"$t\" --no-same-owner;c=$?;"
             "[ $c = 0 ]||rm -rf \"$t\";exit $c",
             p->temp);
    if (shell_run(&p->shell, buf_str(&script), &input, e) < 0) {
        return -1;
    }
    return p->shell.code != 0 ? shell_fail(&p->shell, "write to", e) : 0;
}

/* "at DIR COMMAND..." goes into a folder below the root $R and runs the command there, unless a
 * link is on the way. Once it is in there, nothing that is renamed or put in the way meanwhile
 * leads the command elsewhere. (What pwd prints may end in newlines, which "$()" would take.)
 * "folder DIR" makes one where there is none. Both are for the shells below xargs. */
#define WORDS                                                                                      \
    "at(){ (cd -P -- \"$R/$1\"&&w=$(pwd -P;echo x)&&w=${w%??}&&"                                   \
    "{ [ \"$w\" = \"$R/$1\" ]||[ \"${w%/}/.\" = \"$R/$1\" ];}||"                                   \
    "{ echo \"$1: a link is in the way\" >&2;exit 1;};shift;\"$@\");};"                            \
    "folder(){ [ -d \"$R/$1\" ]&&[ ! -L \"$R/$1\" ]||{ case $1 in */*)u=${1%/*};;*)u=.;;esac;"     \
    "n=./${1##*/};at \"$u\" rm -f -- \"$n\"&&at \"$u\" mkdir -- \"$n\";};}"
/* What each record of the list means, before and after the files are moved. */
#define EACH_RECORD "xargs -0 -r -n 400 sh -c 'eval \"$F\";while [ $# -ge 4 ];do p=./$4;case $1 in "
#define END_RECORDS ";esac;shift 4;done' sh <\"$t.l\";"
#define SETTLE                                                                                     \
    "R=$(pwd -P;echo x);R=${R%??};R=${R%/};F='" WORDS "';export R F;"                              \
    "cat >\"$t.l\"||exit 95;" EACH_RECORD "x)rm -f -- \"$t/$4\";;d)folder \"$4\"" END_RECORDS      \
    "cd \"$t\"||exit 96;find . -type d -print0|xargs -0 sh -c 'eval \"$F\";for d;do d=${d#./};"    \
    "[ \"$d\" = . ]||folder \"$d\";at \"$d\" find \"$R/$t/$d\" -mindepth 1 -maxdepth 1 ! -type d " \
    "-exec mv -f -t . -- {} +;done' sh;cd ..;" EACH_RECORD                                         \
    "m)[ -f \"$p\" ]&&[ ! -L \"$p\" ]&&chmod \"$2\" \"$p\"&&touch -c -m -d \"@$3\" \"$p\";;"       \
    "d)[ -d \"$p\" ]&&[ ! -L \"$p\" ]&&chmod \"$2\" \"$p\"&&touch -c -m -d \"@$3\" "               \
    "\"$p\"" END_RECORDS "rm -rf \"$t\" \"$t.l\""

static int settle(struct putting *p, struct err *e)
{
    struct source input = {.read = list_read, .arg = p, .fd = -1};
    struct buf script own_buf = {0};
    buf_init(&script, 64u << 10);
    buf_add(&script, S("LC_ALL=C;export LC_ALL;cd -- "));
    shell_add_path(&script, p->shell.root);
    buf_addf(&script, "||exit 96;t=%s;export t;", p->temp);
    buf_add(&script, S(SETTLE));
    if (shell_run(&p->shell, buf_str(&script), &input, e) < 0) {
        return -1;
    }
    if (p->shell.code != 0) {
        return shell_fail(&p->shell, "write to", e);
    }
    uint64_t refused = p->shell.n_errors;
    if (refused > 0) {
        skipped(p, shell_first_error(&p->shell), S("the host refused it"));
        p->result->skipped += refused - 1;
    }
    p->result->files += p->n_files > refused ? p->n_files - refused : 0;
    p->result->links += p->n_links;
    return 0;
}

static int put_batch(struct putting *p, struct err *e)
{
    char random[17];
    id_hex(random, 8);
    (void)snprintf(p->temp, sizeof p->temp, TREE_TEMP_PREFIX "%s", random);
    p->total = 0;
    p->n_files = p->n_links = 0;
    p->is_closed = false;
    buf_clear(&p->bytes);
    buf_clear(&p->list);
    return unpack(p, e) < 0 ? -1 : settle(p, e);
}

int shell_tree_put(const struct shell_way *way, struct box *b, const struct ctx *ctx,
                   struct str root, const struct tree_source *from, struct put_result *out,
                   struct err *e)
{
    struct putting p = {.from = from, .result = out};
    int rc = way->has_tools(b, ctx, e);
    if (rc <= 0) {
        return rc < 0 ? -1 : way->without->put(b, ctx, root, from, out, e);
    }
    rc = 0;
    *out = (struct put_result){0};
    shell_init(&p.shell, way, b, ctx, root);
    buf_init(&p.bytes, 1u << 20);
    buf_init(&p.list, LIST_MAX);
    buf_init(&p.path, TREE_PATH_MAX);
    while (rc == 0 && !p.is_over) {
        rc = put_batch(&p, e);
    }
    shell_fini(&p.shell);
    buf_fini(&p.bytes);
    buf_fini(&p.list);
    buf_fini(&p.path);
    return rc;
}

/* ---- get ---------------------------------------------------------------------------------------- */

struct getting {
    struct tar_in tar;
    const struct tree_sink *to;
    const struct str *paths;
    size_t n, next;
};

static int missing(struct getting *g, struct err *e)
{
    struct tree_entry none = {.path = g->paths[g->next++]};
    if (g->to->entry(g->to->arg, &none, e) < 0) {
        return -1;
    }
    return g->to->done(g->to->arg, false, S("it is gone, or cannot be read"), e);
}

/* tar leaves out what it cannot read, and keeps the order. */
static int got_entry(void *arg, const struct tree_entry *entry, struct err *e)
{
    struct getting *g = arg;
    while (g->next < g->n && !str_eq(g->paths[g->next], entry->path)) {
        if (missing(g, e) < 0) {
            return -1;
        }
    }
    if (g->next == g->n) {
        return err_set(e, ERR_PROTOCOL, "the host's tar sent a file that was not asked for");
    }
    g->next++;
    return g->to->entry(g->to->arg, entry, e);
}

static int got_data(void *arg, struct str bytes, struct err *e)
{
    const struct getting *g = arg;
    return g->to->data(g->to->arg, bytes, e);
}

static int got_done(void *arg, bool ok, struct str why, struct err *e)
{
    const struct getting *g = arg;
    return g->to->done(g->to->arg, ok, why, e);
}

static int got_bytes(void *arg, struct str bytes, struct err *e)
{
    struct getting *g = arg;
    struct tree_sink to = {.entry = got_entry, .data = got_data, .done = got_done, .arg = g};
    return tar_read(&g->tar, bytes, &to, e);
}

static int get_all(struct getting *g, struct shell *s, struct err *e)
{
    struct path_feed feed = {.paths = g->paths, .n = g->n};
    struct source input = path_feed_source(&feed);
    struct buf script own_buf = {0};
    buf_init(&script, 64u << 10);
    buf_add(&script, S("LC_ALL=C;export LC_ALL;cd -- "));
    shell_add_path(&script, s->root);
    buf_add(&script, S("||exit 96;exec tar -c -f - --format=gnu --no-recursion --hard-dereference "
                       "--null -T -"));
    s->out = got_bytes;
    s->arg = g;
    int rc = shell_run(s, buf_str(&script), &input, e);
    buf_fini(&feed.some);
    if (rc < 0) {
        return -1;
    }
    if (s->code == SHELL_NO_ENTER || !tar_is_done(&g->tar)) {
        return shell_fail(s, "read", e);
    }
    while (g->next < g->n) {
        if (missing(g, e) < 0) {
            return -1;
        }
    }
    return 0;
}

int shell_tree_get(const struct shell_way *way, struct box *b, const struct ctx *ctx,
                   struct str root, const struct str *paths, size_t n, const struct tree_sink *to,
                   struct err *e)
{
    struct getting g = {.to = to, .paths = paths, .n = n};
    struct shell s;
    int has_tools = n > 0 ? way->has_tools(b, ctx, e) : -1;
    if (n == 0) {
        return 0;
    }
    if (has_tools <= 0) {
        return has_tools < 0 ? -1 : way->without->get(b, ctx, root, paths, n, to, e);
    }
    shell_init(&s, way, b, ctx, root);
    tar_in_init(&g.tar);
    int rc = get_all(&g, &s, e);
    tar_in_fini(&g.tar);
    shell_fini(&s);
    return rc;
}

/* ---- prune --------------------------------------------------------------------------------------- */

struct removed {
    struct prune_result *result;
    struct buf line;
};

/* What rm says about each. A name with a newline counts once, too: the rest of it is no such line. */
static int count_removed(void *arg, struct str bytes, struct err *e)
{
    struct removed *r = arg;
    (void)e;
    for (size_t i = 0; i < bytes.len; i++) {
        if (bytes.p[i] != '\n') {
            buf_addc(&r->line, bytes.p[i]);
            continue;
        }
        struct str line = buf_str(&r->line);
        r->result->dirs += str_starts(line, S("removed directory")) ? 1 : 0;
        r->result->files += str_starts(line, S("removed '")) ? 1 : 0;
        buf_clear(&r->line);
    }
    return 0;
}

/* A folder that is not empty stays, as it should, and what is gone is gone. */
static int check_removed(const struct shell *s, struct err *e)
{
    struct str rest = buf_str(&s->errors);
    while (rest.len > 0) {
        struct str line = str_cut(rest, '\n', &rest);
        bool is_fine = line.len == 0 || str_ends(line, S("Directory not empty")) ||
                       str_ends(line, S("Not a directory")) ||
                       str_ends(line, S("No such file or directory"));
        if (!is_fine) {
            return shell_fail(s, "remove from", e);
        }
    }
    return 0;
}

int shell_tree_prune(const struct shell_way *way, struct box *b, const struct ctx *ctx,
                     struct str root, const struct str *paths, size_t n, struct prune_result *out,
                     struct err *e)
{
    struct path_feed feed = {.paths = paths, .n = n, .backwards = true};
    int has_tools = way->has_tools(b, ctx, e);
    if (has_tools <= 0) {
        return has_tools < 0 ? -1 : way->without->prune(b, ctx, root, paths, n, out, e);
    }
    struct source input = path_feed_source(&feed);
    struct removed r = {.result = out};
    struct buf script own_buf = {0};
    struct shell s;
    *out = (struct prune_result){0};
    shell_init(&s, way, b, ctx, root);
    buf_init(&script, 64u << 10);
    buf_init(&r.line, 64);
    s.out = count_removed;
    s.arg = &r;
    buf_add(&script, S("LC_ALL=C;export LC_ALL;cd -- "));
    shell_add_path(&script, root);
    buf_add(&script, S("||exit 96;exec xargs -0 -r rm -f -d -v --"));
    int rc = shell_run(&s, buf_str(&script), &input, e);
    if (rc == 0 && s.code == SHELL_NO_ENTER) {
        rc = shell_fail(&s, "remove from", e);
    } else if (rc == 0) {
        rc = check_removed(&s, e);
    }
    shell_fini(&s);
    buf_fini(&r.line);
    buf_fini(&feed.some);
    return rc;
}
