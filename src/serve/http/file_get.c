/*
 * file_get.c - GET and HEAD /sandbox/file: nothing is read into memory. The box's worker sends
 * pieces, and request_write() sleeps while the client is slower than the box.
 *
 * A file is described before it is read, because the headers come first. When it shrinks in
 * between, the connection is cut, so that the client does not take half a file for all of it.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/mime.h"
#include "serve/http/file.h"
#include "serve/http/http_own.h"
#include "serve/http/parse.h"
#include "serve/http/validate.h"

#define SIZELESS_MAX ((size_t)4 << 20) /* of a file whose size is 0, such as those of /proc */

static void set_headers(struct request *r, const struct target *t, const struct file_info *info,
                        struct mime type)
{
    struct buf text own_buf = {0};
    char etag[VALIDATE_ETAG_SIZE];
    char date[VALIDATE_DATE_SIZE];

    buf_init(&text, 3 * FILE_PATH_MAX + 256);
    http_disposition(&text, t->path, type.passive);
    request_set_header(r, "Content-Disposition", buf_str(&text));
    request_set_header(r, "ETag",
                       validate_etag(info->size, info->mtime_s, clock_wall_ms() / 1000, etag));
    request_set_header(r, "Last-Modified", validate_date(info->mtime_s, date));
    request_set_header(r, "Accept-Ranges", S("bytes"));
    request_set_header(r, "Cache-Control", S("private, no-cache"));
    request_set_header(r, "Content-Security-Policy", S(HTTP_FILE_CSP));
    request_set_header(r, "Referrer-Policy", S("no-referrer"));
    /* A link may be shown in any page: who has it may have the file. */
    request_set_header(r, "Cross-Origin-Resource-Policy",
                       t->link.len > 0 ? S("cross-origin") : S("same-origin"));
}

/* A file on its way to the client. The answer begins with the first piece: until then what
 * goes wrong can still be told. */
struct download {
    struct request *request;
    unsigned status;
    const char *type;
    int64_t size, sent;
    bool began;
};

static int send_piece(void *arg, enum stream from, struct str bytes, struct err *e)
{
    struct download *d = arg;

    (void)from;
    if (!d->began && request_begin(d->request, d->status, d->type, d->size, e) < 0) {
        return -1;
    }
    d->began = true;
    d->sent += (int64_t)bytes.len;
    return request_write(d->request, bytes, e);
}

static int keep_piece(void *arg, enum stream from, struct str bytes, struct err *e)
{
    (void)from;
    (void)e;
    buf_add(arg, bytes);
    return 0;
}

/* Files of /proc say that they are empty and are not. */
static void send_sizeless(struct request *r, struct box *b, const struct target *t,
                          const char *type, struct err *e)
{
    struct buf bytes own_buf = {0};
    struct sink sink = {.write = keep_piece, .arg = &bytes};
    struct file_info info;

    buf_init(&bytes, SIZELESS_MAX);
    if (box_file_read(b, &r->ctx, t->path, 0, (int64_t)SIZELESS_MAX, &sink, &info, e) < 0) {
        file_fail(r, e);
        return;
    }
    request_reply(r, MHD_HTTP_OK, type, buf_str(&bytes));
}

static int read_part(struct box *b, const struct target *t, struct http_range part,
                     struct download *d, struct err *e)
{
    struct request *r = d->request;
    struct sink sink = {.write = send_piece, .arg = d};
    int64_t until_ms = clock_mono_ms() + FILE_BUSY_MS;
    struct file_info info;

    while (box_file_read(b, &r->ctx, t->path, (int64_t)part.first, d->size, &sink, &info, e) < 0) {
        if (d->began || !file_wait_while_busy(r, until_ms, e)) {
            return -1;
        }
    }
    return 0;
}

static void send_part(struct request *r, struct box *b, const struct target *t, struct download *d,
                      struct http_range part, struct err *e)
{
    char quoted[LOG_QUOTE_SIZE];

