/*
 * look.c - both trees are listed and compared.
 *
 * The box lists its tree on the call's thread, as all providers want it; the local folder is
 * walked on a thread that lives as long as that. Each side tells the other by `stop` that
 * it has failed.
 */
#include "sync/look.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/own.h"
#include "base/path.h"
#include "base/thread.h"
#include "sync/guard.h"
#include "sync/local.h"
#include "tree/read.h"
#include "tree/walk.h"

#define LOOK_ARENA     ((size_t)64 << 20)
#define CHECK_EVERY    256 /* names between looks at the clock */
#define GITIGNORE_MAX  (1u << 20)
#define GITIGNORES_MAX 10000

/* ---- what is left out ---------------------------------------------------------------------- */

static const char *const git_defaults[] = {".git/",        ".idea/", ".vscode/",
                                           "__pycache__/", "*.pyc",  "node_modules/"};
/* As remote-sandbox-mcp has them: at the top only. */
static const char *const legacy_defaults[] = {".git/*",        ".idea/*", ".vscode/*",
                                              "__pycache__/*", "*.pyc",   "node_modules/*"};

static int make_patterns(struct look *l, struct err *e)
{
    const struct sync_job *job = l->job;
    const char *const *defaults = job->legacy_style ? legacy_defaults : git_defaults;
    size_t n = COUNTOF(git_defaults) + job->n_excludes;
    struct str *lines = arena_alloc(&l->arena, n, sizeof(*lines));

    for (size_t i = 0; i < n; i++) {
        lines[i] = i < COUNTOF(git_defaults) ? str_from(defaults[i])
                                             : job->excludes[i - COUNTOF(git_defaults)];
    }
    l->patterns = (struct patterns){.lines = lines, .n = n};
    l->patterns.exclude = exclude_new(&l->arena, job->legacy_style ? EXCLUDE_LEGACY : EXCLUDE_GIT);
    for (size_t i = 0; i < n; i++) {
        if (exclude_add(l->patterns.exclude, STR_EMPTY, lines[i], e) < 0) {
            return err_wrap(e, "excludes");
        }
    }
    return 0;
}

/* ---- the side that is here ------------------------------------------------------------------- */

struct near {
    const struct look *look;
    int fd; /* -1: there is nothing */
    struct seq seq;
    uint64_t excluded, unreadable, ticks;
    char first[256]; /* of the unreadable ones */
    atomic_bool *stop;
    pthread_t thread;
    bool started;
    int rc;
    struct err e;
};

static int on_unreadable(void *arg, struct str path, int errnum, struct err *e)
{
    struct near *n = arg;
    char why[128];

    (void)e;
    if (n->unreadable++ == 0) {
        (void)snprintf(n->first, sizeof(n->first), "%.*s: %s", STR_ARG(str_head(path, 120)),
                       strerror_r(errnum, why, sizeof(why)));
    }
    return 0;
}

static void on_excluded(void *arg, struct str path, bool is_dir)
{
    struct near *n = arg;

    (void)path;
    (void)is_dir;
    n->excluded++;
}

static int add_near(void *arg, const struct tree_entry *entry, struct err *e)
{
    struct near *n = arg;

    return seq_add(&n->seq, entry, 0, e);
}

static int on_tick(void *arg, struct err *e)
{
    struct near *n = arg;

    if (atomic_load(n->stop)) {
        return err_set(e, ERR_CANCELLED, "the other side has failed");
    }
    return n->ticks++ % CHECK_EVERY == 0 ? ctx_check(n->look->ctx, e) : 0;
}

static void *walk_near(void *arg)
{
    struct near *n = arg;
    const struct look *l = n->look;
    struct walk_req req = {
        .root_fd = n->fd,
        .exclude = l->patterns.exclude,
        .gitignore = l->job->gitignore,
        .sums = l->job->checksum,
        .unreadable = on_unreadable,
        .excluded = on_excluded,
        .tick = on_tick,
        .arg = n,
    };

    n->rc = tree_walk(&req, add_near, n, &n->e);
    if (n->rc < 0) {
        atomic_store(n->stop, true);
    }
    return NULL;
}

static int near_start(struct near *n, const struct look *l, int fd, atomic_bool *stop,
                      struct err *e)
{
    *n = (struct near){.look = l, .fd = fd, .stop = stop};
    seq_init(&n->seq);
    if (fd < 0) {
        return 0;
    }
    if (thread_start(&n->thread, "sync", walk_near, n, e) < 0) {
        return -1;
    }
    n->started = true;
    return 0;
}

