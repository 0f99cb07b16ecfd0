/* audit_verify.c - is the audit log as it was written? */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "core/audit.h"
#include "core/audit_own.h"
#include "json/js.h"

#define READ_SIZE 65536
#define HEAD_SIZE (20 + 1 + 64 + 1)

void audit_hash_line(struct str line, char hex[SHA256_HEX_SIZE])
{
    unsigned char hash[SHA256_SIZE];

    sha256_of(line, hash);
    (void)sha256_hex(hash, hex);
}

/* ---- the head --------------------------------------------------------------------------- */

int audit_read_head(int fd, struct audit_head *out)
{
    char text[HEAD_SIZE + 1] = "";
    ssize_t n = pread(fd, text, HEAD_SIZE, 0);
    struct err ignored;
    struct str hash;
    struct str size = str_cut((struct str){text, n > 0 ? (size_t)n : 0}, ' ', &hash);

    *out = (struct audit_head){.hash = AUDIT_NO_HASH};
    if (n < 0) {
        return -1;
    }
    if (n == HEAD_SIZE && str_to_i64(size, 0, INT64_MAX, &out->size, &ignored) == 0) {
        (void)snprintf(out->hash, sizeof(out->hash), "%.*s", SHA256_HEX_SIZE - 1, hash.p);
    }
    return 0;
}

int audit_write_head(int fd, int64_t size, const char hash[SHA256_HEX_SIZE])
{
    char text[HEAD_SIZE + 1];

    (void)snprintf(text, sizeof(text), "%020lld %s\n", (long long)size, hash);
    if (pwrite(fd, text, HEAD_SIZE, 0) != HEAD_SIZE) {
        errno = errno != 0 ? errno : EIO;
        return -1;
    }
    return 0;
}

/* ---- lines --------------------------------------------------------------------------------- */

struct verifying {
    struct audit_verdict *out;
    struct audit_head head; /* read first: the file may grow while we read it, not shrink */
    int64_t number;         /* of the line */
    int64_t offset;         /* behind it */
    bool at_head;           /* the line that the head remembers was there */
};

static bool is_hash(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f'))) {
            return false;
        }
    }
    return s.len == SHA256_HEX_SIZE - 1;
}

static void break_at(struct verifying *v, const char *reason)
{
    v->out->broken_at = v->number;
    (void)snprintf(v->out->reason, sizeof(v->out->reason), "%s", reason);
}

/* A line that is no entry was cut short by a crash when the next one carries its hash; who
 * only cut a line short could not make the next one do that. */
static void check_line(struct verifying *v, struct str line)
{
    struct audit_verdict *out = v->out;
    struct err ignored;
    json_t *o own_json = js_parse(line.p, line.len, &ignored);
    struct str previous = js_str(js_get(o, "prev"));

    v->number++;
    if (!is_hash(previous)) {
        out->torn++;
        out->lines--;
    } else if (v->number == 1) {
        (void)snprintf(out->first, sizeof(out->first), "%.*s", STR_ARG(previous));
        out->continues = !str_eq(previous, S(AUDIT_NO_HASH));
    } else if (!str_eq(previous, str_from(out->last))) {
        break_at(v, "it does not carry the hash of the line before it: that line, or this one, was "
                    "changed, or lines between them were removed");
        return;
    }
    audit_hash_line(line, out->last);
    out->lines++;
}

/* Two that are torn one behind the other, or one in front, were not left by our writers. */
static void check_torn(struct verifying *v, bool now, bool before)
{
    if (now && (before || v->number == 1)) {
        break_at(v, "it is not a line of an audit log");
    }
}

/* What the head remembers must be there: a line that ends at this place, with this hash. */
static void check_head(struct verifying *v)
{
    if (v->head.size == v->offset) {
        v->at_head = str_eq(str_from(v->head.hash), str_from(v->out->last));
    }
    if (!v->at_head && v->offset >= v->head.size && v->head.size > 0) {
        break_at(v, "it is not the line that was written there: it was changed");
    }
}

