/*
 * task_parse.c - what task_probe.sh said.
 *
 * Lines of a key, a tab and a value. "task" begins a task; "text" is followed by bytes of its
 * log, up to a line that is the random mark and which therefore no log can hold.
 */
#include <string.h>

#include "core/task.h"

static const char *const state_names[TASK_STATES] = {
    [TASK_UNKNOWN] = "unknown",
    [TASK_STARTING] = "starting",
    [TASK_RUNNING] = "running",
    [TASK_ORPHAN] = "orphan",
    [TASK_EXITED] = "exit",
    [TASK_KILLED] = "signal",
    [TASK_INTERRUPTED] = "interrupted",
    [TASK_CANCELLED] = "cancelled",
    [TASK_REPLACED] = "replaced",
};

const char *task_phase_name(enum task_phase state)
{
    switch (state) {
    case TASK_EXITED: return "exited";
    case TASK_KILLED: return "killed";
    case TASK_ORPHAN: return "running";
    case TASK_UNKNOWN:
    case TASK_STARTING:
    case TASK_RUNNING:
    case TASK_INTERRUPTED:
    case TASK_CANCELLED:
    case TASK_REPLACED: return state_names[state];
    case TASK_STATES: break;
    }
    return "unknown";
}

static enum task_phase read_state(struct str word)
{
    for (int i = 0; i < TASK_STATES; i++) {
        if (str_eq(word, str_from(state_names[i]))) {
            return (enum task_phase)i;
        }
    }
    return TASK_UNKNOWN;
}

/* What is no number is the fallback: a script's file may have been cut short. */
static int64_t read_int(struct str text, int64_t max, int64_t fallback)
{
    struct err ignored = {0};
    int64_t v = fallback;

    return str_to_i64(text, 0, max, &v, &ignored) < 0 ? fallback : v;
}

bool task_parse_end(struct str line, struct str *run, struct task_end *out)
{
    struct str rest = line;
    struct str word[5];

    for (size_t i = 0; i < COUNTOF(word); i++) {
        word[i] = str_cut(str_trim(rest), ' ', &rest);
        if (word[i].len == 0) {
            return false;
        }
    }
    *run = word[0];
    *out = (struct task_end){
        .state = read_state(word[1]),
        .code = (int)read_int(word[2], 255, -1),
        .signal = (int)read_int(word[3], 127, 0),
        .ended_s = read_int(word[4], INT64_MAX, 0),
    };
    return out->state != TASK_UNKNOWN;
}

struct field {
    const char *key;
    size_t offset;
};

static bool take_text(struct str key, struct str value, struct task_seen *s)
{
    static const struct field fields[] = {
        {"task", offsetof(struct task_seen, run)},
        {"name", offsetof(struct task_seen, name)},
        {"how", offsetof(struct task_seen, how)},
        {"log", offsetof(struct task_seen, log)},
        {"dir", offsetof(struct task_seen, dir)},
        {"cwd", offsetof(struct task_seen, cwd)},
        {"errors_log", offsetof(struct task_seen, errors_log)},
        {"wanted", offsetof(struct task_seen, wanted)},
        {"match", offsetof(struct task_seen, match)},
        {"command", offsetof(struct task_seen, command)},
    };

    for (size_t i = 0; i < COUNTOF(fields); i++) {
        if (str_eq(key, str_from(fields[i].key))) {
            *(struct str *)(void *)((char *)s + fields[i].offset) = value;
            return true;
        }
    }
    return false;
}

