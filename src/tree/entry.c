#include "tree/entry.h"

#include <string.h>

/* '/' sorts below every other byte, so that a folder's contents follow it directly. */
static int rank(char c)
{
    return c == '/' ? 0 : (unsigned char)c + 1;
}

int tree_path_cmp(struct str a, struct str b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    for (size_t i = 0; i < n; i++) {
        if (a.p[i] != b.p[i]) {
            return rank(a.p[i]) < rank(b.p[i]) ? -1 : 1;
        }
    }
    return a.len == b.len ? 0 : a.len < b.len ? -1 : 1;
}

static bool part_ok(struct str part)
{
    bool dots = part.len > 0 && part.len <= 2 && part.p[0] == '.' && part.p[part.len - 1] == '.';
    return part.len > 0 && !dots;
}

bool tree_path_ok(struct str path)
{
    if (path.len == 0) {
        return true;
    }
    if (path.len > TREE_PATH_MAX || memchr(path.p, '\0', path.len) != NULL) {
        return false;
    }
    for (;;) {
        const char *slash = memchr(path.p, '/', path.len);
        if (slash == NULL) {
            return part_ok(path);
        }
        size_t len = (size_t)(slash - path.p);
        if (!part_ok(str_head(path, len))) {
            return false;
        }
        path = str_skip(path, len + 1);
        if (path.len == 0) {
            return false;
        }
    }
}

#define NS 1000000000

int64_t tree_time_ns(struct timespec t)
{
    int64_t ns;
    if (__builtin_mul_overflow((int64_t)t.tv_sec, NS, &ns) ||
        __builtin_add_overflow(ns, t.tv_nsec, &ns)) {
        return t.tv_sec < 0 ? INT64_MIN : INT64_MAX;
    }
    return ns;
}

struct timespec tree_timespec(int64_t ns)
{
    int64_t rest = ns % NS;
    struct timespec t = {.tv_sec = ns / NS, .tv_nsec = rest};
    if (rest < 0) {
        t.tv_sec--;
        t.tv_nsec += NS;
    }
    return t;
}

void tree_entry_from(struct tree_entry *out, const struct stat *is)
{
    *out = (struct tree_entry){
        .type = TREE_OTHER,
        .mode = is->st_mode & 0777,
        .mtime_ns = tree_time_ns(is->st_mtim),
    };
    if (S_ISREG(is->st_mode)) {
        out->type = TREE_FILE;
        out->size = (uint64_t)is->st_size;
    } else if (S_ISDIR(is->st_mode)) {
        out->type = TREE_DIR;
    } else if (S_ISLNK(is->st_mode)) {
        out->type = TREE_LINK;
    }
}
