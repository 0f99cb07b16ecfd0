#include "sync/local.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef __linux__
#    include <linux/openat2.h>
#endif

#include "base/own.h"

#ifdef __linux__
static int open_at_once(const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)(flags | O_NOFOLLOW | O_CLOEXEC),
                           .resolve = RESOLVE_NO_SYMLINKS};
    int fd;

    /* It may have lost a race against a rename somewhere, and says so. */
    do {
        fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
    } while (fd < 0 && errno == EAGAIN);
    return fd;
}
#endif

/* Folder by folder, for kernels that cannot do it at once. */
static int open_stepwise(int dir, const char *path, int flags)
{
    int at own_fd = -1;
    char name[NAME_MAX + 1];
    const char *end = strchr(path, '/');

    while (end != NULL) {
        size_t len = (size_t)(end - path);
        int next;

        if (len >= sizeof(name)) {
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(name, path, len);
        name[len] = '\0';
        next = openat(at >= 0 ? at : dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0) {
            return -1;
        }
        if (at >= 0) {
            (void)close(at);
        }
        at = next;
        path = end + 1;
        end = strchr(path, '/');
    }
    return openat(at >= 0 ? at : dir, path, flags | O_NOFOLLOW | O_CLOEXEC);
}

int local_open(const char *path, int flags)
{
    int root own_fd = -1;

#ifdef __linux__
    int fd = open_at_once(path, flags);

    if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) {
        return fd;
    }
#endif
    root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (*path == '/') {
        path++;
    }
    return root < 0 ? -1 : open_stepwise(root, *path == '\0' ? "." : path, flags);
}

struct str local_no_slash(struct str path)
{
    while (path.len > 1 && path.p[path.len - 1] == '/') {
        path.len--;
    }
    return path;
}
