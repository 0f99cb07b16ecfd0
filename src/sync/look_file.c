/*
 * look_file.c - one file instead of a folder: where it goes, and whether it is there already.
 *
 * As remote-sandbox-mcp places it: into a folder that exists, under its own name; a target with
 * '/' at its end is such a folder also when it does not exist yet; else the target is the file.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/own.h"
#include "base/path.h"
#include "sync/local.h"
#include "sync/look.h"
#include "tree/walk.h"

#define NS_PER_S 1000000000

static int check_one(const struct look *l, struct err *e)
{
    if (l->job->delete_extras) {
        return err_set(e, ERR_INVALID,
                       "delete_extras makes no sense for one file; leave it out, or sync the "
                       "folder");
    }
    return 0;
}

static struct str join(struct arena *a, struct str folder, struct str name)
{
    struct str whole = path_join(a, folder, name);

    return str_starts(whole, S("~")) ? whole : path_clean(a, whole);
}

/* The plan of one file: `name` below both roots. */
static int plan_one(struct look *l, const struct tree_entry *from, const struct tree_entry *to,
                    struct err *e)
{
    struct seq *seqs = arena_alloc(&l->arena, 2, sizeof(*seqs));
    struct plan_req req = {.from = &seqs[0], .to = &seqs[1], .checksum = l->job->checksum};
    int rc = -1;

    l->plan->is_file = true;
    seq_init(&seqs[0]);
    seq_init(&seqs[1]);
    if (exclude_match(l->patterns.exclude, from->path, false)) {
        l->plan->counts.excluded = 1;
        rc = 0;
    } else if (seq_add(&seqs[0], from, 0, e) == 0 &&
               (to == NULL || seq_add(&seqs[1], to, 0, e) == 0)) {
        rc = plan_compare(l->plan, &req, e);
    }
    seq_fini(&seqs[0]);
    seq_fini(&seqs[1]);
    return rc;
}

struct one {
    struct tree_entry entry;
    bool found;
};

static int keep_one(void *arg, const struct tree_entry *entry, struct err *e)
{
    struct one *one = arg;

    (void)e;
    if (entry->path.len == 0) {
        one->entry = *entry;
        one->entry.target = STR_EMPTY;
        one->found = true;
    }
    return 0;
}

/* ---- up ------------------------------------------------------------------------------------------ */

/* Gives false for a path where nothing is; links are followed to see a folder behind them. */
static int far_stat(struct look *l, struct str path, struct file_info *out, bool *found,
                    struct err *e)
{
    struct file_info behind = {0};
    struct err ignored;

    *found = false;
    if (box_file_stat(l->box, l->ctx, path, out, e) < 0) {
        return e->kind == ERR_NOT_FOUND ? 0 : -1;
    }
    *found = true;
    if (out->type == FILE_SYMLINK &&
        box_file_stat(l->box, l->ctx, arena_printf(&l->arena, "%.*s/.", STR_ARG(path)), &behind,
                      &ignored) == 0) {
        out->type = FILE_DIR;
    }
    return 0;
}

static int place_up(struct look *l, struct str name, struct str *target, struct file_info *there,
                    bool *found, struct err *e)
{
    if (far_stat(l, l->remote, there, found, e) < 0) {
        return -1;
    }
    if (*found && there->type != FILE_DIR && l->remote_folder) {
        return err_set(e, ERR_INVALID, "%.*s in the sandbox is a file, not a folder",
                       STR_ARG(str_head(l->remote, SHOWN_PATH)));
    }
    *target = l->remote;
    if (!(*found && there->type == FILE_DIR) && !l->remote_folder) {
        return 0;
    }
    *target = join(&l->arena, l->remote, name);
    if (far_stat(l, *target, there, found, e) < 0) {
        return -1;
    }
    if (*found && there->type == FILE_DIR) {
        return err_set(e, ERR_INVALID,
                       "%.*s in the sandbox is a folder, and %.*s a file; give another remote_path",
                       STR_ARG(str_head(*target, SHOWN_PATH)),
                       STR_ARG(str_head(l->local, SHOWN_PATH)));
    }
    return 0;
}

static int far_entry(struct look *l, struct str target, const struct file_info *there,
                     struct one *out, struct err *e)
{
    struct tree_req req = {.root = target, .sums = true};
    struct tree_facts facts;

