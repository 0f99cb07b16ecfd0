/*
 * files.c - files of a sandbox. What they are is asked by scripts, which any name can go through
 * (execd's own paths know variables: a name with '$' is out of its reach); contents go through
 * execd's upload and download, or with the script where they are few. A file is written beside
 * its place and moved there.
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
#define OTHER_END       "//\n" /* in no path: behind each that a find without -printf found */

/* Exit codes of the scripts. */
enum {
    HAS_EXISTS = 91,
    NO_PARENT = 92,
    NO_FILE = 93,
    IS_FOLDER = 94,
    IS_ODD = 95,
    NO_RIGHT = 96,
};

/* ---- contents ----------------------------------------------------------------------------------- */

int osb_upload(struct osb_box *b, const struct ctx *ctx, struct str path, const struct source *from,
               struct err *e)
{
    json_t *meta own_json = json_object();
    struct buf text own_buf = {0};
    struct web_req req = {
        .file = from, .file_size = -1, .file_name = S("file"), .silence_ms = MOVE_SILENCE_MS};
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
    buf_addf(out,
             " >$o.o 2>$o.e;c=$?;if [ $(wc -c <$o.o) -le %d ];then base64 <$o.o|tr -d '\\n';"
             "rm -f $o.o;else printf %%s '*';fi;echo;head -c %d $o.e|base64|tr -d '\\n';echo;"
             "rm -f $o.e $o.i;exit $c",
             INLINE_OUT, ERRORS_MAX);
}

