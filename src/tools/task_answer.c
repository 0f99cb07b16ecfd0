/* task_answer.c - see task_answer.h. */
#include "tools/task_answer.h"

#include <ctype.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "base/own.h"
#include "base/plain.h"
#include "base/utf8.h"
#include "store/watches.h"

#define REGEX_NODES (1 << 20) /* some 200 bytes each */

struct task_ctx task_call(struct call *c)
{
    return (struct task_ctx){.services = c->services, .ctx = c->ctx, .scope = c->scope};
}

bool task_is_any(const struct task_args *args)
{
    return str_trim(args->id).len == 0 && str_trim(args->session).len == 0 &&
           str_trim(args->log).len == 0 && args->watch_id == 0;
}

int task_check_text(struct str text, const char *what, struct err *e)
{
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.p[i] < 32 || text.p[i] == 127) {
            return err_set(e, ERR_INVALID, "%s has a control character in it; leave that out",
                           what);
        }
    }
    return 0;
}

/* What the caller did not say the watch knows. */
static int fill_from_watch(struct call *c, int64_t id, struct task_query *out, struct err *e)
{
    struct watch_row w;

    if (store_get_watch(c->services->store, c->ctx->arena, &c->scope->owner, id, &w, e) < 0) {
        return -1;
    }
    if (out->box.id.len == 0 && out->box.name.len == 0) {
        out->box.id = w.order.box_id;
    }
    if (out->log.len == 0) {
        out->log = w.order.log_file;
    }
    if (out->id.len == 0) {
        out->name = w.order.session;
    }
    return 0;
}

int task_query(struct call *c, const struct task_args *args, struct task_query *out, struct err *e)
{
    *out = (struct task_query){
        .box = answer_want(&args->box), .id = str_trim(args->id), .log = str_trim(args->log)};
    if (args->watch_id > 0 && fill_from_watch(c, args->watch_id, out, e) < 0) {
        return -1;
    }
    if (task_check_text(out->log, "log_file", e) < 0 ||
        task_check_text(out->id, "task_id", e) < 0) {
        return -1;
    }
    if (str_trim(args->session).len > 0 &&
        task_name(c->ctx->arena, args->session, &out->name, e) < 0) {
        return -1;
    }
    return 0;
}

