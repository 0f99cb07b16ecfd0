#include "folder_box.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "tree/apply.h"
#include "tree/read.h"
#include "tree/walk.h"

static struct folder_box *of(struct box *b)
{
    return CONTAINER_OF(b, struct folder_box, box);
}

static const char *where(struct box *b, const struct ctx *ctx, struct str path)
{
    struct folder_box *f = of(b);

    path = path_tilde(ctx->arena, path, f->home);
    return arena_cstr(ctx->arena, path_join(ctx->arena, f->folder, path));
}

static int fake_stat(struct box *b, const struct ctx *ctx, struct str path, struct file_info *out,
                     struct err *e)
{
    struct stat st;

    if (lstat(where(b, ctx, path), &st) < 0) {
        return err_sys(e, errno, "stat %.*s", STR_ARG(path));
    }
    *out = (struct file_info){
        .path = path,
        .type = S_ISREG(st.st_mode)   ? FILE_REGULAR
                : S_ISDIR(st.st_mode) ? FILE_DIR
                : S_ISLNK(st.st_mode) ? FILE_SYMLINK
                                      : FILE_OTHER,
        .mode = st.st_mode & 07777,
        .size = st.st_size,
        .mtime_s = st.st_mtime,
    };
    return 0;
}

static void find_facts(struct box *b, const struct ctx *ctx, const char *path,
                       struct tree_facts *out)
{
    char *real own_mem = realpath(path, NULL);

    out->real = arena_str(ctx->arena, str_from(real != NULL ? real : path));
    out->home = of(b)->home;
    out->unreadable = of(b)->unreadable;
    out->first_unreadable = S("secret: Permission denied");
}

static int fake_list(struct box *b, const struct ctx *ctx, const struct tree_req *req,
                     tree_entry_fn *each, void *arg, struct tree_facts *out, struct err *e)
{
    const char *path = where(b, ctx, req->root);
    int fd own_fd = open(path, O_RDONLY | O_CLOEXEC);
    struct exclude *x = exclude_new(ctx->arena, req->legacy_style ? EXCLUDE_LEGACY : EXCLUDE_GIT);
    struct walk_req walk = {
        .root_fd = fd, .exclude = x, .gitignore = req->gitignore, .sums = req->sums};
    struct stat st;

    of(b)->lists++;
    *out = (struct tree_facts){0};
    find_facts(b, ctx, path, out);
    for (size_t i = 0; i < req->n_excludes; i++) {
        if (exclude_add(x, STR_EMPTY, req->excludes[i], e) < 0) {
            return -1;
        }
    }
    if (fd < 0 || fstat(fd, &st) < 0) {
        return errno == ENOENT ? 0 : err_sys(e, errno, "open %s", path);
    }
    out->exists = true;
    out->type = S_ISDIR(st.st_mode) ? TREE_DIR : TREE_FILE;
    if (tree_walk(&walk, each, arg, e) < 0) {
        return -1;
    }
    return of(b)->lie != NULL ? each(arg, of(b)->lie, e) : 0;
}

static int keep_failure(void *arg, struct str path, struct str why, struct err *e)
{
    struct put_result *out = arg;
    static char text[512];

    (void)e;
    if (out->skipped++ == 0) {
        (void)snprintf(text, sizeof text, "%.*s: %.*s", STR_ARG(path), STR_ARG(why));
        out->first_skipped = str_from(text);
    }
    return 0;
}

static int put_contents(const struct tree_source *from, const struct tree_sink *to, struct err *e)
{
    char chunk[8192];
    bool skip = false;
    struct err why;
    ssize_t n = 1;

    while (n > 0) {
        uint64_t hole = from->hole != NULL ? from->hole(from->arg) : 0;

        if (hole > 0 && to->hole(to->arg, hole, e) < 0) {
            return -1;
        }
        n = from->read(from->arg, chunk, sizeof chunk, &skip, &why);
        if (n < 0 && !skip) {
            *e = why;
            return -1;
        }
        if (n > 0 && to->data(to->arg, (struct str){chunk, (size_t)n}, e) < 0) {
            return -1;
        }
    }
    return to->done(to->arg, n == 0, n < 0 ? str_from(why.msg) : STR_EMPTY, e);
}

static int put_all(const struct tree_source *from, const struct tree_sink *to, struct err *e)
{
    struct tree_entry entry;
    int rc;

    for (;;) {
        rc = from->next(from->arg, &entry, e);
        if (rc <= 0) {
            return rc;
        }
        if (to->entry(to->arg, &entry, e) < 0) {
            return -1;
        }
        if (entry.type == TREE_FILE && !entry.meta_only && put_contents(from, to, e) < 0) {
            return -1;
        }
    }
}

