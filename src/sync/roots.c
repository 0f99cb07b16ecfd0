#include "sync/roots.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/path.h"

#define SHOWN_PATH  100 /* bytes of a path in a sentence, which has 512 */
#define SHOWN_ROOTS 3

/* With every link resolved; empty with errno when that cannot be done. */
static struct str real_path(struct arena *a, struct str path)
{
    char *real own_mem = realpath(arena_cstr(a, path), NULL);

    return real == NULL ? STR_EMPTY : arena_str(a, str_from(real));
}

static int explain(struct str path, int errnum, struct err *e)
{
    struct str shown = str_head(path, SHOWN_PATH);

    if (errnum == ENOTDIR) {
        return err_set(e, ERR_INVALID, "%.*s: something on the way there is a file, not a folder",
                       STR_ARG(shown));
    }
    return err_sys(e, errnum, "%.*s cannot be looked at", STR_ARG(shown));
}

/* `above` exists and is resolved; `rest` is what does not exist below it. */
static int join_missing(struct arena *a, struct str above, struct str rest, struct str *out,
                        struct err *e)
{
    struct str clean;

    while (str_starts(rest, S("/"))) {
        rest = str_skip(rest, 1);
    }
    clean = path_clean(a, rest);

    if (str_eq(clean, S("..")) || str_starts(clean, S("../"))) {
        return err_set(e, ERR_INVALID,
                       "the path goes up (\"..\") from a folder that does not exist; give it "
                       "without \"..\"");
    }
    *out = str_eq(clean, S(".")) ? above : path_clean(a, path_join(a, above, clean));
    return 0;
}

/* A link that leads nowhere is refused: what is written there would go wherever it says. */
static int resolve_missing(struct arena *a, struct str path, struct str *out, struct err *e)
{
    struct str above = path;
    struct str real;
    struct stat st;

    do {
        if (lstat(arena_cstr(a, above), &st) == 0) {
            return err_set(e, ERR_INVALID,
                           "%.*s is a link that leads nowhere; remove it, or make what it names",
                           STR_ARG(str_head(above, SHOWN_PATH)));
        }
        above = path_dir(above);
        real = real_path(a, above);
    } while (real.len == 0 && errno == ENOENT);
    if (real.len == 0) {
        return explain(path, errno, e);
    }
    if (stat(arena_cstr(a, real), &st) == 0 && !S_ISDIR(st.st_mode)) {
        return explain(path, ENOTDIR, e);
    }
    return join_missing(a, real, str_skip(path, above.len), out, e);
}

static int resolve(struct arena *a, struct str path, struct str *out, struct err *e)
{
    struct str real = real_path(a, path);

    if (real.len > 0) {
        *out = real;
        return 0;
    }
    return errno == ENOENT ? resolve_missing(a, path, out, e) : explain(path, errno, e);
}

/* ---- what may be used ------------------------------------------------------------------------ */

static void add_quoted(struct buf *b, struct str path)
{
    buf_addc(b, '"');
    for (size_t i = 0; i < path.len; i++) {
        if (path.p[i] == '"' || path.p[i] == '\\') {
            buf_addc(b, '\\');
        }
        buf_addc(b, path.p[i]);
    }
    buf_addc(b, '"');
}

/* "/a, /b and 2 more" */
static void add_roots(struct buf *b, const struct roots *r)
{
    for (size_t i = 0; i < r->n && i < SHOWN_ROOTS; i++) {
        buf_addf(b, "%s%.*s", i > 0 ? ", " : "", STR_ARG(str_head(r->paths[i], SHOWN_PATH / 2)));
    }
    if (r->n > SHOWN_ROOTS) {
        buf_addf(b, " and %zu more", r->n - SHOWN_ROOTS);
    }
}

static int refuse(const struct roots *r, struct str path, struct err *e)
{
    struct buf now own_buf = {0};
    struct buf line own_buf = {0};

    buf_init(&now, 256);
    buf_init(&line, 256);
    add_roots(&now, r);
    add_quoted(&line, str_head(path, (size_t)2 * SHOWN_PATH));
    return err_set(e, ERR_DENIED,
                   "%.*s is outside of the folders that may be synced%s (%s). To allow it, "
                   "the user adds allowed_roots = [%s] below [sync] in %.*s (key "
                   "sync.allowed_roots)",
                   STR_ARG(str_head(path, SHOWN_PATH)), r->over_http ? " over HTTP" : "",
                   r->n > 0 ? now.p : "there are none", line.p,
                   STR_ARG(str_head(r->config_file, SHOWN_PATH)));
}

static int check_state_dir(const struct roots *r, struct arena *a, struct str path, struct err *e)
{
    struct str state = STR_EMPTY;
    struct err ignored;

    if (r->state_dir.len == 0 || resolve(a, r->state_dir, &state, &ignored) < 0) {
        return 0;
    }
    if (path_inside(path, state)) {
        return err_set(e, ERR_DENIED, "%.*s is anybox's own state folder, which is never synced",
                       STR_ARG(str_head(path, SHOWN_PATH)));
    }
    if (path_inside(state, path)) {
        return err_set(e, ERR_DENIED,
                       "%.*s has anybox's own state folder (%.*s) in it, which is never synced; "
                       "sync the folders below it that are meant",
                       STR_ARG(str_head(path, SHOWN_PATH)), STR_ARG(str_head(state, SHOWN_PATH)));
    }
    return 0;
}

int roots_resolve(const struct roots *r, struct arena *a, struct str base, struct str home,
                  struct str path, struct str *out, struct err *e)
{
    struct str whole = path_join(a, base, path_tilde(a, path, home));
    struct str real = STR_EMPTY;
    bool allowed = false;

    if (!path_is_absolute(whole)) {
        return err_set(e, ERR_INVALID,
                       "%.*s is relative, and the folder that it is relative to is "
                       "not known; give the whole path",
                       STR_ARG(str_head(path, SHOWN_PATH)));
    }
    if (whole.len >= PATH_MAX) {
        return err_set(e, ERR_INVALID, "the path has %zu bytes; at most %d are allowed", whole.len,
                       PATH_MAX - 1);
    }
    if (resolve(a, whole, &real, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < r->n && !allowed; i++) {
        struct str root = real_path(a, r->paths[i]);

        allowed = root.len > 0 && path_inside(real, root);
    }
    if (!allowed) {
        return refuse(r, real, e);
    }
    if (check_state_dir(r, a, real, e) < 0) {
        return -1;
    }
    *out = real;
    return 0;
}
