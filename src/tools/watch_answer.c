#include "tools/watch_answer.h"

#include <inttypes.h>
#include <string.h>

#include "tools/task_answer.h"
#include "watch/daemon.h"
#include "watch/hosts.h"
#include "watch/legacy.h"
#include "watch/service.h"
#include "watch/state.h"

/* ---- making one -------------------------------------------------------------------- */

/* What runs on this machine is for who sits at it: a client of the network may not name it. */
static int check_transport(const struct call *c, const struct watch_args *a, struct err *e)
{
    bool is_remote = c->transport != NULL && strcmp(c->transport, "http") == 0;

    if (is_remote && (a->event_command.len > 0 || a->codex_wakeup || a->webhook_url.len > 0)) {
        return err_set(e, ERR_DENIED,
                       "event_command, codex_wakeup and webhook_url act on the server's own "
                       "machine, so only a client on stdio may name them; over HTTP look with "
                       "list_background_watch_events");
    }
    return 0;
}

int watch_check(struct call *c, const struct watch_args *a, struct str session, struct str cwd,
                struct watch_order *out, struct err *e)
{
    const struct watch_ask ask = {
        .run_id = a->run_id,
        .name = a->name,
        .session = session,
        .cwd = cwd,
        .launch_command = a->launch_command,
        .resume_command = a->resume_command,
        .resume_plan_json = str_trim(a->resume_plan_json),
        .metadata_json = str_trim(a->metadata_json),
        .checkpoint_path = a->checkpoint_path,
        .checkpoint_format = a->checkpoint_format,
        .checkpoint_command = a->checkpoint_command,
        .webhook_url = str_trim(a->webhook_url),
        .event_command = a->event_command,
        .codex_command = a->codex_command,
        .interval_s = a->interval_s,
        .max_log_lines = a->max_log_lines,
        .alert_after_failures = a->alert_after_failures,
        .resume_delay_s = a->resume_delay_s,
        .max_resume_attempts = a->max_resume_attempts,
        .auto_resume = a->auto_resume,
        .notify_local = a->notify_local,
        .codex_wakeup = a->codex_wakeup,
    };

    if (check_transport(c, a, e) < 0) {
        return -1;
    }
    return watch_order_make(c->ctx->arena, &ask, out, e);
}

int watch_reachable(struct call *c, struct str box_id, bool persist, struct err *e)
{
    struct str name = answer_box_name(box_id);

    if (!str_starts(box_id, S("ssh:")) || !watch_hosts_needed(c->services->config, name)) {
        return 0;
    }
    if (persist) {
        return watch_hosts_keep(c->services->config, name, e);
    }
    if (watch_hosts_kept(c->services->config, name)) {
        return 0;
    }
    return err_set(e, ERR_DENIED,
                   "\"%.*s\" cannot be watched: only this client's environment names it, and "
                   "persist_current_sandboxes=false forbids to keep it for the watchdog. Configure "
                   "the host in [[ssh]], or leave that argument out, or start with watch=false",
                   STR_ARG(name));
}

void watch_take_over(struct call *c)
{
    bool started;
    struct err e;
    size_t n = 0;

    if (c->scope->owner.len > 0) {
        return;
    }
    if (legacy_import(c->services, &n, &e) < 0 ||
        (n > 0 && watchdog_ensure(c->services, c->ctx, &started, &e) < 0)) {
        log_line(LOG_WARN, "watch", "%s", e.msg);
    }
}

int watch_add(struct call *c, const struct watch_args *args, struct watch_order *order,
              struct str task_run, json_t *out, struct err *e)
{
    bool started = false;
    struct err why = {0};
    int64_t id;

    order->owner = c->scope->owner;
    if (store_add_watch(c->services->store, order, task_run, &id, e) < 0) {
        return -1;
    }
    (void)json_object_set_new(out, "watch_id", json_integer(id));
    if (args->ensure_watchdog && watchdog_ensure(c->services, c->ctx, &started, &why) < 0) {
        (void)json_object_set_new(out, "watchdog_setup",
                                  json_pack("{s:o}", "warning", js_string(str_from(why.msg))));
    } else if (started) {
        (void)json_object_set_new(out, "watchdog_setup", json_pack("{s:b}", "started", 1));
    }
    return 0;
}

int watch_get(struct call *c, int64_t id, struct watch_row *out, struct err *e)
{
    watch_take_over(c);
    return store_get_watch(c->services->store, c->ctx->arena, &c->scope->owner, id, out, e);
}

/* ---- answers ----------------------------------------------------------------------- */

static json_t *parsed(struct str text)
{
    struct err ignored;
    json_t *v = js_parse(text.p, text.len, &ignored);

    return v == NULL ? json_null() : v;
}

static void set_int(json_t *o, const char *key, int64_t v)
{
    (void)json_object_set_new(o, key, json_integer(v));
}

static void set_bool(json_t *o, const char *key, bool v)
{
    (void)json_object_set_new(o, key, json_boolean(v));
}

