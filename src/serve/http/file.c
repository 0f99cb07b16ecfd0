/*
 * file.c - files of boxes over HTTP: GET, HEAD and PUT /sandbox/file.
 *
 * Nothing is read into memory: the box's worker sends pieces, request_write() sleeps while the
 * client is slower than the box, and the other way round for PUT. Paths need no check: the
 * worker in the box can do what code in the box could, and no more.
 *
 * A file is described before it is read, because the headers come first. When it shrinks in
 * between, the connection is cut, so that the client does not take half a file for all of it.
 */

#include "base/clock.h"
#include "base/log.h"
#include "core/link.h"
#include "json/js.h"
#include "serve/http/http_own.h"
#include "serve/http/keys.h"
#include "serve/http/parse.h"
#include "serve/http/route.h"
#include "serve/http/validate.h"

#define PATH_MAX_LEN  4096
#define BUSY_WAIT_MS  5000
#define BUSY_PAUSE_MS 20
#define WORD_MAX      256
#define SIZELESS_MAX  ((size_t)4 << 20) /* of a file whose size is 0, such as those of /proc */

struct target {
    struct box_want want;
    struct str path;
    struct str link; /* what came as such; empty: nothing */
};

/* ---- which file ---------------------------------------------------------------------------- */

static int read_target(struct request *r, struct target *t, struct err *e)
{
    *t = (struct target){0};
    if (request_query(r, S("sandbox_id"), &t->want.id, e) < 0 ||
        request_query(r, S("sandbox_name"), &t->want.name, e) < 0 ||
        request_query(r, S("file_path"), &t->path, e) < 0 ||
        request_query(r, S("link"), &t->link, e) < 0) {
        return -1;
    }
    if (t->path.len == 0 || t->path.len > PATH_MAX_LEN) {
        return err_set(e, ERR_INVALID,
                       "file_path must be the path of a file in the sandbox, of at most %d bytes: "
                       "%s?sandbox_name=NAME&file_path=PATH",
                       PATH_MAX_LEN, LINK_PATH);
    }
    if (t->want.id.len > WORD_MAX || t->want.name.len > WORD_MAX) {
        return err_set(e, ERR_INVALID, "sandbox_id and sandbox_name have at most %d bytes",
                       WORD_MAX);
    }
    return 0;
}

/* Whose link came with the request. */
static int read_link(struct request *r, const struct target *t, struct link_to *to, struct err *e)
{
    *to = (struct link_to){.box = t->want.id, .path = t->path};
    if (t->want.name.len > 0) {
        return err_set(e, ERR_DENIED, "a link names its sandbox by sandbox_id alone");
    }
    return link_check(r->services, t->link, r->arena, to, e);
}

/* The caller of a link; who has one that is not good is nobody, and hears so from the handler. */
static struct caller *admit_link(struct request *r)
{
    struct callers *callers = r->http->callers;
    struct target t;
    struct link_to to;
    struct str name;
    struct err ignored;

    if (read_target(r, &t, &ignored) < 0 || t.link.len == 0) {
        return NULL;
    }
    if (read_link(r, &t, &to, &ignored) < 0) {
        return callers_nobody(callers);
    }
    if (to.owner.len == 0) {
        return callers_local(callers);
    }
    name = str_starts(to.owner, S("key:")) ? str_skip(to.owner, 4) : to.owner;
    return callers_of_key(callers, name, to.owner);
}

/* The box with a reference; NULL: it was refused. */
static struct box *find_box(struct request *r, struct target *t)
{
    struct link_to to;
    struct str id;
    struct box *b;
    struct err e;

    if (read_target(r, t, &e) < 0) {
        request_fail_err(r, &e);
        return NULL;
    }
    if (r->caller == callers_nobody(r->http->callers)) {
        if (read_link(r, t, &to, &e) < 0) {
            request_fail(r, MHD_HTTP_FORBIDDEN, "denied", "%s", e.msg);
        } else { /* It went bad just now. */
            request_fail(r, MHD_HTTP_FORBIDDEN, "denied", "this link is not good any more");
        }
        return NULL;
    }
    b = boxes_find(r->services->boxes, &r->ctx, &r->caller->scope, &t->want, &id, &e);
    if (b == NULL) {
        request_fail_err(r, &e);
    }
    return b;
}