/* ---- the file -------------------------------------------------------------------------------- */

static void check_whole(struct verifying *v, struct buf *pending, bool *was_torn)
{
    for (;;) {
        const char *end = pending->len > 0 ? memchr(pending->p, '\n', pending->len) : NULL;
        size_t len = end != NULL ? (size_t)(end - pending->p) : 0;
        int64_t torn = v->out->torn;

        if (end == NULL || v->out->broken_at > 0) {
            return;
        }
        check_line(v, str_head(buf_str(pending), len));
        if (v->out->broken_at == 0) {
            check_torn(v, v->out->torn > torn, *was_torn);
        }
        *was_torn = v->out->torn > torn;
        v->offset += (int64_t)len + 1;
        buf_drop(pending, len + 1);
        if (v->out->broken_at == 0) {
            check_head(v);
        }
    }
}

static int read_lines(int fd, struct verifying *v, struct buf *pending, struct err *e)
{
    bool was_torn = false;

    for (;;) {
        char *room = buf_room(pending, READ_SIZE);
        ssize_t got;

        if (room == NULL) {
            v->number++;
            break_at(v, "it is longer than any line of an audit log");
            return 0;
        }
        got = fd_read(fd, room, READ_SIZE, e);
        if (got <= 0 || v->out->broken_at > 0) {
            return got < 0 ? -1 : 0;
        }
        pending->len += (size_t)got;
        check_whole(v, pending, &was_torn);
    }
}

/* Why there is nothing to look at. */
static int refuse(struct str path, int errnum, bool has_head, struct err *e)
{
    struct str shown = str_head(path, 200);

    if (errnum == ENOENT && has_head) {
        return err_set(e, ERR_NOT_FOUND,
                       "the audit log %.*s is gone, and %.*s.head says that lines were written to "
                       "it: it was moved or removed. Name the file where it is now",
                       STR_ARG(shown), STR_ARG(shown));
    }
    if (errnum == ENOENT) {
        return err_set(e, ERR_NOT_FOUND,
                       "there is no audit log %.*s: name the file that audit.file or "
                       "ANYBOX_AUDIT_FILE names; the first call that is recorded makes it",
                       STR_ARG(shown));
    }
    if (errnum == EISDIR) {
        return err_set(e, ERR_INVALID, "%.*s is a folder: name the audit log in it",
                       STR_ARG(shown));
    }
    return err_sys(e, errnum, "the audit log %.*s cannot be read", STR_ARG(shown));
}

int audit_verify(struct str path, struct audit_verdict *out, struct err *e)
{
    struct arena scratch own_arena = {0};
    struct buf pending own_buf = {0};
    struct verifying v = {.out = out};

    *out = (struct audit_verdict){.first = AUDIT_NO_HASH, .last = AUDIT_NO_HASH};
    arena_init(&scratch, 64u << 10);
    int fd own_fd = open(arena_cstr(&scratch, path), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int failure = errno;
    int head own_fd = open(arena_printf(&scratch, "%.*s.head", STR_ARG(path)).p,
                           O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0) {
        return refuse(path, failure, head >= 0, e);
    }
    if (head < 0 || audit_read_head(head, &v.head) < 0) {
        v.head.size = 0; /* a copy, or a file that was moved away */
    }
    buf_init(&pending, AUDIT_LINE_MAX + READ_SIZE + 1);
    if (read_lines(fd, &v, &pending, e) < 0) {
        return refuse(path, e->sys, head >= 0, e);
    }
    if (out->broken_at == 0 && v.head.size > 0 && !v.at_head) {
        v.number++;
        break_at(
            &v, "the file was longer when it was last written: lines were removed from its end, or "
                "its last line was changed");
    }
    if (out->broken_at == 0 && pending.len > 0) {
        out->torn++; /* the last line, and nobody has written since */
    }
    return 0;
}