static int near_join(struct near *n, struct err *e)
{
    if (n->started) {
        (void)pthread_join(n->thread, NULL);
        n->started = false;
    }
    if (n->rc < 0) {
        *e = n->e;
    }
    return n->rc;
}

/* ---- the side that is far ---------------------------------------------------------------------- */

struct far {
    struct seq seq;
    struct tree_facts facts;
    atomic_bool *stop;
    struct tree_entry root; /* without its strings */
};

static int add_far(void *arg, const struct tree_entry *entry, struct err *e)
{
    struct far *f = arg;

    if (atomic_load(f->stop)) {
        return err_set(e, ERR_CANCELLED, "the other side has failed");
    }
    if (entry->path.len == 0) {
        f->root = *entry;
        f->root.path = f->root.target = STR_EMPTY;
    }
    return seq_add(&f->seq, entry, 0, e);
}

/* Both at once. Of two failures the one that came first is told. */
static int list_both(struct look *l, struct near *near, struct far *far, struct err *e)
{
    struct err near_error;
    int rc = box_tree_list(l->box, l->ctx, &l->far, add_far, far, &far->facts, e);
    bool near_first = rc < 0 && atomic_load(far->stop);

    /* One file is no tree: what is here is not compared with it. */
    if (rc < 0 || (far->facts.exists && far->facts.type != TREE_DIR)) {
        atomic_store(far->stop, true);
    }
    if (near_join(near, &near_error) == 0 || (rc < 0 && !near_first)) {
        return rc;
    }
    if (rc == 0 && far->facts.exists && far->facts.type != TREE_DIR) {
        return 0;
    }
    *e = near_error;
    return -1;
}

/* ---- what the source ignores stays in the destination ---------------------------------------------- */

struct ignores {
    struct look *look;
    struct exclude *keep;
    struct buf text;
    char base[TREE_PATH_MAX];
    size_t base_len;
};

static struct str folder_of(struct str path)
{
    struct str name = path_base(path);

    return str_head(path, path.len > name.len ? path.len - name.len - 1 : 0);
}

static int ignores_entry(void *arg, const struct tree_entry *entry, struct err *e)
{
    struct ignores *g = arg;
    struct str folder = folder_of(entry->path);

    (void)e;
    buf_clear(&g->text);
    if (folder.len > 0) {
        memcpy(g->base, folder.p, folder.len);
    }
    g->base_len = folder.len;
    return 0;
}

static int ignores_data(void *arg, struct str bytes, struct err *e)
{
    struct ignores *g = arg;

    (void)e;
    buf_add(&g->text, bytes);
    return 0;
}

/* Nobody writes patterns into a hole. */
static int ignores_hole(void *arg, uint64_t n, struct err *e)
{
    (void)arg;
    (void)n;
    (void)e;
    return 0;
}

static int ignores_done(void *arg, bool ok, struct str why, struct err *e)
{
    struct ignores *g = arg;

    (void)why;
    if (!ok || g->text.cut) {
        return 0;
    }
    return exclude_add_text(g->keep, (struct str){g->base, g->base_len}, buf_str(&g->text), e);
}

static int read_near(struct ignores *g, struct tree_reader *r, struct str path, struct err *e)
{
    struct tree_entry entry = {0};
    char chunk[4096];
    struct err ignored;
    ssize_t n = 0;

    if (tree_reader_open(r, path, &entry, &ignored) < 0 || entry.type != TREE_FILE) {
        return 0;
    }
    (void)ignores_entry(g, &entry, e);
    do {
        n = tree_reader_read(r, chunk, sizeof(chunk), &ignored);
        buf_add(&g->text, (struct str){chunk, n > 0 ? (size_t)n : 0});
    } while (n > 0 && !g->text.cut);
    return ignores_done(g, n == 0, STR_EMPTY, e);
}

static int read_ignores(struct ignores *g, int fd, const struct str *paths, size_t n, struct err *e)
{
    struct look *l = g->look;
    struct tree_sink sink = {.entry = ignores_entry,
                             .data = ignores_data,
                             .hole = ignores_hole,
                             .done = ignores_done,
                             .arg = g};
    struct tree_reader *r;
    int rc = 0;

    if (l->job->direction == SYNC_DOWN) {
        return n == 0 ? 0 : box_tree_get(l->box, l->ctx, l->remote, paths, n, &sink, e);
    }
    r = tree_reader_new(fd);
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = read_near(g, r, paths[i], e);
    }
    tree_reader_free(r);
    return rc;
}

