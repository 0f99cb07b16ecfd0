/* sync_answer.c - plans and results as JSON, with the names that remote-sandbox-mcp has. */
#include "base/path.h"
#include "sync/danger.h"
#include "tools/sync.h"

#define ENTRIES_MAX  100 /* of a dry run */
#define DELETED_MAX  20  /* names */
#define WARNINGS_MAX 50
#define PATH_MAX_    8192

static void put_count(json_t *o, const char *key, uint64_t n)
{
    (void)json_object_set_new(o, key, json_integer((json_int_t)n));
}

static void put_count_if(json_t *o, const char *key, uint64_t n)
{
    if (n > 0) {
        put_count(o, key, n);
    }
}

static json_t *begin(const struct sync_plan *p, const struct sync_job *job, const char *mode)
{
    json_t *o = json_object();

    (void)json_object_set_new(o, "mode", json_string(mode));
    if (job->direction == SYNC_UP) {
        answer_str(o, "local_path", sync_plan_local(p));
        answer_str(o, "remote_path", sync_plan_remote(p));
    } else {
        answer_str(o, "remote_path", sync_plan_remote(p));
        answer_str(o, "local_path", sync_plan_local(p));
    }
    (void)json_object_set_new(o, "synced_type",
                              json_string(sync_plan_is_file(p) ? "file" : "directory"));
    return o;
}

/* What was left out of either. */
static void add_left_out(json_t *o, const struct sync_plan *p)
{
    const struct sync_counts *c = sync_plan_counts(p);

    put_count_if(o, "excluded", c->excluded);
    put_count_if(o, "special_files", c->special);
    put_count_if(o, "unreadable", c->unreadable);
    answer_str_if(o, "first_unreadable", sync_plan_unreadable(p));
    answer_str_if(o, "delete_note", sync_plan_held(p));
}

/* ---- a dry run --------------------------------------------------------------------------- */

struct listing {
    json_t *entries;
    uint64_t changed;
    uint64_t more;
};

static const char *action_word(enum sync_action action)
{
    switch (action) {
    case SYNC_MAKE_DIR: return "make_dir";
    case SYNC_SEND_NEW: return "new";
    case SYNC_SEND_CHANGED: return "changed";
    case SYNC_SET_META: return "metadata";
    case SYNC_DELETE: return "delete";
    }
    return "";
}

static int add_entry(void *arg, enum sync_action action, const struct tree_entry *entry,
                     struct err *e)
{
    struct listing *l = arg;
    json_t *o;

    (void)e;
    l->changed += action == SYNC_SEND_CHANGED ? 1 : 0;
    if (json_array_size(l->entries) >= ENTRIES_MAX) {
        l->more++;
        return 0;
    }
    o = json_object();
    (void)json_object_set_new(o, "action", json_string(action_word(action)));
    answer_str(o, "path", entry->path.len > 0 ? entry->path : S("."));
    if (entry->type == TREE_FILE && action != SYNC_DELETE && action != SYNC_SET_META) {
        put_count(o, "size", entry->size);
    }
    (void)json_array_append_new(l->entries, o);
    return 0;
}

json_t *sync_answer_plan(const struct sync_plan *p, const struct sync_job *job, bool background)
{
    const struct sync_counts *c = sync_plan_counts(p);
    json_t *o = begin(p, job, "dry_run");
    struct listing l = {.entries = json_array()};
    struct err never;

    (void)!sync_plan_each(p, add_entry, &l, &never);
    put_count(o, "new_dirs", c->dirs);
    put_count(o, "new_files", c->files + c->links - l.changed);
    put_count(o, "changed_files", l.changed);
    put_count(o, "metadata_changes", c->metadata);
    put_count(o, "skipped_files", c->unchanged);
    put_count(o, "delete_dirs", c->delete_dirs);
    put_count(o, "delete_files", c->delete_files);
    put_count(o, "bytes", c->bytes);
    (void)json_object_set_new(o, "would_run",
                              json_string(background ? "in the background" : "inline"));
    (void)json_object_set_new(o, "entries", l.entries);
    put_count_if(o, "more_entries", l.more);
    add_left_out(o, p);
    return o;
}