static void put_order(json_t *o, const struct watch_order *w)
{
    answer_str(o, "run_id", w->run_id);
    answer_str(o, "name", w->name);
    answer_str(o, "sandbox_name", w->box_name);
    answer_str(o, "sandbox_id", w->box_id);
    answer_str(o, "tmux_session", w->session);
    answer_str(o, "log_file", w->log_file);
    answer_str(o, "cwd", w->cwd);
    answer_str(o, "launch_command", w->launch_command);
    answer_str(o, "resume_command", w->resume_command);
    (void)json_object_set_new(o, "resume_plan", parsed(w->resume_plan));
    answer_str(o, "checkpoint_path", w->checkpoint_path);
    answer_str(o, "checkpoint_format", w->checkpoint_format);
    answer_str(o, "checkpoint_command", w->checkpoint_command);
    set_int(o, "interval_s", w->interval_s);
    set_int(o, "max_log_lines", w->max_log_lines);
    answer_str(o, "webhook_url", w->webhook_url);
    answer_str(o, "event_command", w->event_command);
    set_bool(o, "auto_resume", w->auto_resume);
    set_int(o, "max_resume_attempts", w->max_resume_attempts);
    set_int(o, "alert_after_failures", w->alert_after_failures);
    set_bool(o, "notify_local", w->notify_local);
    set_int(o, "resume_delay_s", w->resume_delay_s);
    (void)json_object_set_new(o, "metadata", parsed(w->metadata));
}

static void put_memory(json_t *o, const struct watch_memory *m)
{
    answer_str(o, "status", str_from(watch_status_name(m->status)));
    answer_str(o, "last_state", str_from(watch_state_name(m->state)));
    (void)json_object_set_new(o, "last_exit_code",
                              m->has_exit_code ? json_integer(m->exit_code) : json_null());
    set_int(o, "resume_attempts", m->resume_attempts);
    set_int(o, "consecutive_ssh_failures", m->failures);
    set_bool(o, "ssh_alert_sent", m->alert_sent);
    set_int(o, "interrupted_ts", m->interrupted_s);
    set_int(o, "resume_due_ts", m->resume_due_s);
    set_int(o, "last_checked_ts", m->last_checked_s);
    set_int(o, "next_check_ts", m->next_check_s);
}

json_t *watch_answer(const struct watch_row *w)
{
    json_t *o = json_object();

    set_int(o, "id", w->id);
    put_order(o, &w->order);
    put_memory(o, &w->memory);
    answer_str(o, "last_summary", w->words.summary);
    answer_str(o, "last_error", w->words.error);
    answer_str(o, "last_log_tail", w->words.log_tail);
    answer_str(o, "last_checkpoint_text", w->words.checkpoint_text);
    set_int(o, "checkpoint_updated_ts", w->checkpoint_s);
    set_int(o, "created_ts", w->created_s);
    set_int(o, "updated_ts", w->updated_s);
    set_int(o, "last_event_ts", w->last_event_s);
    return o;
}

json_t *watch_checkpoint(const struct watch_row *w, struct str text)
{
    json_t *o = json_object();

    answer_str(o, "raw", text);
    answer_str(o, "format", w->order.checkpoint_format);
    (void)json_object_set_new(
        o, "parsed",
        str_eq(w->order.checkpoint_format, S("json")) && text.len > 0 ? parsed(text) : json_null());
    return o;
}

static json_t *counts_of(struct call *c, struct err *e)
{
    int64_t counts[WATCH_STATUSES];
    json_t *o;

    if (store_count_watches(c->services->store, &c->scope->owner, counts, e) < 0) {
        return NULL;
    }
    o = json_object();
    for (unsigned i = 0; i < WATCH_STATUSES; i++) {
        if (i <= WATCH_CANCELLED || counts[i] > 0) {
            set_int(o, watch_status_name((enum watch_status)i), counts[i]);
        }
    }
    return o;
}

json_t *watchdog_answer(struct call *c, struct err *e)
{
    const struct config *config = c->services->config;
    struct watchdog_state state;
    struct service_state service;
    struct err ignored;
    json_t *counts = counts_of(c, e);
    json_t *o, *part;

    if (counts == NULL || watchdog_look(c->services, c->ctx->arena, &state, e) < 0) {
        json_decref(counts);
        return NULL;
    }
    o = json_object();
    part = json_object();
    answer_str(part, "config_path", config->file);
    answer_str(part, "db_path",
               arena_printf(c->ctx->arena, "%.*s/anybox.db", STR_ARG(config->state_dir)));
    (void)json_object_set_new(o, "paths", part);
    set_bool(o, "running", state.running);
    (void)json_object_set_new(o, "pid", state.pid > 0 ? json_integer(state.pid) : json_null());
    (void)json_object_set_new(o, "heartbeat",
                              state.heartbeat.len > 0 ? parsed(state.heartbeat) : json_null());
    set_bool(o, "heartbeat_stale", state.stale);
    if (service_look(c->ctx, &service, &ignored) == 0) {
        part = json_object();
        answer_str(part, "manager", str_from(service.manager));
        answer_str(part, "file", service.file);
        set_bool(part, "installed", service.installed);
        set_bool(part, "loaded", service.running);
        (void)json_object_set_new(o, "service", part);
    }
    (void)json_object_set_new(o, "watch_counts", counts);
    return o;
}
