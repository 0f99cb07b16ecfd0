/* Folders with all that is in them, by SFTP: listing and removing. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/path.h"
#include "provider/ssh/own.h"
#include "provider/ssh/sftp_file.h"

#define ENTRIES_MAX 100000 /* of one folder that are sorted */

/* ---- one folder ------------------------------------------------------------------------------- */

struct folder {
    struct str path;  /* as the host takes it */
    struct str shown; /* as the caller named it */
    struct file_info *items;
    size_t n, cap;
    size_t at; /* the next one to look at */
};

static int by_name(const void *a, const void *b)
{
    return str_cmp(((const struct file_info *)a)->path, ((const struct file_info *)b)->path);
}

static int add_names(struct file_job *j, struct str body, struct folder *f, struct err *e)
{
    struct sftp_in in = {.rest = body};

    for (uint32_t n = sftp_get_u32(&in); n > 0; n--) {
        struct file_info info = {0};

        if (!sftp_get_name(&in, &info) || f->n >= ENTRIES_MAX) {
            return sftp_bad(j->sftp, e);
        }
        if (str_eq(info.path, S(".")) || str_eq(info.path, S(".."))) {
            continue;
        }
        if (f->n == f->cap) {
            f->cap = f->cap > 0 ? f->cap * 2 : 64;
            f->items = xrealloc(f->items, f->cap, sizeof(*f->items));
        }
        info.path = arena_str(j->ctx->arena, info.path);
        f->items[f->n++] = info;
    }
    return in.bad ? sftp_bad(j->sftp, e) : 0;
}

static int read_folder(struct file_job *j, struct folder *f, struct err *e)
{
    struct str handle = STR_EMPTY;
    struct sftp_packet p = {0};

    if (file_open(j, SFTP_OPENDIR, f->path, 0, 0, &handle, e) < 0) {
        return -1;
    }
    for (;;) {
        uint32_t id = sftp_begin(j->sftp, SFTP_READDIR);

        sftp_text(j->sftp, handle);
        if (sftp_ask(j->sftp, j->ctx, id, &p, e) < 0) {
            return -1;
        }
        if (p.type != SFTP_NAME) {
            break;
        }
        if (add_names(j, p.body, f, e) < 0) {
            return -1;
        }
    }
    if (sftp_status_of(&p) != SFTP_EOF) {
        return sftp_fail(&p, "list", f->path, e);
    }
    if (f->n > 0) {
        qsort(f->items, f->n, sizeof(*f->items), by_name);
    }
    return file_close(j, handle, e);
}

/* ---- folders in folders ------------------------------------------------------------------------ */

/* The folders from the first one down to the one that is looked at. */
struct walk {
    struct file_job *job;
    struct folder *folders;
    size_t n, cap;
};

static void leave(struct walk *w)
{
    free(w->folders[--w->n].items);
}

static void walk_fini(struct walk *w)
{
    while (w->n > 0) {
        leave(w);
    }
    free(w->folders);
}

/* Reads it; on failure nothing is entered. */
static int enter(struct walk *w, struct str path, struct str shown, struct err *e)
{
    struct folder f = {.path = path, .shown = shown};

    if (read_folder(w->job, &f, e) < 0) {
        free(f.items);
        return -1;
    }
    if (w->n == w->cap) {
        w->cap = w->cap > 0 ? w->cap * 2 : 8;
        w->folders = xrealloc(w->folders, w->cap, sizeof(*w->folders));
    }
    w->folders[w->n++] = f;
    return 0;
}

/* ---- list ------------------------------------------------------------------------------------ */

struct listing {
    struct walk walk;
    const struct list_req *req;
    file_info_fn *each;
    void *arg;
    uint32_t n;
};

