/*
 * files.c - bytes to and from a sandbox: scripts with exact input and output, for files, which
 * provider/shell_files.c asks by them, and for trees; and execd's upload and download where they
 * are many. Execd's own paths know variables: a name with '$' is out of its reach.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/base64url.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/own.h"
#include "base/path.h"
#include "base/plain.h"
#include "provider/opensandbox/own.h"
#include "provider/opensandbox/script.h"
#include "tree/apply.h"

#define MOVE_SILENCE_MS 180000 /* a large file is written to disk before execd answers */
#define INLINE_OUT      98304
#define ERRORS_MAX      16384
#define CLEAN_MS        5000

/* ---- contents ----------------------------------------------------------------------------------- */

int osb_upload(struct osb_box *b, const struct ctx *ctx, struct str path, const struct source *from,
               struct err *e)
{
    json_t *meta own_json = json_object();
    struct buf text own_buf = {0};
    struct web_req req = {.file = from, .file_name = S("file"), .silence_ms = MOVE_SILENCE_MS};
    struct web_resp resp own_resp;

    web_resp_init(&resp);
    buf_init(&text, 64u << 10);
    (void)json_object_set_new(meta, "path", js_string(path));
    (void)json_object_set_new(meta, "mode", json_integer(600));
    js_dump(meta, &text);
    req.file_meta = buf_str(&text);
    if (osb_execd(b, ctx, "POST", S("/files/upload"), &req, &resp, e) < 0) {
        return -1;
    }
    return resp.status == 200 ? 0 : osb_fail("store a file", &resp, e);
}

int osb_download(struct osb_box *b, const struct ctx *ctx, struct str path, int64_t from,
                 int64_t max, int (*receive)(void *arg, struct str bytes, struct err *e), void *arg,
                 struct err *e)
{
    struct buf url own_buf = {0};
    struct web_req req = {.receive = receive, .arg = arg, .silence_ms = MOVE_SILENCE_MS};
    struct web_resp resp own_resp;

    web_resp_init(&resp);
    buf_init(&url, 64u << 10);
    buf_add(&url, S("/files/download?path="));
    web_add_escaped(&url, path);
    if (from > 0 || max < INT64_MAX) {
        req.range = max < INT64_MAX - from
                        ? arena_printf(ctx->arena, "Range: bytes=%lld-%lld", (long long)from,
                                       (long long)(from + max - 1))
                        : arena_printf(ctx->arena, "Range: bytes=%lld-", (long long)from);
    }
    if (osb_execd(b, ctx, "GET", buf_str(&url), &req, &resp, e) < 0) {
        return -1;
    }
    if (resp.status == 416) {
        return 0; /* there is nothing from there on */
    }
    if (resp.status == 404) {
        return err_set(e, ERR_NOT_FOUND, "\"%.*s\" does not exist", STR_ARG(str_head(path, 256)));
    }
    return resp.status == 200 || resp.status == 206 ? 0 : osb_fail("read a file", &resp, e);
}

/* ---- scripts with exact bytes ------------------------------------------------------------------------ */

struct run {
    struct osb_box *box;
    const struct ctx *ctx;
    char mark[SCRIPT_MARK];
    struct str work;
    const struct sink *sink;
};

static int receive_out(void *arg, struct str bytes, struct err *e)
{
    const struct run *r = arg;

    return r->sink->write(r->sink->arg, STREAM_OUT, bytes, e);
}

/* Each program costs a millisecond in the sandbox: what is empty, as most errors are, needs none,
 * and few base64 do not know -w. */
static void add_run(struct buf *out, const struct run *r, struct str script, struct feed *feed)
{
    buf_addf(out, "o=/tmp/.anybox-%s;(umask 077;: >$o.o;: >$o.e);cd -- ", r->mark);
    buf_add_quoted(out, r->work);
    buf_add(out, S(" 2>/dev/null;"));
    if (feed != NULL && feed->is_whole) {
        script_add_bytes(out, buf_str(&feed->some));
        buf_addc(out, '|');
    }
    buf_add(out, S("sh -c "));
    buf_add_quoted(out, script);
    buf_add(out, feed != NULL && !feed->is_whole ? S(" <$o.i") : STR_EMPTY);
    buf_addf(
        out,
        " >$o.o 2>$o.e;c=$?;r=$o.o;if [ -s $o.o ];then if [ $(wc -c <$o.o) -le %d ];then "
        "base64 -w0 <$o.o 2>/dev/null||base64 <$o.o|tr -d '\\n';else printf %%s '*';r=;fi;fi;echo;"
        "[ ! -s $o.e ]||head -c %d $o.e|base64|tr -d '\\n';echo;rm -f $r $o.e $o.i;exit $c",
        INLINE_OUT, ERRORS_MAX);
}

static int give_decoded(const struct run *r, enum stream from, struct str line, struct err *e)
{
    struct buf bytes own_buf = {0};

    buf_init(&bytes, (size_t)2 * INLINE_OUT);
    if (base64_read_strict(line, &bytes, e) < 0) {
        return err_set(e, ERR_PROTOCOL, "the sandbox's base64 printed what cannot be right");
    }
    return bytes.len > 0 ? r->sink->write(r->sink->arg, from, buf_str(&bytes), e) : 0;
}

