#include "watch/order.h"

#include <inttypes.h>

#include "json/js.h"

#define NUMBER_MAX (366ll * 24 * 3600)

static int check_number(const char *name, int64_t v, int64_t least, struct err *e)
{
    if (v >= least && v <= NUMBER_MAX) {
        return 0;
    }
    return err_set(e, ERR_INVALID, "%s must be from %" PRId64 " to %lld, not %" PRId64, name, least,
                   NUMBER_MAX, v);
}

static int check_numbers(const struct watch_ask *ask, struct err *e)
{
    if (check_number("interval_s", ask->interval_s, 1, e) < 0 ||
        check_number("max_log_lines", ask->max_log_lines, 1, e) < 0 ||
        check_number("max_resume_attempts", ask->max_resume_attempts, 0, e) < 0 ||
        check_number("alert_after_failures", ask->alert_after_failures, 1, e) < 0) {
        return -1;
    }
    return check_number("resume_delay_s", ask->resume_delay_s, 0, e);
}

static int check_texts(const struct watch_ask *ask, struct err *e)
{
    const struct {
        const char *name;
        struct str text;
    } texts[] = {
        {"run_id", ask->run_id},
        {"watch_name", ask->name},
        {"command", ask->launch_command},
        {"resume_command", ask->resume_command},
        {"resume_plan_json", ask->resume_plan_json},
        {"metadata_json", ask->metadata_json},
        {"checkpoint_path", ask->checkpoint_path},
        {"checkpoint_command", ask->checkpoint_command},
        {"webhook_url", ask->webhook_url},
        {"event_command", ask->event_command},
        {"codex_command", ask->codex_command},
    };

    for (size_t i = 0; i < COUNTOF(texts); i++) {
        if (texts[i].text.len > WATCH_TEXT_MAX) {
            return err_set(e, ERR_INVALID, "%s has %zu bytes; a watch keeps at most %u",
                           texts[i].name, texts[i].text.len, WATCH_TEXT_MAX);
        }
        if (memchr(texts[i].text.p ? texts[i].text.p : "", '\0', texts[i].text.len) != NULL) {
            return err_set(e, ERR_INVALID, "%s has a NUL byte in it", texts[i].name);
        }
    }
    return 0;
}

static bool is_format(struct str f)
{
    return str_eq(f, S("text")) || str_eq(f, S("json"));
}

static int check_url(struct str url, struct err *e)
{
    if (url.len == 0) {
        return 0;
    }
    if (!str_starts(url, S("http://")) && !str_starts(url, S("https://"))) {
        return err_set(e, ERR_INVALID,
                       "webhook_url must begin with http:// or https://, as in "
                       "https://example.org/hook");
    }
    for (size_t i = 0; i < url.len; i++) {
        if ((unsigned char)url.p[i] <= ' ' || url.p[i] == 0x7f) {
            return err_set(e, ERR_INVALID,
                           "webhook_url has a space or a control character at position %zu", i + 1);
        }
    }
    return 0;
}

/* An object, an empty one where nothing was given. */
static json_t *parse_object(const char *name, struct str text, struct err *e)
{
    json_t *v;

    if (text.len == 0) {
        return json_object();
    }
    v = js_parse(text.p, text.len, e);
    if (v == NULL) {
        (void)err_wrap(e, "%s is not JSON", name);
        return NULL;
    }
    if (!json_is_object(v)) {
        json_decref(v);
        (void)err_set(e, ERR_INVALID, "%s must be a JSON object, as in {\"key\": \"value\"}", name);
        return NULL;
    }
    return v;
}

static struct str dump(struct arena *a, const json_t *v)
{
    struct buf text own_buf = {0};

    buf_init(&text, SIZE_MAX);
    js_dump(v, &text);
    return arena_str(a, buf_str(&text));
}

/* The argument, else what the plan has; and the plan then has it. ERR_INVALID: it is no text. */
static int merge(json_t *plan, struct arena *a, const char *key, struct str given, struct str *out,
                 struct err *e)
{
    json_t *had = js_get(plan, key);

    if (given.len > 0) {
        (void)json_object_set_new(plan, key, js_string(given));
        *out = given;
        return 0;
    }
    if (had == NULL || json_is_null(had)) {
        *out = STR_EMPTY;
        return 0;
    }
    if (!json_is_string(had)) {
        return err_set(e, ERR_INVALID, "resume_plan_json: \"%s\" must be a text", key);
    }
    *out = arena_str(a, js_str(had));
    return 0;
}

static int merge_plan(json_t *plan, struct arena *a, const struct watch_ask *ask,
                      struct watch_order *out, struct err *e)
{
    struct str session = STR_EMPTY;

