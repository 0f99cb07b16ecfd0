#include "watch/state.h"

#include <string.h>

#include "base/own.h"

/*
 * A look that does not reach the sandbox changes nothing that is known of the task: an
 * interruption keeps its time, and what was running is told as restored only when it had been
 * told otherwise.
 */

static const char *const status_names[WATCH_STATUSES] = {
    [WATCH_ACTIVE] = "active",       [WATCH_COMPLETED] = "completed",
    [WATCH_CANCELLED] = "cancelled", [WATCH_STOPPED] = "task_cancelled",
    [WATCH_EXHAUSTED] = "exhausted", [WATCH_GONE] = "gone",
    [WATCH_REPLACED] = "replaced",
};

static const char *const state_names[STATE_STATES] = {
    [STATE_NEW] = "",
    [STATE_RUNNING] = "running",
    [STATE_INTERRUPTED] = "interrupted",
    [STATE_UNREACHABLE] = "ssh_unreachable",
    [STATE_NO_CONFIG] = "config_missing",
    [STATE_COMPLETED] = "completed",
    [STATE_STOPPED] = "cancelled",
    [STATE_GONE] = "gone",
    [STATE_REPLACED] = "replaced",
};

static const char *const event_names[EVENT_TYPES] = {
    [EVENT_UNREACHABLE] = "ssh_unreachable", [EVENT_NO_CONFIG] = "config_missing",
    [EVENT_RESTORED] = "running_restored",   [EVENT_COMPLETED] = "completed",
    [EVENT_INTERRUPTED] = "interrupted",     [EVENT_RESUME_STARTED] = "resume_started",
    [EVENT_RESUME_FAILED] = "resume_failed", [EVENT_EXHAUSTED] = "resume_exhausted",
    [EVENT_STOPPED] = "task_cancelled",      [EVENT_GONE] = "sandbox_gone",
    [EVENT_REPLACED] = "task_replaced",
};

const char *watch_status_name(enum watch_status s)
{
    return s < WATCH_STATUSES ? status_names[s] : "";
}

const char *watch_state_name(enum watch_state s)
{
    return s < STATE_STATES ? state_names[s] : "";
}

const char *watch_event_name(enum watch_event t)
{
    return t < EVENT_TYPES ? event_names[t] : "";
}

bool watch_status_parse(const char *name, enum watch_status *out)
{
    for (unsigned i = 0; i < WATCH_STATUSES; i++) {
        if (strcmp(name, status_names[i]) == 0) {
            *out = (enum watch_status)i;
            return true;
        }
    }
    return false;
}

bool watch_state_parse(const char *name, enum watch_state *out)
{
    for (unsigned i = 0; i < STATE_STATES; i++) {
        if (strcmp(name, state_names[i]) == 0) {
            *out = (enum watch_state)i;
            return true;
        }
    }
    return false;
}

bool watch_is_due(const struct watch_memory *m, int64_t now_s)
{
    return !watch_is_over(m->status) && (m->next_check_s <= now_s || m->last_checked_s > now_s);
}

static void tell(struct watch_step *s, enum watch_event event)
{
    if (s->n_events < STEP_EVENTS) {
        s->events[s->n_events++] = event;
    }
}

static void end(struct watch_step *s, enum watch_status status, enum watch_state state,
                enum watch_event event)
{
    s->memory.status = status;
    s->memory.state = state;
    s->memory.next_check_s = 0;
    s->memory.resume_due_s = 0;
    s->memory.resume_uncertain = false;
    tell(s, event);
}

static void lost(const struct watch_rules *rules, struct watch_step *s)
{
    struct watch_memory *m = &s->memory;

    m->failures++;
    m->state = STATE_UNREACHABLE;
    if (m->failures >= rules->alert_after_failures && !m->alert_sent) {
        m->alert_sent = true;
        tell(s, EVENT_UNREACHABLE);
    }
}

static void running(struct watch_step *s)
{
    struct watch_memory *m = &s->memory;
    bool was_told = m->state == STATE_NO_CONFIG || m->interrupted_s != 0 ||
                    (m->state == STATE_UNREACHABLE && m->alert_sent);

    m->state = STATE_RUNNING;
    if (m->resume_uncertain) {
        m->resume_failures = 0;
        tell(s, EVENT_RESUME_STARTED); /* the attempt nobody heard of */
    } else if (was_told) {
        tell(s, EVENT_RESTORED);
    }
    m->resume_uncertain = false;
    m->interrupted_s = m->resume_due_s = 0;
}

static bool may_resume(const struct watch_rules *rules)
{
    return rules->auto_resume && rules->has_resume_command && rules->max_resume_attempts > 0;
}

static int64_t pause_s(const struct watch_rules *rules)
{
    return rules->interval_s > rules->resume_delay_s ? rules->interval_s : rules->resume_delay_s;
}

