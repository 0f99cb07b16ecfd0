#include "tree/entry.h"

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
    return part.len > 0 && !str_eq(part, S(".")) && !str_eq(part, S(".."));
}

bool tree_path_ok(struct str path)
{
    if (path.len > TREE_PATH_MAX) {
        return false;
    }
    size_t start = 0;
    for (size_t i = 0; i <= path.len && path.len > 0; i++) {
        if (i < path.len && path.p[i] == '\0') {
            return false;
        }
        if (i < path.len && path.p[i] != '/') {
            continue;
        }
        if (!part_ok((struct str){path.p + start, i - start})) {
            return false;
        }
        start = i + 1;
    }
    return true;
}
