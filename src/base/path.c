#include "base/path.h"

#include <string.h>

bool path_is_absolute(struct str path)
{
    return str_starts(path, S("/"));
}

/* Takes the last part off what is in `clean`; false when there is none to take. */
static bool drop_part(const char *clean, size_t *len, bool absolute)
{
    size_t floor = absolute ? 1 : 0;
    struct str last;

    if (*len <= floor) {
        return absolute; /* "/.." is "/" */
    }
    last = path_base((struct str){clean, *len});
    if (str_eq(last, S(".."))) {
        return false;
    }
    *len -= last.len;
    if (*len > floor) {
        (*len)--; /* the slash before it */
    }
    return true;
}

struct str path_clean(struct arena *a, struct str path)
{
    /* No result is longer than the input, but "." for "". */
    char *clean = arena_alloc(a, path.len + 2, 1);
    bool absolute = path_is_absolute(path);
    struct str rest = path;
    size_t len = 0;

    if (absolute) {
        clean[len++] = '/';
    }
    while (rest.len > 0) {
        struct str part = str_cut(rest, '/', &rest);

        if (part.len == 0 || str_eq(part, S("."))) {
            continue;
        }
        if (str_eq(part, S("..")) && drop_part(clean, &len, absolute)) {
            continue;
        }
        if (len > 0 && clean[len - 1] != '/') {
            clean[len++] = '/';
        }
        memcpy(clean + len, part.p, part.len);
        len += part.len;
    }
    if (len == 0) {
        clean[len++] = '.';
    }
    clean[len] = '\0';
    return (struct str){clean, len};
}

struct str path_join(struct arena *a, struct str base, struct str rel)
{
    char *joined;
    size_t len;

    if (base.len == 0 || path_is_absolute(rel)) {
        return arena_str(a, rel);
    }
    if (rel.len == 0) {
        return arena_str(a, base);
    }
    joined = arena_alloc(a, base.len + rel.len + 2, 1);
    memcpy(joined, base.p, base.len);
    len = base.len;
    if (joined[len - 1] != '/') {
        joined[len++] = '/';
    }
    memcpy(joined + len, rel.p, rel.len);
    return (struct str){joined, len + rel.len};
}

struct str path_tilde(struct arena *a, struct str path, struct str home)
{
    if (str_eq(path, S("~"))) {
        return arena_str(a, home);
    }
    if (str_starts(path, S("~/"))) {
        struct str rel = str_skip(path, 2);

        while (path_is_absolute(rel)) { /* "~//x" is below home as well */
            rel = str_skip(rel, 1);
        }
        return path_join(a, home, rel);
    }
    return path;
}

static struct str without_end_slashes(struct str path)
{
    while (path.len > 1 && path.p[path.len - 1] == '/') {
        path.len--;
    }
    return path;
}

/* Where the last part begins: behind the last slash. */
static size_t last_part(struct str path)
{
    size_t n = path.len;

    while (n > 0 && path.p[n - 1] != '/') {
        n--;
    }
    return n;
}

struct str path_base(struct str path)
{
    path = without_end_slashes(path);
    return path.len == 1 ? path : str_skip(path, last_part(path));
}

struct str path_dir(struct str path)
{
    size_t n;

    path = without_end_slashes(path);
    n = last_part(path);
    return n == 0 ? S(".") : without_end_slashes(str_head(path, n));
}

bool path_inside(struct str path, struct str root)
{
    if (str_eq(root, S("."))) {
        return !path_is_absolute(path) && !str_eq(path, S("..")) && !str_starts(path, S("../"));
    }
    if (!str_starts(path, root)) {
        return false;
    }
    return path.len == root.len || str_ends(root, S("/")) || path.p[root.len] == '/';
}
