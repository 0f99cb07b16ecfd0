#include "watch/legacy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/own.h"
#include "base/path.h"
#include "config/hosts_own.h"
#include "config/settings.h"
#include "core/private.h"
#include "core/task.h"
#include "json/js.h"
#include "store/import_r.h"

#define FOLDER     "remote-sandbox-mcp"
#define DATABASE   "watchdog.sqlite3"
#define HOSTS      "config.json"
#define HOSTS_MAX  (1u << 20)
#define MARK       "remote_sandbox_mcp_watch_id"
#define STALE_S    180
#define TEXT_MAX   (1u << 20)
#define MEMORY_MAX (512u << 20)

#ifdef __APPLE__
#    define STATE_OF_HOME "Library/Application Support"
#else
#    define STATE_OF_HOME ".local/state"
#endif

struct str legacy_folder(const struct config *c, struct arena *a)
{
    struct str named = config_env("REMOTE_SANDBOX_MCP_HOME");
    struct str base = config_env("XDG_STATE_HOME");

    if (named.len > 0) {
        return str_starts(named, S("~/")) ? path_join(a, c->home, str_skip(named, 2)) : named;
    }
#ifndef __APPLE__
    if (base.len > 0) {
        return path_join(a, base, S(FOLDER));
    }
#else
    (void)base;
#endif
    return c->home.len == 0 ? STR_EMPTY : path_join(a, c->home, S(STATE_OF_HOME "/" FOLDER));
}

/* The database's path, or NULL: there is none. */
static const char *database(const struct config *c, struct arena *a)
{
    struct str folder = legacy_folder(c, a);
    struct stat st;

    if (folder.len == 0) {
        return NULL;
    }
    const char *path = arena_cstr(a, path_join(a, folder, S(DATABASE)));
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) ? path : NULL;
}

/* ---- the watches --------------------------------------------------------------------- */

/* Whoever can write it can have us run a command. */
static int check_writers(const char *path, struct err *e)
{
    struct stat st;

    if (stat(path, &st) < 0) {
        return err_sys(e, errno, "look at %s", path);
    }
    if (st.st_uid != geteuid() || (st.st_mode & 022) != 0) {
        return err_set(e, ERR_DENIED,
                       "the watches of %s are not taken over, because other users can write it: it "
                       "names commands that would run here. Close it with chmod go-w when you "
                       "know that nobody did",
                       path);
    }
    return 0;
}

static json_t *object_of(struct str text)
{
    struct err ignored;
    json_t *v = js_parse(text.p, text.len, &ignored);

    if (json_is_object(v)) {
        return v;
    }
    json_decref(v);
    return json_object();
}

static struct str dump(struct arena *a, const json_t *v)
{
    struct buf text own_buf = {0};

    buf_init(&text, TEXT_MAX);
    js_dump(v, &text);
    return text.cut ? S("{}") : arena_str(a, buf_str(&text));
}

/* As one of ours: false when its names are none that we could ask for. */
static bool adapt(struct arena *a, struct watch_row *w)
{
    struct watch_order *o = &w->order;
    json_t *metadata own_json = object_of(o->metadata);
    json_t *plan own_json = object_of(o->resume_plan);
    struct err ignored;

    if (o->session.len == 0 || o->box_name.len == 0 ||
        task_name(a, o->session, &o->session, &ignored) < 0) {
        return false;
    }
    (void)json_object_set_new(metadata, MARK, json_integer(w->id));
    o->metadata = dump(a, metadata);
    o->resume_plan = dump(a, plan);
    o->box_id = arena_printf(a, "ssh:%.*s", STR_ARG(o->box_name));
    if (!str_eq(o->checkpoint_format, S("json"))) {
        o->checkpoint_format = S("text");
    }
    return true;
}

