#include "provider/opensandbox/stream.h"

#include <signal.h>
#include <string.h>

#include "json/js.h"
#include "provider/opensandbox/web.h"

void events_init(struct events *s)
{
    buf_init(&s->line, EVENT_MAX);
}

void events_fini(struct events *s)
{
    buf_fini(&s->line);
}

static enum event_type type_of(struct str word)
{
    static const struct {
        struct str word;
        enum event_type type;
    } types[] = {
        {{"init", 4}, EVENT_INIT},   {{"stdout", 6}, EVENT_OUT},
        {{"stderr", 6}, EVENT_ERR},  {{"execution_complete", 18}, EVENT_DONE},
        {{"error", 5}, EVENT_ERROR},
    };

    for (size_t i = 0; i < COUNTOF(types); i++) {
        if (str_eq(types[i].word, word)) {
            return types[i].type;
        }
    }
    return EVENT_OTHER;
}

static int take_object(const json_t *v, event_fn *each, void *arg, struct err *e)
{
    struct event event = {.text = js_str(js_get(v, "text"))};
    const json_t *error = js_get(v, "error");

    if (js_get(v, "type") == NULL && js_get(v, "code") != NULL) {
        event.type = EVENT_LATE;
        event.value = js_str(js_get(v, "code"));
        event.text = js_str(js_get(v, "message"));
        return each(arg, &event, e);
    }
    event.type = type_of(js_str(js_get(v, "type")));
    if (error != NULL) {
        event.value = js_str(js_get(error, "evalue"));
        event.trace = js_str(json_array_get(js_get(error, "traceback"), 0));
        event.text = js_str(js_get(error, "ename"));
    }
    return each(arg, &event, e);
}

static int take_line(struct str line, event_fn *each, void *arg, struct err *e)
{
    static const struct str skipped[] = {{":", 1}, {"event:", 6}, {"id:", 3}, {"retry:", 6}};

    line = str_trim(line);
    for (size_t i = 0; i < COUNTOF(skipped); i++) {
        if (str_starts(line, skipped[i])) {
            return WEB_MORE;
        }
    }
    if (str_starts(line, S("data:"))) {
        line = str_trim(str_skip(line, 5));
    }
    if (line.len == 0) {
        return WEB_MORE;
    }
    json_t *v own_json = js_parse(line.p, line.len, e);
    if (v == NULL || !json_is_object(v)) {
        return err_set(e, ERR_PROTOCOL, "execd sent an event that cannot be read: %.*s",
                       STR_ARG(str_head(line, 100)));
    }
    return take_object(v, each, arg, e);
}

int events_take(struct events *s, struct str bytes, event_fn *each, void *arg, struct err *e)
{
    while (bytes.len > 0) {
        const char *end = memchr(bytes.p, '\n', bytes.len);
        size_t n = end != NULL ? (size_t)(end - bytes.p) : bytes.len;
        int rc;

        if (end != NULL && s->line.len == 0) {
            rc = take_line(str_head(bytes, n), each, arg, e);
        } else {
            buf_add(&s->line, str_head(bytes, n));
            if (s->line.cut) {
                return err_set(e, ERR_LIMIT,
                               "the command printed a line of more than %u MiB: let it write to a "
                               "file instead",
                               EVENT_MAX >> 20);
            }
            if (end == NULL) {
                return WEB_MORE;
            }
            rc = take_line(buf_str(&s->line), each, arg, e);
            buf_clear(&s->line);
        }
        if (rc != WEB_MORE) {
            return rc;
        }
        bytes = str_skip(bytes, n + 1);
    }
    return WEB_MORE;
}

int events_end(struct events *s, event_fn *each, void *arg, struct err *e)
{
    struct err ignored;
    int rc = WEB_MORE;

    /* An object that was cut in two tells nothing. */
    if (s->line.len > 0) {
        struct str line = str_trim(buf_str(&s->line));
        json_t *v own_json = js_parse(line.p, line.len, &ignored);

        rc = v != NULL && json_is_object(v) ? take_object(v, each, arg, e) : WEB_MORE;
    }
    buf_clear(&s->line);
    return rc;
}

