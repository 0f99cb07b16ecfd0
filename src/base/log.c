/*
 * The log's state is the one mutable global of base (besides the level): every layer
 * logs, and a log that had to be passed along would be passed everywhere. A line is
 * built on the stack and leaves by one write(), so lines never mix. `sink.lock` guards
 * where lines go and the count of dropped ones.
 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/own.h"
#include "base/thread.h"
#include "base/utf8.h"

#define LINE_MAX_BYTES 2048 /* below PIPE_BUF, so a pipe takes it whole or not at all */
#define FORM_SIZE      8    /* of one escaped character */
#define TAIL_BYTES     40   /* kept free for " dropped=..." and the newline */

static atomic_int level_now = LOG_WARN;

static struct {
    pthread_mutex_t lock;
    char *path; /* NULL: stderr */
    int fd;
    long long max_bytes;
    int keep; /* old files */
    unsigned long long dropped;
} sink = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = STDERR_FILENO};

int log_level_parse(struct str s, enum log_level *out, struct err *e)
{
    static const struct {
        const char *name;
        enum log_level level;
    } names[] = {
        {"debug", LOG_DEBUG}, {"info", LOG_INFO},      {"warning", LOG_WARN}, {"warn", LOG_WARN},
        {"error", LOG_ERROR}, {"critical", LOG_ERROR}, {"off", LOG_OFF},
    };
    char shown[LOG_QUOTE_SIZE];

    for (size_t i = 0; i < COUNTOF(names); i++) {
        if (str_eq_nocase(str_trim(s), str_from(names[i].name))) {
            *out = names[i].level;
            return 0;
        }
    }
    return err_set(e, ERR_INVALID,
                   "%s is not a log level: use DEBUG, INFO, WARNING, ERROR, CRITICAL or OFF",
                   log_quote(s, shown));
}

void log_set_level(enum log_level level)
{
    atomic_store(&level_now, (int)level);
}

static int open_file(const char *path, struct err *e)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);

    return fd >= 0 ? fd : err_sys(e, errno, "open the log file %s", path);
}

int log_set_file(const char *path, long long max_bytes, int keep, struct err *e)
{
    int fd = open_file(path, e);
    LOCKED(&sink.lock);

    if (fd < 0) {
        return -1;
    }
    if (sink.path != NULL) {
        (void)close(sink.fd);
        free(sink.path);
    }
    sink.path = xstrdup(path);
    sink.fd = fd;
    sink.max_bytes = max_bytes;
    sink.keep = keep;
    return 0;
}

/* "log.1" and so on; number 0 is the log itself. */
static char *numbered(int number)
{
    size_t size = strlen(sink.path) + 16;
    char *name = xmalloc(size);

    (void)snprintf(name, size, number > 0 ? "%s.%d" : "%s", sink.path, number);
    return name;
}

/* Each gets the next number; the last one goes. */
static void move_files(void)
{
    for (int i = sink.keep; i >= 0; i--) {
        char *from own_mem = numbered(i);
        char *to own_mem = numbered(i + 1);

        (void)(i == sink.keep ? unlink(from) : rename(from, to));
    }
}

/* Another process may have done it already. A file that cannot be replaced is written on: a
 * log too long beats none. */
static void rotate(const struct stat *ours)
{
    struct stat there;
    struct err e;
    int fd;

    if (lstat(sink.path, &there) == 0 && there.st_ino == ours->st_ino &&
        there.st_dev == ours->st_dev) {
        move_files();
    }
    fd = open_file(sink.path, &e);
    if (fd >= 0) {
        (void)close(sink.fd);
        sink.fd = fd;
    }
}

/* Before a line of this length: others write to the same file, so its size is asked for. */
static void make_room(size_t len)
{
    struct stat st;

    if (sink.path == NULL || sink.max_bytes <= 0 || fstat(sink.fd, &st) < 0) {
        return;
    }
    if (st.st_nlink == 0 || (long long)st.st_size + (long long)len > sink.max_bytes) {
        rotate(&st);
    }
}

static bool takes_a_line(int fd)
{
    struct pollfd pfd = {.fd = fd, .events = POLLOUT};

    return poll(&pfd, 1, 0) == 1 && pfd.revents == POLLOUT;
}

/* `line` has TAIL_BYTES of room behind len. */
static void write_line(char *line, size_t len)
{
    LOCKED(&sink.lock);

    if (sink.dropped > 0) {
        int n = snprintf(line + len, TAIL_BYTES - 1, " dropped=%llu", sink.dropped);

        len += n > 0 ? (size_t)n : 0;
    }
    line[len++] = '\n';
    make_room(len);
    if ((sink.path == NULL && !takes_a_line(sink.fd)) ||
        write(sink.fd, line, len) != (ssize_t)len) {
        sink.dropped++;
        return;
    }
    sink.dropped = 0;
}

static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x2028 || c == 0x2029;
}

/* How the character at the start of `s` is written: as it is, or in `form`. *used gets
 * the bytes it takes in `s`. */
static struct str escaped(struct str s, bool quoted, char form[FORM_SIZE], size_t *used)
{
    uint32_t c = 0;

    *used = utf8_decode(s, &c);
    if (*used == 0 || is_control(c)) {
        *used = 1; /* the other bytes of a C1 control are invalid by themselves */
        if (c == '\n') {
            return S("\\n");
        }
        if (c == '\t') {
            return S("\\t");
        }
        (void)snprintf(form, FORM_SIZE, "\\x%02x", (unsigned char)s.p[0]);
        return str_from(form);
    }
    if (quoted && (c == '"' || c == '\\')) {
        (void)snprintf(form, FORM_SIZE, "\\%c", (char)c);
        return str_from(form);
    }
    return str_head(s, *used);
}

/* Copies `s` to at most cap bytes, whole characters only, what could disturb a
 * terminal or forge a line as \n, \t or \xNN. With `quoted`, \" and \\ as well.
 * Returns the length; *left gets what did not fit. */
static size_t escape(struct str s, char *to, size_t cap, bool quoted, struct str *left)
{
    size_t len = 0;

    while (s.len > 0) {
        char form[FORM_SIZE];
        size_t used;
        struct str piece = escaped(s, quoted, form, &used);

        if (piece.len > cap - len) {
            break;
        }
        memcpy(to + len, piece.p, piece.len);
        len += piece.len;
        s = str_skip(s, used);
    }
    *left = s;
    return len;
}

void log_line(enum log_level level, const char *area, const char *fmt, ...)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    char text[LINE_MAX_BYTES];
    char line[LINE_MAX_BYTES];
    char when[CLOCK_RFC3339_SIZE];
    struct str left;
    va_list args;
    size_t len;
    int n;

    if ((int)level < atomic_load(&level_now) || (size_t)level >= COUNTOF(names)) {
        return;
    }
    va_start(args, fmt);
    n = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (n < 0) {
        return;
    }
    n = snprintf(line, sizeof(line) / 2, "t=%s level=%s area=%.32s ",
                 clock_rfc3339(clock_wall_ms(), when), names[level], area);
    len = (size_t)n;
    len += escape(str_from(text), line + len, sizeof(line) - len - TAIL_BYTES, false, &left);
    write_line(line, len);
}

const char *log_quote(struct str s, char to[LOG_QUOTE_SIZE])
{
    const size_t cap = LOG_QUOTE_SIZE - sizeof("\"...\"");
    struct str left;
    size_t len = 0;

    to[len++] = '"';
    len += escape(s, to + len, cap, true, &left);
    (void)snprintf(to + len, LOG_QUOTE_SIZE - len, "%s\"", left.len > 0 ? "..." : "");
    return to;
}