/* A full disk is nobody's mistake, and asking again soon does not help. */
static void fail_file(struct request *r, const struct err *e)
{
    if (e->kind == ERR_LIMIT && e->sys != 0) {
        request_fail(r, MHD_HTTP_INSUFFICIENT_STORAGE, "limit", "%s", e->msg);
    } else {
        request_fail_err(r, e);
    }
}

/* A box serves so many requests at once; whoever is one too many waits for a while. False when
 * that is not what was wrong, or it was for too long. */
static bool wait_while_busy(struct request *r, int64_t until_ms, struct err *e)
{
    int64_t now = clock_mono_ms();

    return e->kind == ERR_LIMIT && e->sys == 0 && now < until_ms &&
           ctx_wait(&r->ctx, NULL, 0, now + BUSY_PAUSE_MS, e) == 0;
}

static int stat_file(struct request *r, struct box *b, struct str path, struct file_info *out,
                     struct err *e)
{
    int64_t until_ms = clock_mono_ms() + BUSY_WAIT_MS;

    while (box_file_stat(b, &r->ctx, path, out, e) < 0) {
        if (!wait_while_busy(r, until_ms, e)) {
            return -1;
        }
    }
    return 0;
}

/* ---- down ----------------------------------------------------------------------------------- */

/* 0 when it is a regular file. */
static int check_regular(struct str path, const struct file_info *info, struct err *e)
{
    switch (info->type) {
    case FILE_REGULAR: return 0;
    case FILE_DIR:
        return err_set(e, ERR_INVALID, "%.*s is a folder, not a file; list_remote_files lists it",
                       STR_ARG(str_head(path, 256)));
    case FILE_SYMLINK:
    case FILE_OTHER: break;
    }
    return err_set(e, ERR_INVALID, "%.*s is no regular file; only those can be sent",
                   STR_ARG(str_head(path, 256)));
}

static void set_headers(struct request *r, const struct target *t, const struct file_info *info,
                        struct download_type type)
{
    struct buf text own_buf = {0};
    char etag[VALIDATE_ETAG_SIZE];
    char date[VALIDATE_DATE_SIZE];

    buf_init(&text, 3 * PATH_MAX_LEN + 256);
    http_disposition(&text, t->path, type.shown_inline);
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
                          const char *type)
{
    struct buf bytes own_buf = {0};
    struct sink sink = {.write = keep_piece, .arg = &bytes};
    struct file_info info;
    struct err e;

    buf_init(&bytes, SIZELESS_MAX);
    if (box_file_read(b, &r->ctx, t->path, 0, (int64_t)SIZELESS_MAX, &sink, &info, &e) < 0) {
        fail_file(r, &e);
        return;
    }
    request_reply(r, MHD_HTTP_OK, type, buf_str(&bytes));
}

static int read_part(struct box *b, const struct target *t, struct http_range part,
                     struct download *d, struct err *e)
{
    struct request *r = d->request;
    struct sink sink = {.write = send_piece, .arg = d};
    int64_t until_ms = clock_mono_ms() + BUSY_WAIT_MS;
    struct file_info info;

    while (box_file_read(b, &r->ctx, t->path, (int64_t)part.first, d->size, &sink, &info, e) < 0) {
        if (d->began || !wait_while_busy(r, until_ms, e)) {
            return -1;
        }
    }
    return 0;
}

static void send_part(struct request *r, struct box *b, const struct target *t, struct download *d,
                      struct http_range part)
{
    char quoted[LOG_QUOTE_SIZE];
    struct err e = {0};
    int failed;