json_t *answer_signal(int number)
{
    static const struct {
        int number;
        const char *name;
    } names[] = {
        {SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"},     {SIGILL, "SIGILL"},
        {SIGTRAP, "SIGTRAP"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},       {SIGFPE, "SIGFPE"},
        {SIGKILL, "SIGKILL"}, {SIGUSR1, "SIGUSR1"}, {SIGSEGV, "SIGSEGV"},     {SIGUSR2, "SIGUSR2"},
        {SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"}, {SIGTERM, "SIGTERM"},     {SIGSYS, "SIGSYS"},
        {SIGXCPU, "SIGXCPU"}, {SIGXFSZ, "SIGXFSZ"}, {SIGVTALRM, "SIGVTALRM"}, {SIGPROF, "SIGPROF"},
    };

    for (size_t i = 0; i < COUNTOF(names); i++) {
        if (names[i].number == number) {
            return json_string(names[i].name);
        }
    }
    return json_sprintf("signal %d", number);
}

struct str answer_box_name(struct str box_id)
{
    struct str name;

    (void)str_cut(box_id, ':', &name);
    return name.len > 0 ? name : box_id;
}

static void put_end(json_t *o, const struct task_view *v)
{
    const struct task_end *end = &v->seen.end;

    (void)json_object_set_new(o, "running", json_boolean(task_goes_on(end->state)));
    (void)json_object_set_new(o, "status", json_string(task_phase_name(end->state)));
    if (end->code >= 0 && !task_goes_on(end->state) && end->state != TASK_INTERRUPTED) {
        (void)json_object_set_new(o, "exit_code", json_integer(end->code));
    }
    if (end->signal > 0) {
        (void)json_object_set_new(o, "signal", answer_signal(end->signal));
    }
}

static void put_times(json_t *o, const struct task_view *v)
{
    const struct task_seen *s = &v->seen;
    int64_t until_s = task_goes_on(s->end.state) ? s->now_s : s->end.ended_s;

    answer_time(o, "started_at", s->began_s * 1000);
    if (!task_goes_on(s->end.state)) {
        answer_time(o, "ended_at", s->end.ended_s * 1000);
    }
    if (s->began_s > 0 && until_s >= s->began_s) {
        (void)json_object_set_new(o, "runtime_s", json_integer(until_s - s->began_s));
    }
    if (s->touched_s > 0) {
        answer_time(o, "last_output_at", s->touched_s * 1000);
    }
}

struct str task_answer_gaps(json_t *o, const struct task_seen *s, struct arena *a)
{
    if (s->gaps != 0) {
        (void)json_object_set_new(o, "log_incomplete", json_true());
    }
    if (s->gaps > 0) {
        return arena_printf(
            a, "%" PRId64 " bytes of the output are not in the log: the disk was full", s->gaps);
    }
    if (s->gaps < 0) {
        return S("some of the output is not in the log: the disk was full");
    }
    return s->disk_is_full ? S("the disk that the log is on is full: what the job prints now is "
                               "not in it")
                           : STR_EMPTY;
}

static struct str state_note(const struct task_view *v)
{
    if (v->seen.end.state == TASK_ORPHAN) {
        return S("the process that waits for the job was killed: the job runs on, but its exit "
                 "code will not be known");
    }
    if (v->seen.end.state == TASK_INTERRUPTED && v->asked) {
        return S("it ended before it was done (its session, its supervisor or the machine ended): "
                 "there is no exit code");
    }
    return v->problem;
}

static void put_note(json_t *o, const struct task_view *v, struct arena *a)
{
    struct str note = state_note(v);
    struct str gaps = task_answer_gaps(o, &v->seen, a);

    if (note.len > 0 && gaps.len > 0) {
        note = arena_printf(a, "%.*s; %.*s", STR_ARG(note), STR_ARG(gaps));
    }
    answer_str_if(o, "note", note.len > 0 ? note : gaps);
}

json_t *task_answer(struct call *c, const struct task_view *v)
{
    json_t *o = json_object();

    answer_str_if(o, "task_id", v->seen.run);
    answer_str_if(o, "tmux_session", v->seen.name);
    answer_str(o, "sandbox", answer_box_name(v->box_id));
    put_end(o, v);
    put_times(o, v);
    answer_str_if(o, "log_file", v->seen.log);
    answer_str_if(o, "command", v->seen.command);
    put_note(o, v, c->ctx->arena);
    return o;
}

/* As if everything were repeated by everything, so it is more than there can be: by each number
 * behind a '{' or a ',', and twice by a '+', which is done as one and any number more. */
bool task_regex_is_small(struct str regex)
{
    int64_t nodes = (int64_t)regex.len;

    for (size_t i = 0; i < regex.len && nodes <= REGEX_NODES; i++) {
        int64_t number = 0;

        if (regex.p[i] == '+') {
            nodes *= 2;
        } else if (regex.p[i] == '{' || regex.p[i] == ',') {
            for (size_t k = i + 1;
                 k < regex.len && isdigit((unsigned char)regex.p[k]) && number <= REGEX_NODES;
                 k++) {
                number = number * 10 + (regex.p[k] - '0');
            }
            nodes *= number > 1 ? number : 1;
        }
    }
    return nodes <= REGEX_NODES;
}

/* The last lines; one that is not ended counts. */
static struct str last_lines(struct str text, int64_t lines)
{
    size_t at = text.len > 0 && text.p[text.len - 1] == '\n' ? text.len - 1 : text.len;

    while (at > 0) {
        if (text.p[at - 1] == '\n' && --lines == 0) {
            break;
        }
        at--;
    }
    return str_skip(text, at);
}

void task_answer_text(json_t *o, const struct task_view *v, int64_t from, int64_t lines)
{
    const struct task_seen *s = &v->seen;
    struct str raw = s->text;
    struct buf plain own_buf = {0};

    if (!v->asked) {
        return;
    }
    buf_init(&plain, 4 * (size_t)TASK_TEXT_MAX);
    if (s->last < s->size || task_goes_on(s->end.state)) { /* no character is cut in two */
        raw = utf8_head(raw, raw.len);
    }
    int64_t next = s->first + (int64_t)raw.len;
    if (from < 0) {
        struct str some = last_lines(raw, lines);
        bool cut = some.len == raw.len && s->first > 0 && raw.len >= TASK_TEXT_MAX / 16;

        if (cut) {
            buf_addf(&plain, "... [long lines: more before this, from=%" PRId64 "] ...\n",
                     s->first > TASK_TEXT_MAX ? s->first - TASK_TEXT_MAX : 0);
            (void)json_object_set_new(o, "truncated", json_true());
        }
        raw = some;
    } else if (next < s->size) {
        (void)json_object_set_new(o, "truncated", json_true());
    }
    plain_text(raw, &plain);
    answer_str(o, "log_tail", buf_str(&plain));
    (void)json_object_set_new(o, "cursor", json_integer(next));
    (void)json_object_set_new(o, "log_size", json_integer(s->size));
    if (s->errors_log.len > 0) {
        buf_clear(&plain);
        plain_text(last_lines(s->errors, lines), &plain);
        answer_str(o, "stderr_tail", buf_str(&plain));
        answer_str(o, "stderr_file", s->errors_log);
        (void)json_object_set_new(o, "stderr_size", json_integer(s->errors_size));
    }
    if (s->match.len > 0) {
        buf_clear(&plain);
        plain_text(str_head(s->match, 2000), &plain);
        answer_str(o, "match", buf_str(&plain));
    }
}