/* ---- how it ended --------------------------------------------------------------------------- */

/* "signal: segmentation fault (core dumped)", as Go names them. */
static int signal_of(struct str trace)
{
    static const struct {
        const char *name;
        int number;
    } signals[] = {
        {"hangup", SIGHUP},
        {"interrupt", SIGINT},
        {"quit", SIGQUIT},
        {"illegal instruction", SIGILL},
        {"trace/breakpoint trap", SIGTRAP},
        {"aborted", SIGABRT},
        {"bus error", SIGBUS},
        {"floating point exception", SIGFPE},
        {"killed", SIGKILL},
        {"user defined signal 1", SIGUSR1},
        {"segmentation fault", SIGSEGV},
        {"user defined signal 2", SIGUSR2},
        {"broken pipe", SIGPIPE},
        {"alarm clock", SIGALRM},
        {"terminated", SIGTERM},
        {"CPU time limit exceeded", SIGXCPU},
        {"file size limit exceeded", SIGXFSZ},
        {"bad system call", SIGSYS},
    };
    struct err ignored;
    int64_t number = 0;

    if (!str_starts(trace, S("signal: "))) {
        return 0;
    }
    trace = str_skip(trace, 8);
    for (size_t i = 0; i < COUNTOF(signals); i++) {
        if (str_starts(trace, str_from(signals[i].name))) {
            return signals[i].number;
        }
    }
    if (str_starts(trace, S("signal ")) &&
        str_to_i64(str_skip(trace, 7), 1, 64, &number, &ignored) == 0) {
        return (int)number;
    }
    return SIGKILL;
}

bool event_result(const struct event *event, struct exec_result *out)
{
    struct err ignored;
    int64_t code = 0;
    int number = signal_of(event->trace);

    if (str_to_i64(event->value, -1, 255, &code, &ignored) < 0) {
        return false;
    }
    if (code >= 0 && number == 0) {
        out->end = EXEC_EXITED;
        out->code = (int)code;
        return true;
    }
    out->end = EXEC_SIGNALED;
    out->code = number > 0 ? number : SIGKILL;
    return true;
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* Whether it ends with the end sign and the mark, which are cut off then. */
static bool cut_end(const struct lines *l, struct str *text)
{
    size_t n = text->len - l->mark.len;

    if (l->mark.len == 0 || text->len <= l->mark.len || text->p[n - 1] != END_SIGN ||
        !str_ends(*text, l->mark)) {
        return false;
    }
    *text = str_head(*text, n - 1);
    return true;
}

void lines_take(struct lines *l, struct str text, struct line *out)
{
    bool is_empty = str_eq(text, S("\n"));

    *out = (struct line){0};
    l->n_told++;
    if (l->is_over) {
        return; /* of something that goes on in the background */
    }
    if (l->mark.len > 0 && str_starts(text, l->mark)) {
        out->note = str_skip(text, l->mark.len);
        return;
    }
    l->is_over = cut_end(l, &text);
    if (l->owes_end) {
        out->pieces[0] = S("\n");
    }
    if (!is_empty) {
        out->pieces[1] = text;
    }
    l->owes_end = !l->is_over;
    l->n_bytes += out->pieces[0].len + out->pieces[1].len;
}

struct str lines_end(struct lines *l)
{
    bool owes = l->owes_end && !l->is_over;

    l->owes_end = false;
    l->n_bytes += owes ? 1 : 0;
    return owes ? S("\n") : STR_EMPTY;
}

struct str told_skip(struct told *t, struct str bytes)
{
    size_t i = 0;

    for (; i < bytes.len; i++) {
        bool is_half = t->was_cr && bytes.p[i] == '\n';

        if (t->n == 0 && !is_half) {
            break;
        }
        t->was_cr = bytes.p[i] == '\r';
        t->n -= t->was_cr || (bytes.p[i] == '\n' && !is_half) ? 1 : 0;
    }
    t->was_cr = t->was_cr && i == bytes.len;
    return str_skip(bytes, i);
}