static void take_number(struct str key, struct str value, struct task_seen *s)
{
    static const struct field fields[] = {
        {"began", offsetof(struct task_seen, began_s)},
        {"size", offsetof(struct task_seen, size)},
        {"touched", offsetof(struct task_seen, touched_s)},
        {"first", offsetof(struct task_seen, first)},
        {"last", offsetof(struct task_seen, last)},
        {"ended", offsetof(struct task_seen, end.ended_s)},
        {"errors_size", offsetof(struct task_seen, errors_size)},
    };

    if (str_eq(key, S("gaps"))) {
        s->gaps = read_int(value, INT64_MAX, -1);
    } else if (str_eq(key, S("full"))) {
        s->disk_is_full = true;
    } else if (str_eq(key, S("state"))) {
        s->end.state = read_state(value);
    } else if (str_eq(key, S("code"))) {
        s->end.code = (int)read_int(value, 255, -1);
    } else if (str_eq(key, S("signal"))) {
        s->end.signal = (int)read_int(value, 127, 0);
    }
    for (size_t i = 0; i < COUNTOF(fields); i++) {
        if (str_eq(key, str_from(fields[i].key))) {
            *(int64_t *)(void *)((char *)s + fields[i].offset) = read_int(value, INT64_MAX, 0);
        }
    }
}

static enum task_check read_check(struct str word)
{
    static const struct {
        const char *word;
        enum task_check is;
    } words[] = {{"read", CHECK_READ},
                 {"missing", CHECK_MISSING},
                 {"cwd", CHECK_NO_CWD},
                 {"room", CHECK_NO_ROOM}};

    for (size_t i = 0; i < COUNTOF(words); i++) {
        if (str_eq(word, str_from(words[i].word))) {
            return words[i].is;
        }
    }
    return CHECK_SLOW;
}

/* The bytes up to the mark; they begin at offset `at` of the log, which may be before .first and
 * may go on behind .last: whole blocks were read. */
static bool take_bytes(struct str *said, struct str mark, int64_t at, struct task_seen *s)
{
    struct str rest = *said;

    for (;;) {
        const char *found = memmem(rest.p, rest.len, mark.p, mark.len);

        if (found == NULL) {
            return false;
        }
        size_t n = (size_t)(found - said->p);
        rest = str_skip(*said, n + mark.len);
        if (n > 0 && found[-1] == '\n' && str_starts(rest, S("\n"))) {
            s->text = str_head(*said, n - 1);
            *said = str_skip(rest, 1);
            break;
        }
    }
    if (s->first < at || s->last < s->first) {
        return false;
    }
    s->text = str_skip(s->text, (size_t)(s->first - at));
    s->text = str_head(s->text, (size_t)(s->last - s->first));
    s->last = s->first + (int64_t)s->text.len; /* the log may have been cut short meanwhile */
    return true;
}

static int bad(struct err *e)
{
    return err_set(e, ERR_PROTOCOL,
                   "the sandbox's shell did not say how its tasks are in a way that can be read");
}

/* The end of its stderr, or its checkpoint. */
static bool take_other(struct str *said, struct str mark, struct str key, struct str value,
                       struct task_seen *seen)
{
    struct task_seen other = {.last = INT64_MAX};

    if (!take_bytes(said, mark, 0, &other)) {
        return false;
    }
    if (str_eq(key, S("errors"))) {
        seen->errors = other.text;
    } else {
        seen->check_is = read_check(value);
        seen->check = other.text;
    }
    return true;
}

int task_parse(struct str said, struct str mark, task_seen_fn *each, void *arg, struct err *e)
{
    struct task_seen seen = {0};
    int64_t now_s = 0;

    for (;;) {
        if (!str_has(said, '\n')) {
            return bad(e);
        }
        struct str line = str_cut(said, '\n', &said);
        struct str value;
        struct str key = str_cut(line, '\t', &value);

        if (str_eq(key, S("end"))) {
            return 0;
        }
        if (str_eq(key, S("now"))) {
            now_s = read_int(value, INT64_MAX, 0);
            continue;
        }
        if (str_eq(key, S("task"))) {
            seen = (struct task_seen){.now_s = now_s, .end.code = -1};
        }
        if (str_eq(key, S("errors")) || str_eq(key, S("check"))) {
            if (!take_other(&said, mark, key, value, &seen)) {
                return bad(e);
            }
            continue;
        }
        if (!str_eq(key, S("text"))) {
            if (!take_text(key, value, &seen)) {
                take_number(key, value, &seen);
            }
            continue;
        }
        if (!take_bytes(&said, mark, read_int(value, INT64_MAX, INT64_MAX), &seen)) {
            return bad(e);
        }
        if (each(arg, &seen, e) < 0) {
            return -1;
        }
    }
}