/* The .gitignore files of the source, as patterns: the destination may not have them yet, or
 * others, and what they name is not there by a mistake that delete_extras should mend. */
static int find_keep(struct look *l, const struct seq *from, int fd, struct exclude **out,
                     struct err *e)
{
    struct ignores *g = xcalloc(1, sizeof(*g));
    struct seq_reader *r = xmalloc(sizeof(*r));
    struct str *paths = NULL;
    struct tree_entry entry;
    size_t n = 0;
    int rc;

    g->look = l;
    g->keep = exclude_new(&l->arena, EXCLUDE_GIT);
    buf_init(&g->text, GITIGNORE_MAX);
    seq_read(r, from);
    while (seq_next(r, &entry, NULL) && n < GITIGNORES_MAX) {
        if (entry.type == TREE_FILE && str_eq(path_base(entry.path), S(".gitignore"))) {
            paths = xrealloc(paths, n + 1, sizeof(*paths));
            paths[n++] = arena_str(&l->arena, entry.path);
        }
    }
    rc = read_ignores(g, fd, paths, n, e);
    *out = n > 0 ? g->keep : NULL;
    buf_fini(&g->text);
    free(paths);
    free(r);
    free(g);
    return rc;
}

/* ---- folders --------------------------------------------------------------------------------------- */

static int compare(struct look *l, const struct near *near, const struct far *far, struct err *e)
{
    bool up = l->job->direction == SYNC_UP;
    struct sync_plan *p = l->plan;
    struct exclude *keep = NULL;
    struct plan_req req = {
        .from = up ? &near->seq : &far->seq,
        .to = up ? &far->seq : &near->seq,
        .checksum = l->job->checksum,
        .delete_extras = l->job->delete_extras,
    };

    p->local = p->local_root = arena_str(&p->arena, l->local);
    p->remote = p->remote_root = arena_str(&p->arena, l->remote);
    p->counts.excluded = near->excluded;
    p->counts.unreadable = up ? near->unreadable : far->facts.unreadable;
    p->unreadable = arena_str(&p->arena, up ? str_from(near->first)
                                            : str_head(far->facts.first_unreadable, 256));
    if (req.delete_extras && p->counts.unreadable > 0) {
        req.delete_extras = false;
        p->held = arena_printf(&p->arena,
                               "nothing was deleted, because %llu of the source's files or folders "
                               "could not be read (%.*s)",
                               (unsigned long long)p->counts.unreadable, STR_ARG(p->unreadable));
    }
    if (req.delete_extras && l->job->gitignore && find_keep(l, req.from, near->fd, &keep, e) < 0) {
        return err_wrap(e, "reading .gitignore");
    }
    req.keep = keep;
    return plan_compare(p, &req, e);
}

static int check_up(struct look *l, const struct far *far, struct err *e)
{
    struct guard guard = {.home = far->facts.home};

    if (far->facts.exists && far->facts.type != TREE_DIR) {
        return err_set(e, ERR_INVALID,
                       "%.*s is a folder, but %.*s in the sandbox is a file; give another "
                       "remote_path, or remove the file",
                       STR_ARG(str_head(l->local, SHOWN_PATH)),
                       STR_ARG(str_head(l->remote, SHOWN_PATH)));
    }
    return l->job->delete_extras ? guard_check(&guard, far->facts.real, e) : 0;
}

static int look_folder_up(struct look *l, int fd, struct err *e)
{
    struct near *near = xcalloc(1, sizeof(*near));
    struct far *far = xcalloc(1, sizeof(*far));
    atomic_bool stop = false;
    int rc = -1;

    seq_init(&far->seq);
    far->stop = &stop;
    if (near_start(near, l, fd, &stop, e) == 0 && list_both(l, near, far, e) == 0 &&
        check_up(l, far, e) == 0) {
        rc = compare(l, near, far, e);
    }
    seq_fini(&near->seq);
    seq_fini(&far->seq);
    free(near);
    free(far);
    return rc;
}

