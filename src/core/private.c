#include "core/private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/own.h"

#define LOCK_WAIT_MS 5000
#define LOCK_STEP_MS 5

static int check_private(const struct stat *st, const char *what, struct err *e)
{
    if (st->st_uid != geteuid()) {
        return err_set(e, ERR_DENIED, "%s belongs to somebody else (uid %lu, we are %lu)", what,
                       (unsigned long)st->st_uid, (unsigned long)geteuid());
    }
    if ((st->st_mode & 077) != 0) {
        return err_set(e, ERR_DENIED,
                       "other users can get at %s (mode %03o): what is in it may be known to them. "
                       "Remove it, or close it with chmod go= when you know better",
                       what, (unsigned)st->st_mode & 0777);
    }
    return 0;
}

int private_open(struct str state_dir, struct err *e)
{
    struct arena scratch own_arena = {0};
    struct stat st;
    const char *path;

    arena_init(&scratch, 64u << 10);
    path = arena_cstr(&scratch, state_dir);
    if (fd_mkdirs(path, 0700, e) < 0) {
        return err_wrap(e, "make the state folder %s (ANYBOX_HOME names another one)", path);
    }
    int dir own_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (dir < 0 || fstat(dir, &st) < 0) {
        return err_sys(e, errno, "open the state folder %s (ANYBOX_HOME names another one)", path);
    }
    /* What is private in a folder that others may list is still private, but not in one
     * where they may put a file in its place. */
    st.st_mode &= ~(mode_t)055;
    if (check_private(&st, path, e) < 0) {
        return -1;
    }
    return take_fd(&dir);
}

int private_read(int dir, const char *name, size_t max, struct arena *a, struct str *out,
                 struct err *e)
{
    int fd own_fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    size_t n = 0;

    if (fd < 0 || fstat(fd, &st) < 0) {
        return err_sys(e, errno, "open %s of the state folder", name);
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(e, ERR_INVALID, "%s of the state folder is not a file: move it away", name);
    }
    if (check_private(&st, name, e) < 0) {
        return err_wrap(e, "in the state folder");
    }
    char *to = arena_alloc(a, max + 1, 1);

    for (;;) {
        ssize_t got = fd_read(fd, to + n, max + 1 - n, e);

        if (got < 0) {
            return err_wrap(e, "read %s of the state folder", name);
        }
        n += (size_t)got;
        if (got == 0 || n > max) {
            break;
        }
    }
    if (n > max) {
        return err_set(e, ERR_LIMIT, "%s of the state folder is larger than %zu bytes", name, max);
    }
    *out = (struct str){to, n};
    return 0;
}

int private_make(int dir, const char *name, struct str bytes, struct err *e)
{
    char temporary[64], random[17];
    int rc = 0;

    id_hex(random, 8);
    (void)snprintf(temporary, sizeof(temporary), ".%.32s.%s", name, random);
    int fd own_fd =
        openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0) {
        return err_sys(e, errno, "make %s in the state folder", name);
    }
    /* On the disk before it has its name: a secret that was handed out must not be empty
     * after a power cut. linkat() is the step that only one process can win. */
    if (fd_write_all(fd, bytes, e) < 0) {
        rc = err_wrap(e, "write %s in the state folder", name);
    } else if (fsync(fd) < 0 || linkat(dir, temporary, dir, name, 0) < 0) {
        rc = err_sys(e, errno, "make %s in the state folder", name);
    }
    (void)unlinkat(dir, temporary, 0);
    return rc;
}

int private_lock_fd(int fd, struct err *e)
{
    int64_t until = clock_mono_ms() + LOCK_WAIT_MS;
    const struct ctx ctx = {0};

    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            return err_sys(e, errno, "lock a file");
        }
        if (clock_mono_ms() >= until) {
            return err_set(e, ERR_TIMEOUT,
                           "another process has been changing the same file for %d s; try again",
                           LOCK_WAIT_MS / 1000);
        }
        if (ctx_wait(&ctx, NULL, 0, clock_mono_ms() + LOCK_STEP_MS, e) < 0) {
            return -1;
        }
    }
    return 0;
}

int private_lock(int dir, struct err *e)
{
    int fd own_fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0) {
        return err_sys(e, errno, "lock the state folder");
    }
    if (private_lock_fd(fd, e) < 0) {
        return err_wrap(e, "the state folder");
    }
    return take_fd(&fd);
}
