/*
 * file_put.c - PUT /sandbox/file: the body becomes the file, all at once. It is sent on as it
 * comes; when it breaks off, so does the conversation with the box, which leaves things as
 * they were.
 *
 * The source sleeps by itself, as there is no descriptor for what the client sends. It wakes for
 * all that would end the request; a box that fails meanwhile is noticed with the next piece.
 */
#include <string.h>

#include "base/clock.h"
#include "json/js.h"
#include "serve/http/file.h"
#include "serve/http/http_own.h"
#include "serve/http/validate.h"

#define HEAD_MAX ((size_t)256 << 10)

/* A body on its way into a box. Its beginning is kept, so that a box which was too busy can be
 * asked again. */
struct upload {
    struct request *request;
    struct buf head; /* cut: what was read is longer than that */
    size_t again;    /* how much of it was given this time */
    bool too_long;
};

/* Sleeps until the client has sent more, and wakes with an error when it goes away. */
static ssize_t take_piece(void *arg, char *to, size_t cap, struct err *e)
{
    struct upload *u = arg;
    struct str rest = str_head(str_skip(buf_str(&u->head), u->again), cap);
    size_t got = 0;

    if (rest.len > 0) {
        memcpy(to, rest.p, rest.len);
        u->again += rest.len;
        return (ssize_t)rest.len;
    }
    if (request_read(u->request, to, cap, &got, e) < 0) {
        u->too_long = e->kind == ERR_LIMIT;
        return -1;
    }
    buf_add(&u->head, (struct str){to, got});
    u->again = u->head.len;
    return (ssize_t)got;
}

static int write_file(struct box *b, const struct target *t, enum write_flags flags,
                      struct upload *u, struct file_info *out, struct err *e)
{
    struct request *r = u->request;
    struct source source = {.read = take_piece, .arg = u, .fd = -1};
    int64_t until_ms = clock_mono_ms() + FILE_BUSY_MS;

    while (box_file_write(b, &r->ctx, t->path, 0, flags, &source, out, e) < 0) {
        if (u->too_long || u->head.cut || !file_wait_while_busy(r, until_ms, e)) {
            return -1;
        }
        u->again = 0;
    }
    return 0;
}

static void fail_put(const struct upload *u, const struct err *e, bool only_new)
{
    struct request *r = u->request;

    if (u->too_long) {
        request_fail(r, MHD_HTTP_CONTENT_TOO_LARGE, "limit",
                     "The file is longer than the %zu bytes that http.max_upload allows; nothing "
                     "was written.",
                     request_body_max(r));
    } else if (e->kind == ERR_EXISTS && only_new) {
        request_fail(r, MHD_HTTP_PRECONDITION_FAILED, "exists", "%s", e->msg);
    } else {
        file_fail(r, e);
    }
}

static void answer_put(struct request *r, const struct target *t, const struct file_info *info,
                       bool is_new)
{
    char etag[VALIDATE_ETAG_SIZE];
    json_t *v own_json = NULL;

    request_set_header(r, "ETag",
                       validate_etag(info->size, info->mtime_s, clock_wall_ms() / 1000, etag));
    if (!is_new) {
        request_reply(r, MHD_HTTP_NO_CONTENT, NULL, STR_EMPTY);
        return;
    }
    v = json_pack("{s:o, s:I}", "file_path", js_string(t->path), "size", (json_int_t)info->size);
    request_json(r, MHD_HTTP_CREATED, v);
}

/* What may not be replaced is refused; *is_new: there is nothing. */
static int check_place(struct request *r, struct box *b, struct str path, bool *is_new,
                       struct err *e)
{
    struct file_info info = {0};

    if (request_header(r, "Content-Range").len > 0) {
        return err_set(e, ERR_INVALID, "a file can be put as a whole only, without Content-Range");
    }
    *is_new = file_stat(r, b, path, &info, e) < 0;
    if (*is_new) {
        return e->kind == ERR_NOT_FOUND ? 0 : -1;
    }
    return file_check_regular(path, &info, e);
}

void file_put(struct request *r, struct box *b, const struct target *t, struct err *e)
{
    struct upload u = {.request = r};
    bool only_new = str_eq(request_header(r, "If-None-Match"), S("*"));
    enum write_flags flags = only_new ? FILE_PARENTS | FILE_NEW : FILE_PARENTS;
    struct file_info info = {0};
    bool is_new = false;

    if (check_place(r, b, t->path, &is_new, e) < 0) {
        file_fail(r, e);
        return;
    }
    buf_init(&u.head, HEAD_MAX);
    if (write_file(b, t, flags, &u, &info, e) < 0) {
        fail_put(&u, e, only_new);
    } else {
        e->kind = ERR_NONE;
        answer_put(r, t, &info, is_new);
    }
    buf_fini(&u.head);
}