static int give_decoded(const struct run *r, enum stream from, struct str line, struct err *e)
{
    struct buf bytes own_buf = {0};

    buf_init(&bytes, 2 * INLINE_OUT);
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

static int hand_on(const struct run *r, struct str said, struct err *e)
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
    int rc = osb_download(r->box, r->ctx, path, 0, INT64_MAX, receive_out, (void *)(uintptr_t)r, e);
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

/* ---- one script about one path ---------------------------------------------------------------------------- */

struct job {
    struct box *box;
    const struct ctx *ctx;
    struct str path; /* as given, for sentences */
    struct str real;
    struct buf script, out, errors;
    int status;
};

static int keep(void *arg, enum stream from, struct str bytes, struct err *e)
{
    struct job *j = arg;

    (void)e;
    buf_add(from == STREAM_OUT ? &j->out : &j->errors, bytes);
    return 0;
}

static int job_begin(struct job *j, struct box *b, const struct ctx *ctx, struct str path,
                     struct err *e)
{
    struct way *way own_mem = xcalloc(1, sizeof(*way));

    *j = (struct job){.box = b, .ctx = ctx, .path = str_head(path, 256)};
    buf_init(&j->script, SCRIPT_MAX);
    buf_init(&j->out, 256u << 20);
    buf_init(&j->errors, ERRORS_MAX);
    if (str_has(path, '\0')) {
        return err_set(e, ERR_INVALID, "a path cannot hold a NUL byte");
    }
    if (osb_reach(osb_box_of(b), ctx, way, e) < 0) {
        return -1;
    }
    j->real = osb_absolute(ctx, way, path);
    buf_add(&j->script, S("LC_ALL=C;export LC_ALL;P="));
    buf_add_quoted(&j->script, j->real);
    buf_addc(&j->script, ';');
    return 0;
}

static void job_fini(struct job *j)
{
    buf_fini(&j->script);
    buf_fini(&j->out);
    buf_fini(&j->errors);
}

static int job_run(struct job *j, const struct source *input, struct err *e)
{
    struct sink sink = {.write = keep, .arg = j};

    return osb_script(j->box, j->ctx, buf_str(&j->script), input, &sink, &j->status, e);
}

static bool says(const struct job *j, const char *words)
{
    return j->errors.len > 0 && memmem(j->errors.p, j->errors.len, words, strlen(words)) != NULL;
}

static int job_fail(const struct job *j, const char *doing, struct err *e)
{
    struct buf why own_buf = {0};
    struct str rest;

    switch (j->status) {
    case HAS_EXISTS: return err_set(e, ERR_EXISTS, "\"%.*s\" exists already", STR_ARG(j->path));
    case IS_FOLDER:
        return err_set(e, ERR_INVALID, "\"%.*s\" is a folder; name a file in it", STR_ARG(j->path));
    case IS_ODD:
        return err_set(e, ERR_INVALID,
                       "\"%.*s\" is not a regular file but a pipe, socket or device",
                       STR_ARG(j->path));
    default: break;
    }
    if (says(j, "ermission denied") || says(j, "Read-only") || says(j, "not permitted") ||
        (j->status == NO_RIGHT && j->errors.len == 0)) {
        return err_set(e, ERR_DENIED, "%s \"%.*s\": permission denied in the sandbox", doing,
                       STR_ARG(j->path));
    }
    if (says(j, "No space left") || says(j, "quota exceeded")) {
        return err_set(e, ERR_LIMIT, "%s \"%.*s\": no space is left in the sandbox", doing,
                       STR_ARG(j->path));
    }
    if (says(j, "Not a directory") || says(j, "File exists")) {
        return err_set(e, ERR_INVALID, "%s \"%.*s\": a part of the path is a file, not a folder",
                       doing, STR_ARG(j->path));
    }
    if (says(j, "No such file") || j->status == NO_FILE || j->status == NO_PARENT) {
        return err_set(e, ERR_NOT_FOUND, "%s \"%.*s\": it does not exist in the sandbox", doing,
                       STR_ARG(j->path));
    }
    buf_init(&why, 300);
    plain_text(str_head(str_cut(buf_str(&j->errors), '\n', &rest), 200), &why);
    return err_set(e, ERR_SYSTEM, "%s \"%.*s\" failed in the sandbox: %.*s", doing,
                   STR_ARG(j->path), STR_ARG(buf_str(&why)));
}

/* "81a4 5 1763230000": stat's raw mode in hex, size, seconds. */
static int parse_info(struct job *j, struct str line, struct file_info *out, struct err *e)
{
    struct str rest;
    struct str text = str_cut(line, ' ', &rest);
    unsigned mode = 0;
    int64_t size = 0;
    int64_t mtime_s = 0;

    for (size_t i = 0; i < text.len && i < 8; i++) {
        char c = text.p[i];

        mode = mode << 4 | (unsigned)(c >= 'a' ? c - 'a' + 10 : c - '0');
    }
    text = str_cut(rest, ' ', &rest);
    if (str_to_i64(text, 0, INT64_MAX, &size, e) < 0 ||
        str_to_i64(rest, INT64_MIN, INT64_MAX, &mtime_s, e) < 0) {
        return err_set(e, ERR_PROTOCOL, "the sandbox's stat printed what cannot be right");
    }
    *out = (struct file_info){
        .path = arena_str(j->ctx->arena, j->real),
        .type = S_ISREG(mode)   ? FILE_REGULAR
                : S_ISDIR(mode) ? FILE_DIR
                : S_ISLNK(mode) ? FILE_SYMLINK
                                : FILE_OTHER,
        .mode = mode & 07777,
        .size = size,
        .mtime_s = mtime_s,
    };
    return 0;
}

#define STAT "stat -c '%f %s %Y' -- "

static int file_stat(struct box *b, const struct ctx *ctx, struct str path, struct file_info *out,
                     struct err *e)
{
    struct job j CLEANUP(job_fini) = {0};

    if (job_begin(&j, b, ctx, path, e) < 0) {
        return -1;
    }
    buf_add(&j.script, S(STAT "\"$P\""));
    if (job_run(&j, NULL, e) < 0) {
        return -1;
    }
    return j.status != 0 ? job_fail(&j, "look at", e)
                         : parse_info(&j, str_trim(buf_str(&j.out)), out, e);
}

/* ---- read --------------------------------------------------------------------------------------------------- */

struct passing {
    const struct sink *to;
};

static int pass_on(void *arg, struct str bytes, struct err *e)
{
    const struct passing *p = arg;

    return p->to->write(p->to->arg, STREAM_OUT, bytes, e);
}

/* What is too much for the answer of a script. */
static int fetch(struct job *j, int64_t from, int64_t max, const struct sink *to, struct err *e)
{
    struct passing p = {.to = to};
    struct buf said own_buf = {0}, script own_buf = {0};
    struct str path = j->real;
    char random[17];
    int status = 0;

    if (!str_has(path, '$')) {
        return osb_download(osb_box_of(j->box), j->ctx, path, from, max, pass_on, &p, e);
    }
    id_hex(random, 8);
    path = arena_printf(j->ctx->arena, "/tmp/.anybox-%s.l", random);
    buf_init(&script, SCRIPT_MAX);
    buf_init(&said, 1024);
    buf_add(&script, S("ln -s "));
    buf_add_quoted(&script, j->real);
    buf_addf(&script, " %.*s", STR_ARG(path));
    if (osb_run(osb_box_of(j->box), j->ctx, NULL, buf_str(&script), &said, &status, e) < 0) {
        return -1;
    }
    int rc = osb_download(osb_box_of(j->box), j->ctx, path, from, max, pass_on, &p, e);
    struct err ignored;
    buf_clear(&script);
    buf_addf(&script, "rm -f %.*s", STR_ARG(path));
    (void)!osb_run(osb_box_of(j->box), j->ctx, NULL, buf_str(&script), &said, &status, &ignored);
    return rc;
}

static int file_read(struct box *b, const struct ctx *ctx, struct str path, int64_t from,
                     int64_t max, const struct sink *to, struct file_info *out, struct err *e)
{
    struct job j CLEANUP(job_fini) = {0};
    struct str rest;

    if (from < 0 || max < 0) {
        return err_set(e, ERR_INVALID, "an offset and a length cannot be negative");
    }
    if (job_begin(&j, b, ctx, path, e) < 0) {
        return -1;
    }
    buf_addf(
        &j.script,
        "s=$(stat -L -c '%%f %%s %%Y' -- \"$P\")||exit %d;[ ! -d \"$P\" ]||exit %d;"
        "[ -f \"$P\" ]||exit %d;[ -r \"$P\" ]||exit %d;echo \"$s\";s=${s#* };n=$((${s%% *}-%lld));"
        "[ $n -le %lld ]||n=%lld;[ $n -le 0 ]||[ $n -gt %d ]||"
        "tail -c +%lld <\"$P\"|head -c $n",
        NO_FILE, IS_FOLDER, IS_ODD, NO_RIGHT, (long long)from, (long long)max, (long long)max,
        INLINE_OUT / 2, (long long)from + 1);
    if (job_run(&j, NULL, e) < 0) {
        return -1;
    }
    if (j.status == IS_FOLDER) {
        return err_set(e, ERR_INVALID, "\"%.*s\" is a folder; list it instead", STR_ARG(j.path));
    }
    if (j.status != 0) {
        return job_fail(&j, "read", e);
    }
    if (parse_info(&j, str_cut(buf_str(&j.out), '\n', &rest), out, e) < 0) {
        return -1;
    }
    int64_t n = out->size - from < max ? out->size - from : max;
    if (n <= 0) {
        return 0;
    }
    return n <= INLINE_OUT / 2 ? to->write(to->arg, STREAM_OUT, rest, e)
                               : fetch(&j, from, max, to, e);
}

/* ---- write --------------------------------------------------------------------------------------------------- */

/* $t: the file behind links, $d: its folder, $u: a new file in it, $m: the mode. */
static void add_target(struct job *j, mode_t mode, enum write_flags flags, const char *random)
{
    struct buf *s = &j->script;

    buf_add(s, S("t=$P;[ ! -L \"$t\" ]||t=$(readlink -f -- \"$t\")||exit 93;d=${t%/*};"));
    if (flags & FILE_PARENTS) {
        buf_addf(s, "[ -d \"${d:-/}\" ]||mkdir -p -- \"$d\"||exit %d;", NO_PARENT);
    } else {
        buf_addf(s, "[ -e \"${d:-/}\" ]||exit %d;", NO_PARENT);
    }
    buf_addf(s, "[ ! -d \"$t\" ]||exit %d;", IS_FOLDER);
    if (flags & FILE_NEW) {
        buf_addf(s, "[ ! -e \"$t\" ]||exit %d;", HAS_EXISTS);
    }
    buf_addf(s,
             "m=%o;if [ -e \"$t\" ];then [ -f \"$t\" ]||exit %d;[ -w \"$t\" ]||exit %d;%sfi;"
             "u=$d/" TREE_TEMP_PREFIX "%s;",
             mode != 0 ? mode & 07777u : 0644u, IS_ODD, NO_RIGHT,
             mode != 0 ? "" : "m=$(stat -c %a -- \"$t\");", random);
}

static void add_temp(struct job *j)
{
    buf_addf(&j->script, "(umask 077;: >\"$u\")||exit %d;", NO_RIGHT);
}

static void add_finish(struct job *j)
{
    buf_addf(&j->script,
             "chmod $m \"$u\"&&mv -f -- \"$u\" \"$t\"||{ rm -f -- \"$u\";exit %d;};%s\"$t\"",
             NO_RIGHT, STAT);
}

static int write_small(struct job *j, mode_t mode, enum write_flags flags, const char *random,
                       struct feed *feed, struct file_info *out, struct err *e)
{
    struct source all = feed_rest(feed);

    add_target(j, mode, flags, random);
    add_temp(j);
    buf_addf(&j->script, "{ %scat;} >\"$u\"||{ rm -f -- \"$u\";exit %d;};",
             flags & FILE_APPEND ? "[ ! -e \"$t\" ]||cat <\"$t\";" : "", NO_RIGHT);
    add_finish(j);
    if (job_run(j, &all, e) < 0) {
        return -1;
    }
    return j->status != 0 ? job_fail(j, "write", e)
                          : parse_info(j, str_trim(buf_str(&j->out)), out, e);
}

static void remove_temp(struct job *j, struct str temp)
{
    struct ctx ctx = {.arena = j->ctx->arena, .deadline_ms = clock_mono_ms() + CLEAN_MS};
    struct buf script own_buf = {0}, said own_buf = {0};
    struct err ignored;
    int status;

    buf_init(&script, SCRIPT_MAX);
    buf_init(&said, 1024);
    buf_add(&script, S("rm -f -- "));
    buf_add_quoted(&script, temp);
    (void)!osb_run(osb_box_of(j->box), &ctx, NULL, buf_str(&script), &said, &status, &ignored);
}

static int write_large(struct job *j, mode_t mode, enum write_flags flags, const char *random,
                       struct feed *feed, struct file_info *out, struct err *e)
{
    struct source all = feed_rest(feed);
    size_t head = j->script.len;
    const char *append = flags & FILE_APPEND
                             ? "if [ -e \"$t\" ];then cat <\"$t\" >\"$u.a\"&&"
                               "cat <\"$v\" >>\"$u.a\"&&mv -f -- \"$u.a\" \"$v\";fi;"
                             : "";

    add_target(j, mode, flags, random);
    add_temp(j);
    buf_add(&j->script, S("printf %s \"$u\""));
    if (job_run(j, NULL, e) < 0) {
        return -1;
    }
    if (j->status != 0) {
        return job_fail(j, "write", e);
    }
    struct str temp = arena_str(j->ctx->arena, buf_str(&j->out));
    struct str sent =
        str_has(temp, '$') ? arena_printf(j->ctx->arena, "/tmp/.anybox-%s.u", random) : temp;
    if (osb_upload(osb_box_of(j->box), j->ctx, sent, &all, e) < 0) {
        remove_temp(j, temp);
        remove_temp(j, sent);
        return -1;
    }
    j->script.len = head;
    buf_clear(&j->out);
    buf_clear(&j->errors);
    add_target(j, mode, flags, random);
    buf_add(&j->script, S("v="));
    buf_add_quoted(&j->script, sent);
    buf_addf(&j->script, ";%s[ \"$v\" = \"$u\" ]||mv -f -- \"$v\" \"$u\"||exit %d;", append,
             NO_RIGHT);
    add_finish(j);
    if (job_run(j, NULL, e) < 0) {
        remove_temp(j, temp);
        return -1;
    }
    return j->status != 0 ? job_fail(j, "write", e)
                          : parse_info(j, str_trim(buf_str(&j->out)), out, e);
}

static int file_write(struct box *b, const struct ctx *ctx, struct str path, mode_t mode,
                      enum write_flags flags, const struct source *from, struct file_info *out,
                      struct err *e)
{
    struct job j CLEANUP(job_fini) = {0};
    struct feed feed CLEANUP(feed_fini);
    char random[17];

    feed_init(&feed, from);
    id_hex(random, 8);
    if (str_ends(path, S("/"))) {
        return err_set(e, ERR_INVALID, "\"%.*s\" names a folder; name a file in it",
                       STR_ARG(str_head(path, 256)));
    }
    if (job_begin(&j, b, ctx, path, e) < 0 || feed_fill(&feed, ctx, e) < 0) {
        return -1;
    }
    return feed.is_whole ? write_small(&j, mode, flags, random, &feed, out, e)
                         : write_large(&j, mode, flags, random, &feed, out, e);
}

static int file_mkdir(struct box *b, const struct ctx *ctx, struct str path, struct err *e)
{
    struct job j CLEANUP(job_fini) = {0};

    if (job_begin(&j, b, ctx, path, e) < 0) {
        return -1;
    }
    buf_add(&j.script, S("mkdir -p -- \"$P\""));
    if (job_run(&j, NULL, e) < 0) {
        return -1;
    }
    return j.status != 0 ? job_fail(&j, "make", e) : 0;
}

static int file_remove(struct box *b, const struct ctx *ctx, struct str path, struct err *e)
{
    struct job j CLEANUP(job_fini) = {0};

    if (job_begin(&j, b, ctx, path, e) < 0) {
        return -1;
    }
    buf_add(&j.script, S("rm -rf -- \"$P\""));
    if (job_run(&j, NULL, e) < 0) {
        return -1;
    }
    return j.status != 0 ? job_fail(&j, "remove", e) : 0;
}

/* ---- list ------------------------------------------------------------------------------------------------------ */

struct found {
    struct file_info *items;
    size_t n, cap;
};

static int by_path(const void *a, const void *b)
{
    return tree_path_cmp(((const struct file_info *)a)->path, ((const struct file_info *)b)->path);
}

/* "f 644 12 1763230000.123 name" */
static bool parse_found(struct arena *a, struct str record, struct file_info *out)
{
    struct err ignored;
    struct str rest;
    struct str type = str_cut(record, ' ', &rest);
    struct str mode = str_cut(rest, ' ', &rest);
    struct str size = str_cut(rest, ' ', &rest);
    struct str time = str_cut(rest, ' ', &rest);
    struct str fraction;
    int64_t bits = 0;

    *out = (struct file_info){.type = FILE_OTHER};
    if (type.len != 1 || rest.len == 0 ||
        str_to_i64(size, 0, INT64_MAX, &out->size, &ignored) < 0 ||
        str_to_i64(str_cut(time, '.', &fraction), INT64_MIN, INT64_MAX, &out->mtime_s, &ignored) <
            0) {
        return false;
    }
    for (size_t i = 0; i < mode.len && i < 5; i++) {
        bits = bits << 3 | (mode.p[i] - '0');
    }
    out->mode = (mode_t)bits & 07777;
    switch (type.p[0]) {
    case 'f': out->type = FILE_REGULAR; break;
    case 'd': out->type = FILE_DIR; break;
    case 'l': out->type = FILE_SYMLINK; break;
    default: break;
    }
    out->path = arena_str(a, rest);
    return true;
}

/* "81a4 12 1763230000 ./name", where find has no -printf. */
static bool parse_other(struct job *j, struct str record, struct file_info *out)
{
    struct err ignored;
    const char *name = memmem(record.p, record.len, " ./", 3);

    if (name == NULL ||
        parse_info(j, str_head(record, (size_t)(name - record.p)), out, &ignored) < 0) {
        return false;
    }
    out->path = arena_str(j->ctx->arena, str_skip(record, (size_t)(name - record.p) + 3));
    return out->path.len > 0;
}

static struct str cut_other(struct str *said)
{
    const char *end = memmem(said->p, said->len, OTHER_END, strlen(OTHER_END));
    struct str record = str_head(*said, end != NULL ? (size_t)(end - said->p) : said->len);

    *said = str_skip(*said, end != NULL ? record.len + strlen(OTHER_END) : said->len);
    return record;
}

static int parse_all(struct job *j, struct found *to, struct err *e)
{
    struct str said = buf_str(&j->out);
    bool is_other = str_starts(said, S(OTHER_END));

    if (is_other) {
        said = str_skip(said, strlen(OTHER_END));
    }
    while (said.len > 0) {
        struct file_info one;

        if (!(is_other ? parse_other(j, cut_other(&said), &one)
                       : parse_found(j->ctx->arena, str_cut(said, '\0', &said), &one))) {
            return err_set(e, ERR_PROTOCOL, "the sandbox's find printed what cannot be right");
        }
        if (to->n == to->cap) {
            to->cap = to->cap > 0 ? 2 * to->cap : 64;
            to->items = xrealloc(to->items, to->cap, sizeof(*to->items));
        }
        to->items[to->n++] = one;
    }
    if (to->n > 0) {
        qsort(to->items, to->n, sizeof(*to->items), by_path);
    }
    return 0;
}

static void found_fini(struct found *f)
{
    free(f->items);
}

static int file_list(struct box *b, const struct ctx *ctx, const struct list_req *req,
                     file_info_fn *each, void *arg, bool *more, struct err *e)
{
    struct job j CLEANUP(job_fini) = {0};
    struct found found CLEANUP(found_fini) = {0};
    struct str base = req->dir;

    if (job_begin(&j, b, ctx, req->dir, e) < 0) {
        return -1;
    }
    buf_addf(&j.script,
             "stat -L -- \"$P\" >/dev/null||exit %d;[ -d \"$P\" ]||exit %d;cd -- \"$P\"||exit %d;"
             "[ -r . ]||exit %d;d='%s';find . -mindepth 1 $d -printf '%%y %%m %%s %%T@ %%P\\0'||"
             "find / -maxdepth 0 -printf '' 2>/dev/null||{ echo //;"
             "find . -mindepth 1 $d -exec stat -c '%%f %%s %%Y %%n//' {} +;}||:",
             NO_FILE, IS_ODD, NO_RIGHT, NO_RIGHT, req->recursive ? "" : "-maxdepth 1");
    if (job_run(&j, NULL, e) < 0) {
        return -1;
    }
    if (j.status == IS_ODD) {
        return err_set(e, ERR_INVALID, "\"%.*s\" is not a folder", STR_ARG(j.path));
    }
    if (j.status != 0) {
        return job_fail(&j, "list", e);
    }
    if (parse_all(&j, &found, e) < 0) {
        return -1;
    }
    while (base.len > 1 && str_ends(base, S("/"))) {
        base.len--;
    }
    for (size_t i = 0; i < found.n && i < req->max; i++) {
        found.items[i].path = path_join(ctx->arena, base, found.items[i].path);
        if (each(arg, &found.items[i], e) < 0) {
            return -1;
        }
    }
    *more = found.n > req->max;
    return 0;
}

const struct file_ops osb_files = {
    .stat = file_stat,
    .list = file_list,
    .read = file_read,
    .write = file_write,
    .mkdir = file_mkdir,
    .remove = file_remove,
};