/* What a script that was left may have left. */
static void clean(const struct run *r, const char *suffixes)
{
    struct ctx ctx = {.arena = r->ctx->arena, .deadline_ms = clock_mono_ms() + CLEAN_MS};
    struct buf script own_buf = {0}, said own_buf = {0};
    struct err ignored;
    int status;

    buf_init(&script, 1024);
    buf_init(&said, 1024);
    buf_addf(&script, "o=/tmp/.anybox-%s;rm -f %s", r->mark, suffixes);
    (void)!osb_run(r->box, &ctx, NULL, buf_str(&script), &said, &status, &ignored);
}

static int hand_on(struct run *r, struct str said, struct err *e)
{
    struct str errors;
    struct str out = str_cut(said, '\n', &errors);
    struct str rest;

    errors = str_cut(errors, '\n', &rest);
    if (give_decoded(r, STREAM_ERR, errors, e) < 0) {
        return -1;
    }
    if (!str_eq(out, S("*"))) {
        return give_decoded(r, STREAM_OUT, out, e);
    }
    struct str path = arena_printf(r->ctx->arena, "/tmp/.anybox-%s.o", r->mark);
    int rc = osb_download(r->box, r->ctx, path, 0, INT64_MAX, receive_out, r, e);
    clean(r, "$o.o");
    return rc;
}

static int run_script(struct run *r, struct str script, struct feed *feed, int *status,
                      struct err *e)
{
    struct buf text own_buf = {0}, said own_buf = {0};

    buf_init(&text, SCRIPT_MAX);
    buf_init(&said, 1u << 20);
    if (feed != NULL && feed_fill(feed, r->ctx, e) < 0) {
        return -1;
    }
    if (feed != NULL && !feed->is_whole) {
        struct source rest = feed_rest(feed);
        struct str path = arena_printf(r->ctx->arena, "/tmp/.anybox-%s.i", r->mark);

        if (osb_upload(r->box, r->ctx, path, &rest, e) < 0) {
            clean(r, "$o.i");
            return -1;
        }
    }
    add_run(&text, r, script, feed);
    if (text.cut) {
        return err_set(e, ERR_LIMIT, "this is too long for one command of the sandbox");
    }
    if (osb_run(r->box, r->ctx, NULL, buf_str(&text), &said, status, e) < 0) {
        clean(r, "$o.i $o.o $o.e");
        return -1;
    }
    return hand_on(r, buf_str(&said), e);
}

int osb_script(struct box *b, const struct ctx *ctx, struct str script, const struct source *input,
               const struct sink *output, int *status, struct err *e)
{
    struct run r = {.box = osb_box_of(b), .ctx = ctx, .sink = output};
    struct way *way own_mem = xcalloc(1, sizeof(*way));
    struct feed feed CLEANUP(feed_fini);

    feed_init(&feed, input);
    id_hex(r.mark, (SCRIPT_MARK - 1) / 2);
    if (osb_reach(r.box, ctx, way, e) < 0) {
        return -1;
    }
    r.work = arena_str(ctx->arena, str_from(way->work));
    return run_script(&r, script, input != NULL ? &feed : NULL, status, e);
}

/* ---- contents that are too many for a script ---------------------------------------------------------- */

int osb_store(struct box *b, const struct ctx *ctx, struct str path, const struct source *from,
              struct err *e)
{
    return osb_upload(osb_box_of(b), ctx, path, from, e);
}

static int pass_on(void *arg, struct str bytes, struct err *e)
{
    const struct sink *const *to = arg;

    return (*to)->write((*to)->arg, STREAM_OUT, bytes, e);
}

int osb_fetch(struct box *b, const struct ctx *ctx, struct str path, int64_t from, int64_t max,
              const struct sink *to, struct err *e)
{
    struct buf said own_buf = {0}, script own_buf = {0};
    char random[17];
    int status = 0;

    if (!str_has(path, '$')) {
        return osb_download(osb_box_of(b), ctx, path, from, max, pass_on, &to, e);
    }
    id_hex(random, 8);
    struct str link = arena_printf(ctx->arena, "/tmp/.anybox-%s.l", random);
    buf_init(&script, SCRIPT_MAX);
    buf_init(&said, 1024);
    buf_add(&script, S("ln -s "));
    buf_add_quoted(&script, path);
    buf_addf(&script, " %.*s", STR_ARG(link));
    if (osb_run(osb_box_of(b), ctx, NULL, buf_str(&script), &said, &status, e) < 0) {
        return -1;
    }
    int rc = osb_download(osb_box_of(b), ctx, link, from, max, pass_on, &to, e);
    struct err ignored;
    buf_clear(&script);
    buf_addf(&script, "rm -f %.*s", STR_ARG(link));
    (void)!osb_run(osb_box_of(b), ctx, NULL, buf_str(&script), &said, &status, &ignored);
    return rc;
}
