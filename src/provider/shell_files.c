/*
 * shell_files.c - files of a box by scripts in its own sh, which any name can go through.
 *
 * Contents go with the script, as its input and its output. Where the way has another one for
 * large contents (shell_way.store and fetch), they take that. A file is written beside its place and
 * moved there. What comes back is the box's word: it is parsed strictly and believed for
 * nothing but what it says of the box's own files.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/own.h"
#include "base/path.h"
#include "base/plain.h"
#include "provider/feed.h"
#include "provider/over_shell.h"
#include "provider/shell.h"
#include "provider/sink.h"
#include "tree/apply.h"

#define ERRORS_MAX 16384
#define CLEAN_MS   5000
#define OTHER_END  "//\n" /* in no path: behind each that a find without -printf found */

/* Exit codes of the scripts. */
enum {
    HAS_EXISTS = 91,
    NO_PARENT = 92,
    NO_FILE = 93,
    IS_FOLDER = 94,
    IS_ODD = 95,
    NO_RIGHT = 96,
};

/* ---- one script about one path ---------------------------------------------------------------------------- */

struct job {
    const struct shell_way *way;
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
    *j = (struct job){
        .way = b->provider->ops->shell, .box = b, .ctx = ctx, .path = str_head(path, 256)};
    buf_init(&j->script, SHELL_TEXT_MAX);
    buf_init(&j->out, 256u << 20);
    buf_init(&j->errors, ERRORS_MAX);
    if (str_has(path, '\0')) {
        return err_set(e, ERR_INVALID, "a path cannot hold a NUL byte");
    }
    if (j->way->place(b, ctx, path, &j->real, e) < 0) {
        return -1;
    }
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

    return j->way->run(j->box, j->ctx, buf_str(&j->script), input, &sink, &j->status, e);
}

static bool says(const struct job *j, const char *words)
{
    return j->errors.len > 0 && memmem(j->errors.p, j->errors.len, words, strlen(words)) != NULL;
}