    d->size = (int64_t)(part.last - part.first) + 1;
    if (r->method == HTTP_HEAD) {
        if (request_begin(r, d->status, d->type, d->size, &e) == 0) {
            request_end(r, true);
        }
        return;
    }
    failed = read_part(b, t, part, d, &e);
    if (d->began) {
        request_end(r, d->sent == d->size);
    } else if (failed < 0) {
        fail_file(r, &e);
    } else {
        request_fail(r, MHD_HTTP_CONFLICT, "invalid",
                     "the file became empty while it was read; ask again");
    }
    if (failed < 0 && d->began && d->sent < d->size) {
        /* The client sees only that the connection ends. */
        log_line(LOG_INFO, "http", "msg=\"file not sent\" sent=%lld of=%lld problem=%s",
                 (long long)d->sent, (long long)d->size, log_quote(str_from(e.msg), quoted));
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
                      const struct file_info *info)
{
    struct download_type type = http_file_type(t->path);
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
        request_fail(r, MHD_HTTP_RANGE_NOT_SATISFIABLE, "invalid",
                     "the range is beyond the end of the file, which has %lld bytes",
                     (long long)info->size);
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
        send_sizeless(r, b, t, type.type);
        return;
    }
    send_part(r, b, t, &d, part);
}

static void get_file(struct request *r)
{
    struct target t;
    struct file_info info;
    struct err e;
    struct box *b CLEANUP(box_unref_p) = find_box(r, &t);

    if (b == NULL) {
        return;
    }
    if (stat_file(r, b, t.path, &info, &e) < 0 || check_regular(t.path, &info, &e) < 0) {
        fail_file(r, &e);
        return;
    }
    send_file(r, b, &t, &info);
}

/* ---- up ------------------------------------------------------------------------------------- */

/* Sleeps until the client has sent more, and wakes with an error when it goes away. */
static ssize_t take_piece(void *arg, char *to, size_t cap, struct err *e)
{
    size_t got = 0;

    return request_read(arg, to, cap, &got, e) < 0 ? -1 : (ssize_t)got;
}

static void fail_put(struct request *r, const struct err *e, bool only_new)
{
    if (e->kind == ERR_LIMIT && e->sys == 0) {
        request_fail(r, MHD_HTTP_CONTENT_TOO_LARGE, "limit",
                     "The file is longer than the %zu bytes that http.max_upload allows; nothing "
                     "was written.",
                     request_body_max(r));
    } else if (e->kind == ERR_EXISTS && only_new) {
        request_fail(r, MHD_HTTP_PRECONDITION_FAILED, "exists", "%s", e->msg);
    } else {
        fail_file(r, e);
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

static void write_file(struct request *r, struct box *b, const struct target *t)
{
    struct source source = {.read = take_piece, .arg = r, .fd = -1};
    bool only_new = str_eq(request_header(r, "If-None-Match"), S("*"));
    struct file_info info = {0};
    struct err e;
    bool is_new = stat_file(r, b, t->path, &info, &e) < 0;

    if (is_new && e.kind != ERR_NOT_FOUND) {
        fail_file(r, &e);
        return;
    }
    if (!is_new && check_regular(t->path, &info, &e) < 0) {
        fail_file(r, &e);
        return;
    }
    if (box_file_write(b, &r->ctx, t->path, 0, only_new ? FILE_PARENTS | FILE_NEW : FILE_PARENTS,
                       &source, &info, &e) < 0) {
        fail_put(r, &e, only_new);
        return;
    }
    answer_put(r, t, &info, is_new);
}

static void put_file(struct request *r)
{
    struct target t;
    struct box *b CLEANUP(box_unref_p) = NULL;

    if (request_header(r, "Content-Range").len > 0) {
        request_fail(r, MHD_HTTP_BAD_REQUEST, "invalid",
                     "A file can be put as a whole only, without Content-Range.");
        return;
    }
    b = find_box(r, &t);
    if (b != NULL) {
        write_file(r, b, &t);
    }
}

const struct route file_routes[] = {
    {
        .path = LINK_PATH,
        .methods = HTTP_GET,
        .flags = ROUTE_CORS,
        .run = get_file,
        .admit = admit_link,
    },
    {
        .path = LINK_PATH,
        .methods = HTTP_PUT,
        .flags = ROUTE_CORS | ROUTE_UPLOAD | ROUTE_WRITES,
        .run = put_file,
    },
    {.path = NULL},
};