static void failed(const struct watch_rules *rules, int64_t now_s, struct watch_step *s)
{
    struct watch_memory *m = &s->memory;

    m->resume_attempts--;
    m->resume_failures++;
    m->resume_due_s = now_s + pause_s(rules);
    tell(s, EVENT_RESUME_FAILED);
}

/* The connection or the daemon was lost while the task was started again. */
static void settle_attempt(const struct watch_rules *rules, const struct watch_look *look,
                           int64_t now_s, struct watch_step *s)
{
    struct watch_memory *m = &s->memory;

    m->resume_uncertain = false;
    if (look->is_new_run) {
        m->interrupted_s = 0; /* this is another interruption */
        m->resume_failures = 0;
        tell(s, EVENT_RESUME_STARTED);
        return;
    }
    failed(rules, now_s, s);
}

static void interrupted(const struct watch_rules *rules, const struct watch_look *look,
                        int64_t now_s, struct watch_step *s)
{
    struct watch_memory *m = &s->memory;

    m->state = STATE_INTERRUPTED;
    if (m->resume_uncertain) {
        settle_attempt(rules, look, now_s, s);
    }
    if (m->interrupted_s == 0) {
        m->interrupted_s = now_s;
        m->resume_due_s = now_s + rules->resume_delay_s;
        tell(s, EVENT_INTERRUPTED);
    }
    if (!may_resume(rules) || look->is_others) {
        return;
    }
    if (m->resume_attempts >= rules->max_resume_attempts ||
        m->resume_failures >= RESUME_FAILURES_MAX) {
        end(s, WATCH_EXHAUSTED, STATE_INTERRUPTED, EVENT_EXHAUSTED);
        return;
    }
    if (m->resume_due_s > now_s + pause_s(rules)) {
        m->resume_due_s = now_s + pause_s(rules); /* the clock was set back */
    }
    if (now_s < m->resume_due_s) {
        if (m->resume_due_s < m->next_check_s) {
            m->next_check_s = m->resume_due_s;
        }
        return;
    }
    m->resume_attempts++;
    m->resume_uncertain = true;
    s->resume = true;
}

static void ended(const struct watch_look *look, struct watch_step *s)
{
    if (s->memory.resume_uncertain) {
        tell(s, EVENT_RESUME_STARTED);
    }
    s->memory.has_exit_code = look->has_exit_code;
    s->memory.exit_code = look->exit_code;
    end(s, WATCH_COMPLETED, STATE_COMPLETED, EVENT_COMPLETED);
}

void watch_step(const struct watch_rules *rules, const struct watch_memory *was,
                const struct watch_look *look, int64_t now_s, struct watch_step *out)
{
    struct watch_memory *m = &out->memory;

    *out = (struct watch_step){.memory = *was};
    if (watch_is_over(was->status)) {
        return;
    }
    m->last_checked_s = now_s;
    m->next_check_s = now_s + rules->interval_s;
    if (look->found == FOUND_UNREACHABLE) {
        lost(rules, out);
        return;
    }
    if (look->found == FOUND_NO_CONFIG) {
        m->state = STATE_NO_CONFIG;
        if (was->state != STATE_NO_CONFIG) {
            tell(out, EVENT_NO_CONFIG);
        }
        return;
    }
    switch (look->found) {
    case FOUND_RUNNING: running(out); break;
    case FOUND_ENDED: ended(look, out); break;
    case FOUND_INTERRUPTED: interrupted(rules, look, now_s, out); break;
    case FOUND_STOPPED: end(out, WATCH_STOPPED, STATE_STOPPED, EVENT_STOPPED); break;
    case FOUND_GONE: end(out, WATCH_GONE, STATE_GONE, EVENT_GONE); break;
    case FOUND_REPLACED: end(out, WATCH_REPLACED, STATE_REPLACED, EVENT_REPLACED); break;
    case FOUND_UNREACHABLE:
    case FOUND_NO_CONFIG: break;
    }
    m->failures = 0;
    m->alert_sent = false;
}

void watch_resumed(const struct watch_rules *rules, const struct watch_memory *was,
                   enum watch_resume outcome, int64_t now_s, struct watch_step *out)
{
    struct watch_memory *m = &out->memory;

    *out = (struct watch_step){.memory = *was};
    switch (outcome) {
    case RESUME_STARTED:
        m->state = STATE_RUNNING;
        m->interrupted_s = m->resume_due_s = 0;
        m->resume_failures = 0;
        m->resume_uncertain = false;
        tell(out, EVENT_RESUME_STARTED);
        break;
    case RESUME_FAILED:
        m->resume_uncertain = false;
        failed(rules, now_s, out);
        break;
    case RESUME_NOT_NEEDED:
        m->resume_uncertain = false;
        m->resume_attempts--; /* nothing of ours was started */
        m->next_check_s = now_s;
        break;
    case RESUME_UNCERTAIN: m->next_check_s = now_s; break;
    }
}