    if (merge(plan, a, "resume_command", ask->resume_command, &out->resume_command, e) < 0 ||
        merge(plan, a, "launch_command", ask->launch_command, &out->launch_command, e) < 0 ||
        merge(plan, a, "cwd", ask->cwd, &out->cwd, e) < 0 ||
        merge(plan, a, "checkpoint_path", ask->checkpoint_path, &out->checkpoint_path, e) < 0 ||
        merge(plan, a, "checkpoint_command", ask->checkpoint_command, &out->checkpoint_command, e) <
            0 ||
        merge(plan, a, "checkpoint_format", ask->checkpoint_format, &out->checkpoint_format, e) <
            0 ||
        merge(plan, a, "tmux_session", STR_EMPTY, &session, e) < 0) {
        return -1;
    }
    if (session.len > 0 && !str_eq(session, ask->session)) {
        return err_set(
            e, ERR_INVALID,
            "resume_plan_json: \"tmux_session\" is \"%.*s\", but the task is called "
            "\"%.*s\"; a task is resumed under its own name, so that it never runs twice",
            STR_ARG(session), STR_ARG(ask->session));
    }
    (void)json_object_set_new(plan, "tmux_session", js_string(ask->session));
    if (out->checkpoint_format.len == 0) {
        out->checkpoint_format = S("text");
    }
    if (!is_format(out->checkpoint_format)) {
        return err_set(e, ERR_INVALID, "checkpoint_format must be text or json, not \"%.*s\"",
                       STR_ARG(out->checkpoint_format));
    }
    return 0;
}

static int check_resume(const struct watch_order *o, struct err *e)
{
    if (!o->auto_resume) {
        return 0;
    }
    if (o->resume_command.len == 0) {
        return err_set(e, ERR_INVALID,
                       "auto_resume needs a resume_command (or one in resume_plan_json): what "
                       "goes on from the checkpoint instead of starting over");
    }
    if (o->checkpoint_path.len == 0 && o->checkpoint_command.len == 0) {
        return err_set(e, ERR_INVALID,
                       "auto_resume needs a checkpoint_path or a checkpoint_command: where it "
                       "can be seen how far the task is");
    }
    return 0;
}

static struct str wakeup_command(struct arena *a, struct str codex)
{
    struct buf text own_buf = {0};

    buf_init(&text, (size_t)8 * WATCH_TEXT_MAX);
    buf_add(&text, S("case \"$RSMCP_EVENT_TYPE\" in ssh_unreachable|interrupted|resume_failed|"
                     "resume_exhausted|completed|config_missing|sandbox_gone) "));
    buf_add_quoted(&text, codex.len > 0 ? codex : S("codex"));
    buf_add(&text, S(" exec \"$RSMCP_SUGGESTED_PROMPT\" ;; esac"));
    return arena_str(a, buf_str(&text));
}

int watch_order_make(struct arena *a, const struct watch_ask *ask, struct watch_order *out,
                     struct err *e)
{
    json_t *plan own_json = NULL;
    json_t *metadata own_json = NULL;

    if (check_numbers(ask, e) < 0 || check_texts(ask, e) < 0 ||
        check_url(ask->webhook_url, e) < 0) {
        return -1;
    }
    plan = parse_object("resume_plan_json", ask->resume_plan_json, e);
    metadata = plan == NULL ? NULL : parse_object("metadata_json", ask->metadata_json, e);
    if (metadata == NULL) {
        return -1;
    }
    *out = (struct watch_order){
        .run_id = ask->run_id.len > 0 ? ask->run_id : ask->session,
        .name = ask->name,
        .session = ask->session,
        .log_file = ask->log_file,
        .webhook_url = ask->webhook_url,
        .event_command = ask->event_command,
        .interval_s = ask->interval_s,
        .max_log_lines = ask->max_log_lines,
        .alert_after_failures = ask->alert_after_failures,
        .resume_delay_s = ask->resume_delay_s,
        .max_resume_attempts = ask->max_resume_attempts,
        .auto_resume = ask->auto_resume,
        .notify_local = ask->notify_local,
    };
    if (merge_plan(plan, a, ask, out, e) < 0 || check_resume(out, e) < 0) {
        return -1;
    }
    if (ask->codex_wakeup && ask->event_command.len == 0) {
        out->event_command = wakeup_command(a, ask->codex_command);
    }
    out->resume_plan = dump(a, plan);
    out->metadata = dump(a, metadata);
    return 0;
}

struct str watch_resume_command(const struct watch_order *order, struct arena *a)
{
    struct err ignored;
    json_t *plan own_json = js_parse(order->resume_plan.p, order->resume_plan.len, &ignored);
    struct str planned = js_str(js_get(plan, "resume_command"));

    if (planned.len > 0) {
        return arena_str(a, planned);
    }
    return order->resume_command.len > 0 ? order->resume_command : order->launch_command;
}