    out->found = true;
    out->entry = (struct tree_entry){
        .type = there->type == FILE_REGULAR ? TREE_FILE : TREE_OTHER,
        .mode = there->mode & 0777,
        .size = there->type == FILE_REGULAR ? (uint64_t)there->size : 0,
        .mtime_ns = there->mtime_s * NS_PER_S,
    };
    if (there->type != FILE_REGULAR || !l->job->checksum) {
        return 0;
    }
    out->found = false;
    return box_tree_list(l->box, l->ctx, &req, keep_one, out, &facts, e);
}

static int near_entry(const struct look *l, int fd, struct one *out, struct err *e)
{
    struct walk_req req = {.root_fd = fd, .sums = l->job->checksum};

    out->found = false;
    return tree_walk(&req, keep_one, out, e);
}

int look_file_up(struct look *l, int fd, struct err *e)
{
    struct sync_plan *p = l->plan;
    struct one from = {0};
    struct one to = {0};
    struct file_info there = {0};
    struct str target = STR_EMPTY;
    bool found = false;

    if (check_one(l, e) < 0 || place_up(l, path_base(l->local), &target, &there, &found, e) < 0 ||
        near_entry(l, fd, &from, e) < 0 || (found && far_entry(l, target, &there, &to, e) < 0)) {
        return -1;
    }
    p->local = arena_str(&p->arena, l->local);
    p->remote = arena_str(&p->arena, target);
    p->local_root = arena_str(&p->arena, path_dir(l->local));
    p->local_name = arena_str(&p->arena, path_base(l->local));
    p->remote_root = arena_str(&p->arena, path_dir(target));
    from.entry.path = to.entry.path = arena_str(&p->arena, path_base(target));
    return plan_one(l, &from.entry, to.found ? &to.entry : NULL, e);
}

/* ---- down ------------------------------------------------------------------------------------------ */

static int place_down(struct look *l, struct str name, struct str *target, struct stat *st,
                      bool *found, struct err *e)
{
    *target = l->local;
    *found = lstat(arena_cstr(&l->arena, l->local), st) == 0;
    if (!*found && errno != ENOENT) {
        return err_sys(e, errno, "local_path %.*s", STR_ARG(str_head(l->local, SHOWN_PATH)));
    }
    if (*found && !S_ISDIR(st->st_mode) && l->local_folder) {
        return err_set(e, ERR_INVALID, "local_path %.*s is a file, not a folder",
                       STR_ARG(str_head(l->local, SHOWN_PATH)));
    }
    if (!(*found && S_ISDIR(st->st_mode)) && !l->local_folder) {
        return 0;
    }
    *target = join(&l->arena, l->local, name);
    *found = lstat(arena_cstr(&l->arena, *target), st) == 0;
    if (*found && S_ISDIR(st->st_mode)) {
        return err_set(e, ERR_INVALID,
                       "%.*s is a folder, and %.*s in the sandbox a file; give another local_path",
                       STR_ARG(str_head(*target, SHOWN_PATH)),
                       STR_ARG(str_head(l->remote, SHOWN_PATH)));
    }
    return 0;
}

/* A target that cannot be read is one that differs. */
static void near_target(const struct look *l, struct str target, const struct stat *st,
                        struct one *out)
{
    int fd own_fd = -1;
    struct arena a own_arena = {0};
    struct err ignored;

    out->entry = (struct tree_entry){0};
    tree_entry_from(&out->entry, st);
    out->found = true;
    if (!S_ISREG(st->st_mode) || !l->job->checksum) {
        return;
    }
    arena_init(&a, (size_t)2 * TREE_PATH_MAX);
    fd = local_open(arena_cstr(&a, target), O_RDONLY | O_NONBLOCK);
    if (fd >= 0) {
        (void)!near_entry(l, fd, out, &ignored);
    }
}

int look_file_down(struct look *l, const struct tree_facts *facts, const struct tree_entry *entry,
                   struct err *e)
{
    struct sync_plan *p = l->plan;
    struct tree_entry from = *entry;
    struct one to = {0};
    struct stat st;
    struct str target;
    bool found;

    if (check_one(l, e) < 0 || place_down(l, path_base(l->remote), &target, &st, &found, e) < 0) {
        return -1;
    }
    if (found) {
        near_target(l, target, &st, &to);
    }
    p->local = arena_str(&p->arena, target);
    p->remote = arena_str(&p->arena, l->remote);
    p->local_root = arena_str(&p->arena, path_dir(target));
    p->remote_root = arena_str(&p->arena, path_dir(facts->real));
    p->remote_name = arena_str(&p->arena, path_base(facts->real));
    from.path = to.entry.path = arena_str(&p->arena, path_base(target));
    return plan_one(l, &from, to.found ? &to.entry : NULL, e);
}
