/* task_name.c - names of tasks and where their logs go; see task.h. */
#include <inttypes.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/own.h"
#include "base/plain.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "core/task.h"

#define HEAD_MAX 120

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

static struct str made_up(struct arena *a)
{
    char more[5];

    id_hex(more, 2);
    return arena_printf(a, "bg-%" PRId64 "-%s", clock_wall_ms() / 1000, more);
}

/* Some digits that tell names apart which look the same once they are plain. */
static void add_digits(struct buf *name, struct str given)
{
    unsigned char sum[SHA256_SIZE];

    sha256_of(given, sum);
    buf_addf(name, "-%02x%02x%02x", sum[0], sum[1], sum[2]);
}

int task_name(struct arena *a, struct str given, struct str *out, struct err *e)
{
    struct buf name own_buf = {0};
    bool foreign = false;

    given = str_trim(given);
    if (given.len > TASK_NAME_MAX) {
        return err_set(e, ERR_INVALID, "the session's name is %zu bytes long; at most %d",
                       given.len, TASK_NAME_MAX);
    }
    if (given.len == 0) {
        *out = made_up(a);
        return 0;
    }
    buf_init(&name, TASK_NAME_MAX + 8);
    for (size_t i = 0; i < given.len; i++) {
        bool first_dash = i == 0 && given.p[0] == '-';

        if (is_plain(given.p[i]) && !first_dash) {
            buf_addc(&name, given.p[i]);
        } else {
            buf_addc(&name, '_');
        }
        foreign = foreign || (unsigned char)given.p[i] >= 0x80;
    }
    if (foreign) {
        add_digits(&name, given);
    }
    *out = arena_str(a, buf_str(&name));
    return 0;
}

static struct str without_dots(struct str path)
{
    while (str_starts(path, S("./"))) {
        path = str_skip(path, 2);
        while (str_starts(path, S("/"))) {
            path = str_skip(path, 1);
        }
    }
    return path;
}

static bool is_relative(struct str path)
{
    return path.len > 0 && path.p[0] != '/' && !str_eq(path, S("~")) && !str_starts(path, S("~/"));
}

struct str task_log(struct arena *a, struct str cwd, struct str log, struct str name)
{
    log = str_trim(log);
    cwd = without_dots(str_trim(cwd));
    if (log.len == 0) {
        return arena_printf(a, ".codex_logs/%.*s.log", STR_ARG(name));
    }
    if (!is_relative(log)) {
        return log;
    }
    log = without_dots(log);
    while (cwd.len > 1 && str_ends(cwd, S("/"))) {
        cwd.len--;
    }
    if (is_relative(cwd) && str_starts(log, cwd) && log.len > cwd.len + 1 &&
        log.p[cwd.len] == '/') {
        return str_skip(log, cwd.len + 1);
    }
    return log;
}

struct str task_head(struct arena *a, struct str command)
{
    struct buf plain own_buf = {0};
    struct buf line own_buf = {0};
    struct str text;

    buf_init(&plain, 4096);
    buf_init(&line, 4096);
    plain_text(str_head(command, 1000), &plain);
    text = str_trim(buf_str(&plain));
    for (size_t i = 0; i < text.len; i++) {
        bool space = text.p[i] == ' ' || text.p[i] == '\n' || text.p[i] == '\t';

        if (!space) {
            buf_addc(&line, text.p[i]);
        } else if (line.p[line.len - 1] != ' ') {
            buf_addc(&line, ' ');
        }
    }
    return arena_str(a, str_trim(utf8_head(buf_str(&line), HEAD_MAX)));
}
