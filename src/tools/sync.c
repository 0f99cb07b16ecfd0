#include "tools/sync.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "tools/confirm.h"
#include "tools/files.h"
#include "tools/local_path.h"
#include "tools/transfer.h"

#define EXCLUDE_FILE_MAX (1u << 20)
#define LINES_MAX        10000
#define TELL_EVERY_MS    500
#define MIB              1048576.0

const char *const sync_styles[] = {"git", "legacy", NULL};

/* ---- what is wanted ------------------------------------------------------------------------- */

struct lines {
    struct str *items;
    size_t n;
};

static int add_line(struct lines *l, struct str line, struct err *e)
{
    if (l->n == LINES_MAX) {
        return err_set(e, ERR_LIMIT, "there are more than %d exclude patterns", LINES_MAX);
    }
    l->items[l->n++] = line;
    return 0;
}

static int add_file(struct call *c, struct str typed, struct lines *l, bool *later, struct err *e)
{
    struct str path;
    struct str text;
    struct stat st;

    if (local_path(c, typed, &path, later, e) < 0) {
        return err_wrap(e, "exclude_file");
    }
    if (*later) {
        return 0;
    }
    if (stat(arena_cstr(c->ctx->arena, path), &st) == 0 && !S_ISREG(st.st_mode)) {
        return err_set(e, ERR_INVALID, "exclude_file %.*s is not a file",
                       STR_ARG(str_head(path, 256)));
    }
    if (fd_read_file(AT_FDCWD, arena_cstr(c->ctx->arena, path), EXCLUDE_FILE_MAX, c->ctx->arena,
                     &text, e) < 0) {
        return err_wrap(e, "exclude_file");
    }
    while (text.len > 0) {
        struct str line = str_cut(text, '\n', &text);

        line = str_ends(line, S("\r")) ? str_head(line, line.len - 1) : line;
        if (add_line(l, line, e) < 0) {
            return -1;
        }
    }
    return 0;
}

static int read_excludes(struct call *c, const struct sync_args *args, struct sync_job *job,
                         bool *later, struct err *e)
{
    struct lines l = {.items = arena_alloc(c->ctx->arena, LINES_MAX, sizeof(struct str))};

    if (str_trim(args->exclude_file).len > 0 &&
        (add_file(c, args->exclude_file, &l, later, e) < 0 || *later)) {
        return *later ? 0 : -1;
    }
    for (size_t i = 0; i < args->excludes.n; i++) {
        if (add_line(&l, args->excludes.items[i], e) < 0) {
            return -1;
        }
    }
    job->excludes = l.items;
    job->n_excludes = l.n;
    return 0;
}

/* With its '/' at the end, which means a folder. */
static struct str remote_path(struct call *c, struct str typed)
{
    struct arena *a = c->ctx->arena;
    struct str path = str_trim(typed);
    struct str clean = files_path(a, path);
    bool folder = str_ends(path, S("/")) && !str_eq(clean, S("/"));

    return folder ? arena_printf(a, "%.*s/", STR_ARG(clean)) : clean;
}

int sync_prepare(struct call *c, const struct sync_args *args, enum sync_direction direction,
                 struct sync_job *job, bool *later, struct err *e)
{
    *job = (struct sync_job){
        .direction = direction,
        .remote = remote_path(c, args->remote_path),
        .delete_extras = args->delete_extras,
        .checksum = args->checksum,
        .gitignore = args->respect_gitignore,
        .legacy_style = str_eq(args->exclude_style, S("legacy")),
        .home = c->services->config->home,
        .state_dir = c->services->config->state_dir,
    };
    if (local_path(c, args->local_path, &job->local, later, e) < 0 || *later) {
        return *later ? 0 : -1;
    }
    return read_excludes(c, args, job, later, e);
}

/* ---- on the box -------------------------------------------------------------------------------- */

struct syncing {
    struct call *call;
    const struct sync_args *args;
    struct sync_job job;
    bool one_file;   /* and in this call */
    bool background; /* whatever its size */
    json_t *out;
    int64_t started_ms, tell_ms;
};