static int fake_put(struct box *b, const struct ctx *ctx, struct str root,
                    const struct tree_source *from, struct put_result *out, struct err *e)
{
    const char *path = where(b, ctx, root);
    struct apply_req req = {.failed = keep_failure, .arg = out};
    struct apply *a;
    struct err closing;
    int fd own_fd = -1;
    int rc;

    of(b)->shares[of(b)->puts++ % 8] = from->share;
    if (fd_mkdirs(path, 0755, e) < 0) {
        return -1;
    }
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    req.root_fd = fd;
    a = apply_open(&req);
    rc = put_all(from, apply_sink(a), e);
    out->dirs = apply_stats(a)->dirs;
    out->files = apply_stats(a)->files;
    out->links = apply_stats(a)->links;
    out->bytes = apply_stats(a)->bytes;
    rc = apply_close(a, rc == 0, rc == 0 ? e : &closing) < 0 ? -1 : rc;
    if (rc == 0 && of(b)->loses && from->share == TREE_FILES) {
        return err_set(e, ERR_UNREACHABLE, "one of its connections was lost");
    }
    return rc;
}

static bool fake_splits(struct box *b, uint64_t bytes)
{
    return of(b)->splits && bytes > 0;
}

static int get_other(const struct folder_box *f, const struct tree_sink *to, struct err *e)
{
    static const char zeros[65536];

    if (to->entry(to->arg, f->other, e) < 0) {
        return -1;
    }
    for (uint64_t sent = 0; sent < f->other_bytes; sent += sizeof zeros) {
        if (to->data(to->arg, (struct str){zeros, sizeof zeros}, e) < 0) {
            return -1;
        }
    }
    return to->done(to->arg, true, STR_EMPTY, e);
}

static int get_one(struct tree_reader *r, struct str path, const struct tree_sink *to,
                   struct err *e)
{
    struct tree_entry entry = {0};
    struct err why;
    char chunk[8192];
    ssize_t n = 1;

    if (tree_reader_open(r, path, &entry, &why) < 0) {
        entry = (struct tree_entry){.path = path, .type = TREE_FILE};
        return to->entry(to->arg, &entry, e) < 0 ? -1
                                                 : to->done(to->arg, false, str_from(why.msg), e);
    }
    if (to->entry(to->arg, &entry, e) < 0 || entry.type != TREE_FILE) {
        return entry.type != TREE_FILE ? 0 : -1;
    }
    while (n > 0) {
        uint64_t hole = tree_reader_hole(r);

        if (hole > 0 && to->hole(to->arg, hole, e) < 0) {
            return -1;
        }
        n = tree_reader_read(r, chunk, sizeof chunk, e);
        if (n < 0 || (n > 0 && to->data(to->arg, (struct str){chunk, (size_t)n}, e) < 0)) {
            return -1;
        }
    }
    return to->done(to->arg, true, STR_EMPTY, e);
}

static int fake_get(struct box *b, const struct ctx *ctx, struct str root, const struct str *paths,
                    size_t n, const struct tree_sink *to, struct err *e)
{
    int fd own_fd = open(where(b, ctx, root), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct tree_reader *r;
    int rc = 0;

    of(b)->gets++;
    if (fd < 0) {
        return err_sys(e, errno, "open %.*s", STR_ARG(root));
    }
    if (of(b)->other != NULL) {
        return get_other(of(b), to, e);
    }
    r = tree_reader_new(fd);
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = get_one(r, paths[i], to, e);
    }
    tree_reader_free(r);
    return rc;
}

static int fake_prune(struct box *b, const struct ctx *ctx, struct str root,
                      const struct str *paths, size_t n, struct prune_result *out, struct err *e)
{
    int fd own_fd = open(where(b, ctx, root), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct prune_stats stats = {0};
    int rc = tree_prune(fd, paths, n, &stats, e);

    of(b)->prunes++;
    *out = (struct prune_result){.files = stats.files, .dirs = stats.dirs};
    return rc;
}

static const struct file_ops files = {.stat = fake_stat};
static const struct tree_ops trees = {
    .list = fake_list,
    .put = fake_put,
    .splits = fake_splits,
    .get = fake_get,
    .prune = fake_prune,
};
static const struct provider_ops ops = {.type = "folder", .files = &files, .trees = &trees};

void folder_box_init(struct folder_box *f, struct str folder)
{
    *f = (struct folder_box){
        .provider = {.ops = &ops, .name = S("folder")},
        .folder = folder,
        .home = S("/home/nobody-here"),
    };
    f->box = (struct box){.provider = &f->provider, .ref = S("folder"), .refs = 1};
}
