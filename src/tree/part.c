/* part.c - a way to a temporary file that another process has made (tree/apply.h). */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/own.h"
#include "tree/apply.h"
#include "tree/dirs.h"

/* -1 with errno. What is opened is a file of this user: the name alone proves nothing. */
static int open_temp(int dir, const char *name)
{
    int fd own_fd = openat(dir, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat is;
    if (fd < 0 || fstat(fd, &is) < 0) {
        return -1;
    }
    if (!S_ISREG(is.st_mode) || is.st_uid != geteuid()) {
        errno = ENOENT;
        return -1;
    }
    return take_fd(&fd);
}

int tree_part_open(int root_fd, struct str path, struct str temp)
{
    struct dirs dirs;
    char copy[DIRS_NAME];
    const char *name = dirs_name(temp, copy);
    size_t cut = path.len;
    if (name == NULL || !str_starts(temp, S(TREE_TEMP_PREFIX)) || !tree_path_ok(path)) {
        errno = EINVAL;
        return -1;
    }
    while (cut > 0 && path.p[cut - 1] != '/') {
        cut--;
    }
    dirs_init(&dirs, root_fd);
    int dir = dirs_go(&dirs, str_head(path, cut > 0 ? cut - 1 : 0)) < 0 ? -1 : dirs_fd(&dirs);
    int fd = dir < 0 ? -1 : open_temp(dir, name);
    int why = errno;
    dirs_fini(&dirs);
    errno = why;
    return fd;
}
