#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tree/apply.h"
#include "tree/dirs.h"

struct pruner {
    struct dirs dirs;
    struct prune_stats stats;
    bool failed;
    struct err first;
};

static bool is_missing(int errnum)
{
    return errnum == ENOENT || errnum == ENOTDIR;
}

/* 0, or the errno. */
static int remove_name(struct pruner *p, const char *name)
{
    int dir = dirs_fd(&p->dirs);
    struct stat is;
    if (dir < 0 || fstatat(dir, name, &is, AT_SYMLINK_NOFOLLOW) < 0 || dirs_touch(&p->dirs) < 0) {
        return errno;
    }
    if (!S_ISDIR(is.st_mode)) {
        if (unlinkat(dir, name, 0) < 0) {
            return errno;
        }
        p->stats.files++;
        return 0;
    }
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0) {
        p->stats.dirs++;
        return 0;
    }
    if (errno != ENOTEMPTY && errno != EEXIST) {
        return errno;
    }
    p->stats.kept_dirs++;
    return 0;
}

/* 0, or the errno. */
static int remove_path(struct pruner *p, struct str path)
{
    char copy[DIRS_NAME];
    size_t cut = path.len;
    if (path.len == 0 || !tree_path_ok(path)) {
        return EINVAL;
    }
    while (cut > 0 && path.p[cut - 1] != '/') {
        cut--;
    }
    const char *name = dirs_name(str_skip(path, cut), copy);
    if (name == NULL || dirs_go(&p->dirs, str_head(path, cut > 0 ? cut - 1 : 0)) < 0) {
        return errno;
    }
    return remove_name(p, name);
}

struct pruner *pruner_open(int root_fd)
{
    struct pruner *p = xcalloc(1, sizeof *p);
    dirs_init(&p->dirs, root_fd);
    return p;
}

void pruner_remove(struct pruner *p, struct str path)
{
    int why = remove_path(p, path);
    if (why != 0 && !is_missing(why) && !p->failed) {
        p->failed = true;
        (void)err_sys(&p->first, why, "remove \"%.*s\"", STR_ARG(str_head(path, 300)));
    }
}

int pruner_close(struct pruner *p, struct prune_stats *out, struct err *e)
{
    bool failed = p->failed;
    if (failed) {
        *e = p->first;
    }
    *out = p->stats;
    dirs_fini(&p->dirs);
    free(p);
    return failed ? -1 : 0;
}

int tree_prune(int root_fd, const struct str *paths, size_t n, struct prune_stats *out,
               struct err *e)
{
    struct pruner *p = pruner_open(root_fd);
    for (size_t i = n; i-- > 0;) {
        pruner_remove(p, paths[i]);
    }
    return pruner_close(p, out, e);
}
