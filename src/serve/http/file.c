/*
 * file.c - files of boxes over HTTP: /sandbox/file.
 *
 * Paths need no check: the worker in the box can do what code in the box could, and no more.
 * Whose boxes are meant is said by the key, or by a link (core/link.h). Each request is one
 * line in the logs and counters, as if it were a call of a tool.
 */
#include "serve/http/file.h"

#include "base/clock.h"
#include "core/link.h"
#include "core/metrics.h"
#include "json/js.h"
#include "serve/http/http_own.h"
#include "serve/http/keys.h"
#include "serve/http/parse.h"
#include "serve/http/route.h"
#include "tools/record.h"

#define BUSY_PAUSE_MS 20
#define WORD_MAX      256

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
    if (t->path.len == 0 || t->path.len > FILE_PATH_MAX) {
        return err_set(e, ERR_INVALID,
                       "file_path must be the path of a file in the sandbox, of at most %d bytes: "
                       "%s?sandbox_name=NAME&file_path=PATH",
                       FILE_PATH_MAX, LINK_PATH);
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
    if (r->http->keys != NULL && !keys_has(r->http->keys, name)) {
        return callers_nobody(callers); /* links end with the key that they were made for */
    }
    return callers_of_key(callers, name, to.owner);
}

/* True: whose link is not good was refused. It is no line of the audit log: anybody could fill
 * the disk by that. */
static bool refuse_nobody(struct request *r)
{
    struct link_to to;
    struct target t;
    struct err e;

    if (r->caller != callers_nobody(r->http->callers)) {
        return false;
    }
    if (read_target(r, &t, &e) == 0 && read_link(r, &t, &to, &e) == 0) {
        (void)err_set(&e, ERR_DENIED, "this link is not good any more");
    }
    request_fail(r, MHD_HTTP_FORBIDDEN, "denied", "%s", e.msg);
    return true;
}

/* The box with a reference; NULL: it was refused. */
static struct box *find_box(struct request *r, struct target *t, struct err *e)
{
    struct box *b =
        boxes_find(r->services->boxes, &r->ctx, &r->caller->scope, &t->want, &t->box_id, e);
    if (b == NULL) {
        request_fail_err(r, e);
    }
    return b;
}

/* ---- what both need ------------------------------------------------------------------------- */

/* A full disk is nobody's mistake, and asking again soon does not help. */
void file_fail(struct request *r, const struct err *e)
{
    if (e->kind == ERR_LIMIT && e->sys != 0) {
        request_fail(r, MHD_HTTP_INSUFFICIENT_STORAGE, "limit", "%s", e->msg);
    } else {
        request_fail_err(r, e);
    }
}

bool file_wait_while_busy(struct request *r, int64_t until_ms, struct err *e)
{
    int64_t now = clock_mono_ms();

    return e->kind == ERR_LIMIT && e->sys == 0 && now < until_ms &&
           ctx_wait(&r->ctx, NULL, 0, now + BUSY_PAUSE_MS, e) == 0;
}

int file_stat(struct request *r, struct box *b, struct str path, struct file_info *out,
              struct err *e)
{
    int64_t until_ms = clock_mono_ms() + FILE_BUSY_MS;

    while (box_file_stat(b, &r->ctx, path, out, e) < 0) {
        if (!file_wait_while_busy(r, until_ms, e)) {
            return -1;
        }
    }
    return 0;
}

int file_check_regular(struct str path, const struct file_info *info, struct err *e)
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

/* ---- one request ------------------------------------------------------------------------------ */

typedef void file_fn(struct request *r, struct box *b, const struct target *t, struct err *e);

static void run_recorded(struct request *r, struct target *t, file_fn *work, struct call *c)
{
    struct box *b CLEANUP(box_unref_p) = NULL;
    struct err e = {0};

    b = find_box(r, t, &e);
    if (b != NULL) {
        e.kind = ERR_NONE;
        work(r, b, t, &e);
    }
    if (e.kind == ERR_GONE && t->box_id.len > 0) {
        boxes_lost(r->services->boxes, &r->ctx, t->box_id, STR_EMPTY);
    }
    c->failed = e.kind;
    c->box_id = t->box_id;
}

/* `as` is how the logs and counters call it. */
static void run_file(struct request *r, const struct tool *as, file_fn *work)
{
    struct call call = {
        .ctx = &r->ctx,
        .services = r->services,
        .scope = &r->caller->scope,
        .transport = "http",
    };
    int64_t began_us = clock_mono_us();
    json_t *arguments own_json = NULL;
    struct record record;
    struct target t;
    struct err e;

    if (read_target(r, &t, &e) < 0) {
        request_fail_err(r, &e);
        return;
    }
    metrics_begin(r->services->metrics);
    arguments = json_pack("{s:o, s:o, s:o}", "sandbox_id", js_string(t.want.id), "sandbox_name",
                          js_string(t.want.name), "file_path", js_string(t.path));
    if (record_begin(&record, as, &call, arguments, &e) < 0) {
        call.failed = e.kind;
        request_fail_err(r, &e);
    } else {
        run_recorded(r, &t, work, &call);
    }
    record_end(&record);
    metrics_end(r->services->metrics, as->name, call.failed, clock_mono_us() - began_us);
}

static const struct tool as_get = {.name = "get_file", .hints = HINT_READ_ONLY};
static const struct tool as_put = {.name = "put_file", .hints = HINT_DESTRUCTIVE};

static void run_get(struct request *r)
{
    if (!refuse_nobody(r) && request_enter_file(r)) {
        run_file(r, &as_get, file_get);
        request_leave_file(r);
    }
}

static void run_put(struct request *r)
{
    if (request_enter_file(r)) {
        run_file(r, &as_put, file_put);
        request_leave_file(r);
    }
}

const struct route file_routes[] = {
    {
        .path = LINK_PATH,
        .methods = HTTP_GET,
        .flags = ROUTE_CORS,
        .run = run_get,
        .admit = admit_link,
    },
    {
        .path = LINK_PATH,
        .methods = HTTP_PUT,
        .flags = ROUTE_CORS | ROUTE_UPLOAD | ROUTE_WRITES,
        .run = run_put,
    },
    {.path = NULL},
};