static int look_up(struct look *l, struct err *e)
{
    int fd own_fd = local_open(arena_cstr(&l->arena, l->local), O_RDONLY | O_NONBLOCK);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0) {
        return err_sys(e, errno, "local_path %.*s", STR_ARG(str_head(l->local, SHOWN_PATH)));
    }
    if (S_ISDIR(st.st_mode)) {
        return look_folder_up(l, fd, e);
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(e, ERR_INVALID,
                       "local_path %.*s is neither a file nor a folder but a device, a pipe or a "
                       "socket, which cannot be sent",
                       STR_ARG(str_head(l->local, SHOWN_PATH)));
    }
    return look_file_up(l, fd, e);
}

/* What is at local_path; -1 there: nothing yet, or a file. */
static int open_destination(struct look *l, bool *is_file, int *out, struct err *e)
{
    int fd own_fd = local_open(arena_cstr(&l->arena, l->local), O_RDONLY | O_NONBLOCK);
    struct stat st;

    *is_file = false;
    *out = -1;
    if (fd < 0 && errno == ENOENT) {
        return 0;
    }
    if (fd < 0 || fstat(fd, &st) < 0) {
        return err_sys(e, errno, "local_path %.*s", STR_ARG(str_head(l->local, SHOWN_PATH)));
    }
    *is_file = !S_ISDIR(st.st_mode);
    *out = *is_file ? -1 : take_fd(&fd);
    return 0;
}

static int check_down(struct look *l, const struct far *far, int fd, bool is_file, struct err *e)
{
    struct guard guard = {.home = l->job->home, .state_dir = l->job->state_dir};

    if (!far->facts.exists) {
        return err_set(e, ERR_NOT_FOUND, "there is no %.*s in the sandbox",
                       STR_ARG(str_head(l->remote, SHOWN_PATH)));
    }
    if (far->facts.type == TREE_FILE) {
        return 0;
    }
    if (far->facts.type != TREE_DIR) {
        return err_set(e, ERR_INVALID,
                       "%.*s in the sandbox is neither a file nor a folder, and cannot be fetched",
                       STR_ARG(str_head(l->remote, SHOWN_PATH)));
    }
    if (is_file) {
        return err_set(e, ERR_INVALID,
                       "%.*s in the sandbox is a folder, but local_path %.*s is a file; give "
                       "another local_path, or remove the file",
                       STR_ARG(str_head(l->remote, SHOWN_PATH)),
                       STR_ARG(str_head(l->local, SHOWN_PATH)));
    }
    if (!l->job->delete_extras) {
        return 0;
    }
    return fd < 0 ? guard_check(&guard, l->local, e) : guard_check_here(&guard, l->local, fd, e);
}

static int look_down(struct look *l, struct err *e)
{
    struct near *near = xcalloc(1, sizeof(*near));
    struct far *far = xcalloc(1, sizeof(*far));
    atomic_bool stop = false;
    int fd own_fd = -1;
    bool is_file;
    int rc = -1;

    seq_init(&near->seq);
    seq_init(&far->seq);
    far->stop = &stop;
    if (open_destination(l, &is_file, &fd, e) == 0 && near_start(near, l, fd, &stop, e) == 0 &&
        list_both(l, near, far, e) == 0 && check_down(l, far, fd, is_file, e) == 0) {
        rc = far->facts.type == TREE_FILE ? look_file_down(l, &far->facts, &far->root, e)
                                          : compare(l, near, far, e);
    }
    seq_fini(&near->seq);
    seq_fini(&far->seq);
    free(near);
    free(far);
    return rc;
}

struct sync_plan *sync_look(struct box *b, const struct ctx *ctx, const struct sync_job *job,
                            struct err *e)
{
    struct look l = {
        .box = b,
        .ctx = ctx,
        .job = job,
        .plan = plan_new(job->direction),
        .local = local_no_slash(job->local),
        .remote = local_no_slash(job->remote),
        .local_folder = str_ends(job->local, S("/")),
        .remote_folder = str_ends(job->remote, S("/")),
    };
    int rc = -1;

    arena_init(&l.arena, LOOK_ARENA);
    if (make_patterns(&l, e) == 0) {
        l.far = (struct tree_req){
            .root = l.remote,
            .legacy_style = job->legacy_style,
            .gitignore = job->gitignore,
            .sums = job->checksum,
            .excludes = l.patterns.lines,
            .n_excludes = l.patterns.n,
        };
        rc = job->direction == SYNC_UP ? look_up(&l, e) : look_down(&l, e);
    }
    arena_fini(&l.arena);
    if (rc < 0) {
        sync_plan_free(l.plan);
        return NULL;
    }
    return l.plan;
}