/* Tells of the next entry; goes into it when it is a folder. */
static int list_next(struct listing *l, struct err *e)
{
    struct folder *f = &l->walk.folders[l->walk.n - 1];
    struct arena *a = l->walk.job->ctx->arena;
    struct file_info info = f->items[f->at++];
    struct str below = path_join(a, f->path, info.path);

    l->n++;
    info.path = path_join(a, f->shown, info.path);
    if (l->each(l->arg, &info, e) < 0) {
        return -1;
    }
    if (!l->req->recursive || info.type != FILE_DIR || l->walk.n > DEPTH_MAX ||
        enter(&l->walk, below, info.path, e) == 0) {
        return 0;
    }
    /* A folder below that may not be read, or is gone since, hides only itself. */
    return e->kind == ERR_DENIED || e->kind == ERR_NOT_FOUND ? 0 : -1;
}

static int list_all(struct listing *l, bool *more, struct err *e)
{
    while (l->walk.n > 0) {
        const struct folder *f = &l->walk.folders[l->walk.n - 1];

        if (f->at == f->n) {
            leave(&l->walk);
            continue;
        }
        if (l->n == l->req->max) {
            *more = true;
            return 0;
        }
        if (list_next(l, e) < 0) {
            return -1;
        }
    }
    return 0;
}

int ssh_file_list(struct box *b, const struct ctx *ctx, const struct list_req *req,
                  file_info_fn *each, void *arg, bool *more, struct err *e)
{
    struct file_job j own_job = {0};
    struct listing l = {.walk = {.job = &j}, .req = req, .each = each, .arg = arg};
    struct file_info info = {0};

    if (file_begin(&j, b, ctx, req->dir, e) < 0 || file_look(&j, SFTP_STAT, j.path, &info, e) < 0) {
        return -1;
    }
    if (info.type != FILE_DIR) {
        return err_set(e, ERR_INVALID, "\"%.*s\" is not a folder",
                       STR_ARG(str_head(req->dir, 256)));
    }
    *more = false;
    int rc = enter(&l.walk, j.path, req->dir, e) < 0 ? -1 : list_all(&l, more, e);
    walk_fini(&l.walk);
    return rc;
}

/* ---- remove ----------------------------------------------------------------------------------- */

/* Removes the next entry, or goes into it; a folder that is empty by now goes itself. What is gone
 * already is fine. */
static int remove_next(struct walk *w, struct err *e)
{
    struct folder *f = &w->folders[w->n - 1];
    int rc;

    if (f->at == f->n) {
        rc = file_simple(w->job, SFTP_RMDIR, f->path, "remove", e);
        leave(w);
    } else {
        const struct file_info *info = &f->items[f->at++];
        struct str below = path_join(w->job->ctx->arena, f->path, info->path);

        if (info->type == FILE_DIR && w->n > DEPTH_MAX) {
            return err_set(e, ERR_LIMIT, "folders are nested too deeply: more than %d", DEPTH_MAX);
        }
        rc = info->type == FILE_DIR ? enter(w, below, STR_EMPTY, e)
                                    : file_simple(w->job, SFTP_REMOVE, below, "remove", e);
    }
    return rc < 0 && e->kind != ERR_NOT_FOUND ? -1 : 0;
}

static int remove_tree(struct file_job *j, struct err *e)
{
    struct walk w = {.job = j};
    int rc = enter(&w, j->path, STR_EMPTY, e);

    while (rc == 0 && w.n > 0) {
        rc = remove_next(&w, e);
    }
    walk_fini(&w);
    return rc;
}

int ssh_file_remove(struct box *b, const struct ctx *ctx, struct str path, struct err *e)
{
    struct file_job j own_job = {0};
    struct file_info info = {0};

    if (file_begin(&j, b, ctx, path, e) < 0) {
        return -1;
    }
    if (file_look(&j, SFTP_LSTAT, j.path, &info, e) < 0) {
        return e->kind == ERR_NOT_FOUND ? 0 : -1;
    }
    return info.type == FILE_DIR ? remove_tree(&j, e)
                                 : file_simple(&j, SFTP_REMOVE, j.path, "remove", e);
}