static bool is_large(const struct call *c, const struct sync_counts *n)
{
    const struct config *config = c->services->config;

    return (int64_t)(n->files + n->links) > config->sync_inline_files ||
           (int64_t)n->bytes > config->sync_inline_bytes;
}

static int tell(void *arg, const struct sync_progress *now, struct err *e)
{
    struct syncing *s = arg;
    struct call *c = s->call;
    char text[512];
    int n;

    if (ctx_check(c->ctx, e) < 0) {
        return -1;
    }
    if (c->progress == NULL || clock_mono_ms() < s->tell_ms) {
        return 0;
    }
    s->tell_ms = clock_mono_ms() + TELL_EVERY_MS;
    n = now->phase == SYNC_PHASE_DELETE
            ? snprintf(text, sizeof(text), "deleting what is too much")
            : snprintf(text, sizeof(text), "%llu of %llu files, %.1f of %.1f MiB: %.*s",
                       (unsigned long long)now->files, (unsigned long long)now->files_total,
                       (double)now->bytes / MIB, (double)now->bytes_total / MIB,
                       STR_ARG(str_head(now->path, 200)));
    c->progress(c, (struct str){text, n > 0 ? (size_t)n : 0});
    return 0;
}

static json_t *not_confirmed(const struct sync_plan *p, enum confirmed confirmed)
{
    const struct sync_counts *n = sync_plan_counts(p);
    json_t *o = json_object();

    (void)json_object_set_new(o, "status", json_string("not_synced"));
    (void)json_object_set_new(o, "delete_files", json_integer((json_int_t)n->delete_files));
    (void)json_object_set_new(o, "delete_dirs", json_integer((json_int_t)n->delete_dirs));
    (void)json_object_set_new(
        o, "reason",
        json_string(confirmed == CONFIRM_NO
                        ? "the user declined; nothing was changed"
                        : "nobody confirmed the deletions, so nothing was changed; look with "
                          "dry_run, then leave delete_extras out, or ask the user and call again "
                          "with force: true"));
    return o;
}

/* A person says yes before something is deleted, where the client can ask one. */
static int ask_first(struct syncing *s, const struct sync_plan *p, struct str id,
                     enum confirmed *confirmed, struct err *e)
{
    const struct sync_counts *n = sync_plan_counts(p);
    struct call *c = s->call;
    bool up = s->job.direction == SYNC_UP;
    struct str where = str_head(up ? sync_plan_remote(p) : sync_plan_local(p), 300);
    struct str about;
    struct str message;

    *confirmed = CONFIRM_YES;
    if (n->delete_files + n->delete_dirs == 0 || (c->can & CAN_FORM) == 0 || s->args->force) {
        return 0;
    }
    about = arena_printf(c->ctx->arena, "%.*s %.*s %llu %llu", STR_ARG(id), STR_ARG(where),
                         (unsigned long long)n->delete_files, (unsigned long long)n->delete_dirs);
    message = arena_printf(
        c->ctx->arena,
        "Delete %llu file%s and %llu folder%s in %.*s %s? They are not in the source of this sync.",
        (unsigned long long)n->delete_files, n->delete_files == 1 ? "" : "s",
        (unsigned long long)n->delete_dirs, n->delete_dirs == 1 ? "" : "s", STR_ARG(where),
        up ? "in the sandbox" : "on this machine");
    return confirm_ask(c, about, message, "Delete them", confirmed, e);
}

static int hand_over(struct syncing *s, const struct sync_plan *p, struct str id, struct err *e)
{
    struct call *c = s->call;
    const struct sync_counts *n = sync_plan_counts(p);
    struct transfer_order order = {
        .box_id = id, .box_name = s->args->box.name, .job = &s->job, .counts = n};
    struct transfer_started started = {0};

    if (transfer_start(c->services, c->ctx, c->scope, &order, &started, e) < 0) {
        return -1;
    }
    s->out = transfer_answer(&started, !s->background);
    (void)json_object_set_new(s->out, "files",
                              json_integer((json_int_t)n->files + (json_int_t)n->links));
    (void)json_object_set_new(s->out, "bytes", json_integer((json_int_t)n->bytes));
    return 0;
}