    d->size = (int64_t)(part.last - part.first) + 1;
    if (r->method == HTTP_HEAD) {
        if (request_begin(r, d->status, d->type, d->size, e) == 0) {
            request_end(r, true);
        }
        return;
    }
    if (read_part(b, t, part, d, e) == 0 && !d->began) {
        (void)err_set(e, ERR_INVALID, "the file became empty while it was read; ask again");
    }
    if (!d->began) {
        file_fail(r, e);
        return;
    }
    request_end(r, d->sent == d->size);
    if (d->sent == d->size) {
        e->kind = ERR_NONE; /* Who has it all may go before the box has said so. */
    } else {
        /* The client sees only that the connection ends. */
        log_line(LOG_INFO, "http", "msg=\"file not sent\" sent=%lld of=%lld problem=%s",
                 (long long)d->sent, (long long)d->size, log_quote(str_from(e->msg), quoted));
    }
}

/* True when the client has this version of the file already. */
static bool is_known(struct request *r, const struct file_info *info)
{
    char etag[VALIDATE_ETAG_SIZE];
    struct str ours = validate_etag(info->size, info->mtime_s, clock_wall_ms() / 1000, etag);
    struct str theirs = request_header(r, "If-None-Match");

    if (theirs.len > 0) {
        return validate_etag_in(theirs, ours);
    }
    return validate_not_since(request_header(r, "If-Modified-Since"), info->mtime_s);
}

static enum range_kind wanted_range(struct request *r, const struct file_info *info,
                                    struct http_range *out)
{
    char etag[VALIDATE_ETAG_SIZE];
    char date[VALIDATE_DATE_SIZE];
    struct str condition = request_header(r, "If-Range");
    int64_t now_s = clock_wall_ms() / 1000;

    if (r->method != HTTP_GET || request_header_count(r, "Range") != 1) {
        return RANGE_WHOLE;
    }
    if (condition.len > 0 &&
        !validate_if_range(condition, validate_etag(info->size, info->mtime_s, now_s, etag),
                           validate_date(info->mtime_s, date))) {
        return RANGE_WHOLE;
    }
    return http_range(request_header(r, "Range"), (uint64_t)info->size, out);
}

static void send_file(struct request *r, struct box *b, const struct target *t,
                      const struct file_info *info, struct err *e)
{
    struct mime type = mime_of(t->path);
    struct download d = {.request = r, .status = MHD_HTTP_OK, .type = type.type};
    struct http_range part = {0};

    if (is_known(r, info)) {
        set_headers(r, t, info, type);
        request_reply(r, MHD_HTTP_NOT_MODIFIED, NULL, STR_EMPTY);
        return;
    }
    switch (wanted_range(r, info, &part)) {
    case RANGE_NONE:
        request_set_header(r, "Content-Range",
                           arena_printf(r->arena, "bytes */%lld", (long long)info->size));
        (void)err_set(e, ERR_INVALID,
                      "the range is beyond the end of the file, which has %lld bytes",
                      (long long)info->size);
        request_fail(r, MHD_HTTP_RANGE_NOT_SATISFIABLE, "invalid", "%s", e->msg);
        return;
    case RANGE_PART:
        d.status = MHD_HTTP_PARTIAL_CONTENT;
        request_set_header(r, "Content-Range",
                           arena_printf(r->arena, "bytes %llu-%llu/%lld",
                                        (unsigned long long)part.first,
                                        (unsigned long long)part.last, (long long)info->size));
        break;
    case RANGE_WHOLE: part = (struct http_range){.last = (uint64_t)info->size - 1}; break;
    }
    set_headers(r, t, info, type);
    if (info->size == 0) {
        send_sizeless(r, b, t, type.type, e);
        return;
    }
    send_part(r, b, t, &d, part, e);
}

void file_get(struct request *r, struct box *b, const struct target *t, struct err *e)
{
    struct file_info info;

    if (file_stat(r, b, t->path, &info, e) < 0 || file_check_regular(t->path, &info, e) < 0) {
        file_fail(r, e);
        return;
    }
    e->kind = ERR_NONE;
    send_file(r, b, t, &info, e);
}