static bool is_denied(const struct job *j)
{
    return says(j, "ermission denied") || says(j, "Read-only") || says(j, "not permitted") ||
           (j->status == NO_RIGHT && j->errors.len == 0);
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
    if (is_denied(j)) {
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

static unsigned hex_of(struct str text)
{
    unsigned v = 0;

    for (size_t i = 0; i < text.len && i < 8; i++) {
        char c = text.p[i];

        v = v << 4 | ((unsigned)(c >= 'a' ? c - 'a' + 10 : c - '0') & 15u);
    }
    return v;
}

static enum file_type type_of(unsigned mode)
{
    return S_ISREG(mode)   ? FILE_REGULAR
           : S_ISDIR(mode) ? FILE_DIR
           : S_ISLNK(mode) ? FILE_SYMLINK
                           : FILE_OTHER;
}

/* "81a4 5 1763230000": stat's raw mode in hex, size, seconds. */
static int parse_info(struct job *j, struct str line, struct file_info *out, struct err *e)
{
    struct str rest;
    unsigned mode = hex_of(str_cut(line, ' ', &rest));
    struct str text = str_cut(rest, ' ', &rest);
    int64_t size = 0;
    int64_t mtime_s = 0;

    if (str_to_i64(text, 0, INT64_MAX, &size, e) < 0 ||
        str_to_i64(rest, INT64_MIN, INT64_MAX, &mtime_s, e) < 0) {
        return err_set(e, ERR_PROTOCOL, "the sandbox's stat printed what cannot be right");
    }
    *out = (struct file_info){
        .path = arena_str(j->ctx->arena, j->real),
        .type = type_of(mode),
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

/* What a script prints: a line about the file, then its bytes, which go on as they come. */
struct reading {
    struct job *job;
    const struct sink *to;
    bool has_line;
};

static int take_read(void *arg, enum stream from, struct str bytes, struct err *e)
{
    struct reading *r = arg;
    struct buf *line = &r->job->out;

    if (from == STREAM_ERR || !r->has_line) {
        const char *end = from == STREAM_OUT ? memchr(bytes.p, '\n', bytes.len) : NULL;
        struct str part = end != NULL ? str_head(bytes, (size_t)(end - bytes.p)) : bytes;

        buf_add(from == STREAM_ERR ? &r->job->errors : line, part);
        if (end == NULL) {
            return 0;
        }
        r->has_line = true;
        bytes = str_skip(bytes, part.len + 1);
    }
    return bytes.len > 0 ? r->to->write(r->to->arg, STREAM_OUT, bytes, e) : 0;
}

static void add_read(struct job *j, int64_t from, int64_t max)
{
    buf_addf(
        &j->script,
        "s=$(stat -L -c '%%f %%s %%Y' -- \"$P\")||exit %d;[ ! -d \"$P\" ]||exit %d;"
        "[ -f \"$P\" ]||exit %d;[ -r \"$P\" ]||exit %d;echo \"$s\";s=${s#* };n=$((${s%% *}-%lld));"
        "[ $n -le %lld ]||n=%lld;[ $n -le 0 ]||",
        NO_FILE, IS_FOLDER, IS_ODD, NO_RIGHT, (long long)from, (long long)max, (long long)max);
    if (j->way->fetch != NULL) {
        buf_addf(&j->script, "[ $n -gt %d ]||", SHELL_FEW);
    }
    buf_addf(&j->script, "tail -c +%lld <\"$P\"|head -c $n", (long long)from + 1);
}

static int file_read(struct box *b, const struct ctx *ctx, struct str path, int64_t from,
                     int64_t max, const struct sink *to, struct file_info *out, struct err *e)
{
    struct job j CLEANUP(job_fini) = {0};
    struct reading r = {.job = &j, .to = to};
    const struct sink sink = {.write = take_read, .arg = &r};

    if (from < 0 || max < 0) {
        return err_set(e, ERR_INVALID, "an offset and a length cannot be negative");
    }
    if (job_begin(&j, b, ctx, path, e) < 0) {
        return -1;
    }
    add_read(&j, from, max);
    if (j.way->run(b, ctx, buf_str(&j.script), NULL, &sink, &j.status, e) < 0) {
        return -1;
    }
    if (j.status == IS_FOLDER) {
        return err_set(e, ERR_INVALID, "\"%.*s\" is a folder; list it instead", STR_ARG(j.path));
    }
    if (j.status != 0) {
        return job_fail(&j, "read", e);
    }
    if (parse_info(&j, buf_str(&j.out), out, e) < 0) {
        return -1;
    }
    int64_t n = out->size - from < max ? out->size - from : max;
    return j.way->fetch != NULL && n > SHELL_FEW ? j.way->fetch(b, ctx, j.real, from, max, to, e)
                                                 : 0;
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

static void add_finish(struct job *j, const char *then)
{
    buf_addf(&j->script,
             "chmod $m \"$u\"&&mv -f -- \"$u\" \"$t\"||{ rm -f -- \"$u\";exit %d;};%s%s\"$t\"",
             NO_RIGHT, then, STAT);
}

static int write_with_script(struct job *j, mode_t mode, enum write_flags flags, const char *random,
                             const struct source *from, struct file_info *out, struct err *e)
{
    add_target(j, mode, flags, random);
    add_temp(j);
    buf_addf(&j->script, "{ %scat;} >\"$u\"||{ rm -f -- \"$u\";exit %d;};",
             flags & FILE_APPEND ? "[ ! -e \"$t\" ]||cat <\"$t\";" : "", NO_RIGHT);
    add_finish(j, "");
    if (job_run(j, from, e) < 0) {
        return -1;
    }
    return j->status != 0 ? job_fail(j, "write", e)
                          : parse_info(j, str_trim(buf_str(&j->out)), out, e);
}

static void remove_temp(struct job *j, struct str temp)
{
    struct ctx ctx = {.arena = j->ctx->arena, .deadline_ms = clock_mono_ms() + CLEAN_MS};
    const struct sink nowhere = sink_nowhere();
    struct buf script own_buf = {0};
    struct err ignored;
    int status;

    buf_init(&script, SHELL_TEXT_MAX);
    buf_add(&script, S("rm -rf -- "));
    buf_add_quoted(&script, temp);
    (void)!j->way->run(j->box, &ctx, buf_str(&script), NULL, &nowhere, &status, &ignored);
}

/* The new file is born in a folder that nobody else can enter, $w: whoever stores it may give it
 * any mode at first. It is not there before, since ext4 writes a file to the disk at once that was
 * emptied and filled again, which takes as long as to send it. */
static int make_temp_folder(struct job *j, struct str *temp, struct err *e)
{
    buf_addf(&j->script, "(umask 077;mkdir -- \"$u\")||exit %d;printf %%s \"$u\"", NO_RIGHT);
    if (job_run(j, NULL, e) < 0) {
        return -1;
    }
    if (j->status != 0) {
        return job_fail(j, "write", e);
    }
    *temp = arena_str(j->ctx->arena, buf_str(&j->out));
    return 0;
}

static int finish_stored(struct job *j, struct str sent, enum write_flags flags, struct err *e)
{
    const char *append = flags & FILE_APPEND
                             ? "if [ -e \"$t\" ];then cat <\"$t\" >\"$w/a\"&&"
                               "cat <\"$v\" >>\"$w/a\"&&mv -f -- \"$w/a\" \"$v\";fi;"
                             : "";

    buf_clear(&j->out);
    buf_clear(&j->errors);
    buf_add(&j->script, S("w=$u;u=$w/f;v="));
    buf_add_quoted(&j->script, sent);
    buf_addf(&j->script, ";%s[ \"$v\" = \"$u\" ]||mv -f -- \"$v\" \"$u\"||exit %d;", append,
             NO_RIGHT);
    add_finish(j, "rmdir -- \"$w\";");
    return job_run(j, NULL, e);
}

static int write_stored(struct job *j, mode_t mode, enum write_flags flags, const char *random,
                        const struct source *from, struct file_info *out, struct err *e)
{
    struct arena *a = j->ctx->arena;
    size_t head = j->script.len;
    struct str temp;

    add_target(j, mode, flags, random);
    if (make_temp_folder(j, &temp, e) < 0) {
        return -1;
    }
    struct str sent = str_has(temp, '$') ? arena_printf(a, "/tmp/.anybox-%s.u", random)
                                         : arena_printf(a, "%.*s/f", STR_ARG(temp));
    int rc = j->way->store(j->box, j->ctx, sent, from, e);
    if (rc == 0) {
        j->script.len = head;
        add_target(j, mode, flags, random);
        rc = finish_stored(j, sent, flags, e);
    }
    if (rc < 0 || j->status != 0) {
        remove_temp(j, temp);
        remove_temp(j, sent);
    }
    if (rc < 0) {
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
    if (job_begin(&j, b, ctx, path, e) < 0) {
        return -1;
    }
    if (j.way->store == NULL) {
        return write_with_script(&j, mode, flags, random, from, out, e);
    }
    if (feed_fill(&feed, ctx, e) < 0) {
        return -1;
    }
    struct source all = feed_rest(&feed);
    return feed.is_whole ? write_with_script(&j, mode, flags, random, &all, out, e)
                         : write_stored(&j, mode, flags, random, &all, out, e);
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

const struct file_ops files_over_shell = {
    .stat = file_stat,
    .list = file_list,
    .read = file_read,
    .write = file_write,
    .mkdir = file_mkdir,
    .remove = file_remove,
};