/* ---- what was done ------------------------------------------------------------------------- */

static int add_deleted(void *arg, enum sync_action action, const struct tree_entry *entry,
                       struct err *e)
{
    (void)e;
    if (action == SYNC_DELETE && json_array_size(arg) < DELETED_MAX) {
        (void)json_array_append_new(arg, js_string(entry->path));
    }
    return 0;
}

static void add_removed(json_t *o, const struct sync_plan *p, const struct sync_result *r)
{
    json_t *names = json_array();
    struct err never;

    put_count(o, "deleted_dirs", r->done.delete_dirs);
    put_count(o, "deleted_files", r->done.delete_files);
    (void)!sync_plan_each(p, add_deleted, names, &never);
    if (json_array_size(names) > 0) {
        (void)json_object_set(o, "deleted", names);
    }
    json_decref(names);
}

json_t *sync_answer_done(const struct sync_plan *p, const struct sync_job *job,
                         const struct sync_result *r, int64_t ms)
{
    bool up = job->direction == SYNC_UP;
    json_t *o = begin(p, job, "inline");

    put_count(o, up ? "uploaded_dirs" : "created_dirs", r->done.dirs);
    put_count(o, up ? "uploaded_files" : "downloaded_files", r->done.files + r->done.links);
    put_count(o, "skipped_files", r->done.unchanged);
    put_count(o, "bytes", r->done.bytes);
    put_count_if(o, "metadata_changes", r->done.metadata);
    if (up || job->delete_extras) {
        add_removed(o, p, r);
        (void)json_object_set_new(o, "delete_extras", json_boolean(job->delete_extras));
    }
    put_count_if(o, "failed_files", r->failed);
    answer_str_if(o, "first_failure", r->first_failed);
    add_left_out(o, p);
    (void)json_object_set_new(o, "duration_s", answer_seconds(ms));
    return o;
}

/* ---- what should be looked at before it is used --------------------------------------------- */

struct warnings {
    const struct sync_plan *plan;
    json_t *list;
    uint64_t more;
};

static const char *warning_for(const struct warnings *w, const struct tree_entry *entry)
{
    char whole[PATH_MAX_];
    struct str root = sync_plan_local(w->plan);
    int n = sync_plan_is_file(w->plan)
                ? snprintf(whole, sizeof(whole), "%.*s", STR_ARG(root))
                : snprintf(whole, sizeof(whole), "%.*s/%.*s", STR_ARG(root), STR_ARG(entry->path));
    const char *why = n > 0 && (size_t)n < sizeof(whole) ? danger_of(str_from(whole)) : NULL;

    if (why == NULL && entry->type == TREE_LINK && danger_leads_out(entry->path, entry->target)) {
        return "it is a link that leads out of the folder";
    }
    return why;
}

static int add_warning(void *arg, enum sync_action action, const struct tree_entry *entry,
                       struct err *e)
{
    struct warnings *w = arg;
    const char *why;
    json_t *o;

    (void)e;
    if ((action != SYNC_SEND_NEW && action != SYNC_SEND_CHANGED) ||
        (entry->type != TREE_FILE && entry->type != TREE_LINK)) {
        return 0;
    }
    why = warning_for(w, entry);
    if (why == NULL) {
        return 0;
    }
    if (json_array_size(w->list) >= WARNINGS_MAX) {
        w->more++;
        return 0;
    }
    o = json_object();
    answer_str(o, "path", entry->path);
    (void)json_object_set_new(o, "why", json_string(why));
    (void)json_array_append_new(w->list, o);
    return 0;
}

json_t *sync_answer_warnings(const struct sync_plan *p)
{
    struct warnings w = {.plan = p, .list = json_array()};
    struct err never;

    (void)!sync_plan_each(p, add_warning, &w, &never);
    if (w.more > 0) {
        (void)json_array_append_new(w.list,
                                    json_pack("{s:I, s:s}", "more", (json_int_t)w.more, "why",
                                              "files of these kinds that are not listed here"));
    }
    if (json_array_size(w.list) == 0) {
        json_decref(w.list);
        return NULL;
    }
    return w.list;
}