static int apply_now(struct syncing *s, struct sync_plan *p, struct box *b, struct err *e)
{
    struct call *c = s->call;
    struct sync_result result = {0};
    const struct sync_counts *n = sync_plan_counts(p);
    const struct sync_counts *done = &result.done;

    if (sync_apply(p, b, c->ctx, tell, s, &result, e) < 0) {
        uint64_t changes = done->files + done->links + done->dirs + done->delete_files;

        if (e->kind == ERR_GONE && changes > 0) {
            e->kind = ERR_UNREACHABLE; /* not to be done again elsewhere by itself */
        }
        return err_wrap(e,
                        "the sync ended after %llu of %llu files; what arrived is whole, and the "
                        "same call goes on from there",
                        (unsigned long long)done->files + done->links,
                        (unsigned long long)n->files + n->links);
    }
    s->out = sync_answer_done(p, &s->job, &result, clock_mono_ms() - s->started_ms);
    return 0;
}

static int carry_out(struct syncing *s, struct sync_plan *p, struct box *b, struct str id,
                     struct err *e)
{
    enum confirmed confirmed;
    json_t *warnings own_json = NULL;

    if (s->args->dry_run) {
        s->out = sync_answer_plan(p, &s->job, is_large(s->call, sync_plan_counts(p)));
    } else {
        if (ask_first(s, p, id, &confirmed, e) < 0) {
            return -1;
        }
        if (confirmed != CONFIRM_YES) {
            s->out = confirmed == CONFIRM_LATER ? NULL : not_confirmed(p, confirmed);
            return 0;
        }
        bool large = s->background || (!s->one_file && is_large(s->call, sync_plan_counts(p)));

        if ((large ? hand_over(s, p, id, e) : apply_now(s, p, b, e)) < 0) {
            return -1;
        }
    }
    warnings = s->job.direction == SYNC_DOWN ? sync_answer_warnings(p) : NULL;
    if (warnings != NULL) {
        (void)json_object_set(s->out, "warnings", warnings);
    }
    return 0;
}

static int sync_box(void *arg, struct call *c, struct box *b, struct str id, struct err *e)
{
    struct syncing *s = arg;
    struct sync_plan *p;
    int rc;

    if (c->progress != NULL) {
        c->progress(c, S("comparing both sides"));
    }
    p = sync_look(b, c->ctx, &s->job, e);
    if (p == NULL) {
        return -1;
    }
    if (s->one_file && !sync_plan_is_file(p)) {
        rc = err_set(e, ERR_INVALID,
                     "%.*s is a folder, not a file; sync_local_to_remote takes folders",
                     STR_ARG(str_head(s->job.local, 256)));
    } else {
        rc = carry_out(s, p, b, id, e);
    }
    sync_plan_free(p);
    return rc;
}

static int sync_any(struct syncing *s, enum sync_direction direction, json_t **out, struct err *e)
{
    struct call *c = s->call;
    struct str note = STR_EMPTY;
    bool later = false;

    s->started_ms = clock_mono_ms();
    if (sync_prepare(c, s->args, direction, &s->job, &later, e) < 0) {
        return -1;
    }
    if (later) {
        return 0;
    }
    if (answer_with_box(c, &s->args->box, direction == SYNC_UP, sync_box, s, &note, e) < 0) {
        return -1;
    }
    if (s->out != NULL) {
        answer_str_if(s->out, "note", note);
        *out = s->out;
    }
    return 0;
}

int sync_tool(struct call *c, const struct sync_args *args, enum sync_direction direction,
              json_t **out, struct err *e)
{
    struct syncing s = {.call = c, .args = args};

    return sync_any(&s, direction, out, e);
}

int sync_file_up(struct call *c, const struct sync_args *args, json_t **out, struct err *e)
{
    struct syncing s = {.call = c, .args = args, .one_file = true};

    return sync_any(&s, SYNC_UP, out, e);
}

int sync_in_background(struct call *c, const struct sync_args *args, json_t **out, struct err *e)
{
    struct syncing s = {.call = c, .args = args, .background = true};

    return sync_any(&s, SYNC_UP, out, e);
}