static int take_over(const struct services *s, const char *path, struct str key, struct arena *a,
                     size_t *n, struct err *e)
{
    struct watch_row *rows;
    size_t all, k = 0;
    int rc;

    if (check_writers(path, e) < 0 || store_r_watches(path, a, &rows, &all, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < all; i++) {
        if (adapt(a, &rows[i])) {
            rows[k++] = rows[i];
        } else {
            log_line(LOG_WARN, "watch",
                     "remote-sandbox-mcp's watch %" PRId64 " has no usable names: left out",
                     rows[i].id);
        }
    }
    rc = store_import_watches(s->store, key, arena_printf(a, "{\"watches\":%zu}", k), rows, k, e);
    if (rc < 0) {
        return -1;
    }
    *n = rc > 0 ? k : 0;
    if (*n > 0) {
        log_line(LOG_INFO, "watch", "%zu watches of %s go on here", *n, path);
    }
    return 0;
}

int legacy_import(const struct services *s, size_t *n, struct err *e)
{
    struct arena a own_arena = {0};
    struct str done;
    int64_t done_s = 0;

    *n = 0;
    arena_init(&a, MEMORY_MAX);
    const char *path = database(s->config, &a);
    if (path == NULL) {
        return 0;
    }
    struct str key = arena_printf(&a, "imported:%s", path);
    if (store_get_watchdog(s->store, &a, key, &done, &done_s, e) < 0) {
        return -1;
    }
    return done_s != 0 ? 0 : take_over(s, path, key, &a, n, e);
}

/* ---- who is in charge ------------------------------------------------------------------ */

bool legacy_is_its(const struct watch_row *w)
{
    json_t *metadata own_json = object_of(w->order.metadata);

    return json_is_integer(js_get(metadata, MARK));
}

/* Written not long ago, by its times alone. */
static bool is_fresh_file(const char *path, int64_t now_s)
{
    struct stat st;

    return stat(path, &st) == 0 && now_s - st.st_mtim.tv_sec <= STALE_S;
}

bool legacy_in_charge(const struct config *c, int64_t now_s)
{
    struct arena a own_arena = {0};
    struct str text;
    struct err e;

    arena_init(&a, 16u << 20);
    const char *path = database(c, &a);
    if (path == NULL) {
        return false;
    }
    if (store_r_heartbeat(path, &a, &text, &e) < 0) {
        log_line(LOG_WARN, "watch", "%s", e.msg);
        return is_fresh_file(path, now_s);
    }
    json_t *beat own_json = object_of(text);
    const json_t *limit = js_get(beat, "stale_after_s");
    double age_s = (double)now_s - json_number_value(js_get(beat, "ts"));

    /* A time to come is a clock that was set back: nobody can be sure. */
    return age_s <= (json_is_number(limit) ? json_number_value(limit) : STALE_S);
}

/* ---- its hosts --------------------------------------------------------------------------- */

static struct host_value value_of(const json_t *v)
{
    if (json_is_integer(v)) {
        return (struct host_value){.type = HOST_NUMBER, .number = json_integer_value(v)};
    }
    if (json_is_string(v)) {
        return (struct host_value){.type = HOST_TEXT, .text = js_str(v)};
    }
    return (struct host_value){.type = json_is_null(v) ? HOST_TEXT : HOST_OTHER};
}

static bool is_there(const struct config *c, struct str name)
{
    for (size_t i = 0; i < c->n_hosts; i++) {
        if (str_eq(c->hosts[i].name, name)) {
            return true;
        }
    }
    return false;
}

static int add_host(struct config *c, json_t *entry, struct err *e)
{
    struct config_host h = {0};
    const char *key;
    json_t *v;

    json_object_foreach (entry, key, v) {
        const struct host_value value = value_of(v);

        if (host_set(&c->arena, &h, str_from(key), &value, e) < 0) {
            return -1;
        }
    }
    return is_there(c, h.name) ? 0 : host_add(c, &h, e);
}

void legacy_hosts_add(struct config *c)
{
    struct arena a own_arena = {0};
    struct err e = {0};
    struct str text;
    json_t *entry;
    size_t i;

    arena_init(&a, 16u << 20);
    struct str folder = legacy_folder(c, &a);
    int dir own_fd =
        folder.len == 0 ? -1 : open(arena_cstr(&a, folder), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) {
        return;
    }
    if (private_read(dir, HOSTS, HOSTS_MAX, &a, &text, &e) < 0) {
        if (e.kind != ERR_NOT_FOUND) {
            log_line(LOG_WARN, "watch", "remote-sandbox-mcp's hosts are not used: %s", e.msg);
        }
        return;
    }
    json_t *all own_json = object_of(text);
    json_array_foreach (js_get(all, "sandboxes"), i, entry) {
        if (add_host(c, entry, &e) < 0) {
            log_line(LOG_WARN, "watch", "entry %zu of remote-sandbox-mcp's " HOSTS ": %s", i + 1,
                     e.msg);
        }
    }
}
