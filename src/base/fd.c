#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/id.h"
#include "base/own.h"
#include "base/path.h"

#define READ_STEP ((size_t)64 << 10)
#define TEMP_SIZE 40

static void wait_writable(int fd)
{
    struct pollfd pfd = {.fd = fd, .events = POLLOUT};

    (void)poll(&pfd, 1, -1); /* whatever it says, the next write() says it again */
}

int fd_write_all(int fd, struct str bytes, struct err *e)
{
    while (bytes.len > 0) {
        ssize_t n = write(fd, bytes.p, bytes.len);

        if (n >= 0) {
            bytes = str_skip(bytes, (size_t)n);
        } else if (errno == EAGAIN) {
            wait_writable(fd);
        } else if (errno != EINTR) {
            return err_sys(e, errno, "write");
        }
    }
    return 0;
}

ssize_t fd_read(int fd, void *to, size_t cap, struct err *e)
{
    ssize_t n;

    do {
        n = read(fd, to, cap);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? err_sys(e, errno, "read") : n;
}

static int read_to_end(int fd, const char *path, size_t max, struct buf *out, struct err *e)
{
    for (;;) {
        size_t step = out->max - out->len < READ_STEP ? out->max - out->len : READ_STEP;
        ssize_t n = fd_read(fd, buf_room(out, step), step, e);

        if (n < 0) {
            return err_wrap(e, "%s", path);
        }
        if (n == 0) {
            return 0;
        }
        out->len += (size_t)n;
        if (out->len > max) {
            return err_set(e, ERR_LIMIT, "%s is longer than %zu bytes", path, max);
        }
    }
}

int fd_read_file(int dir, const char *path, size_t max, struct arena *arena, struct str *out,
                 struct err *e)
{
    int fd own_fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    /* One byte more shows that it is too long. */
    struct buf bytes own_buf = {.max = max < SIZE_MAX ? max + 1 : max};

    if (fd < 0) {
        return err_sys(e, errno, "open %s", path);
    }
    if (read_to_end(fd, path, max, &bytes, e) < 0) {
        return -1;
    }
    *out = arena_str(arena, buf_str(&bytes));
    return 0;
}

static int write_new(int fd, struct str bytes, mode_t mode, struct err *e)
{
    if (fchmod(fd, mode) < 0) { /* openat() would have obeyed the umask */
        return err_sys(e, errno, "set the mode");
    }
    if (fd_write_all(fd, bytes, e) < 0) {
        return -1;
    }
    if (fsync(fd) < 0) {
        return err_sys(e, errno, "sync");
    }
    return 0;
}

/* Makes `temp` in the open folder and moves it to `name` there. */
static int replace_in(int folder, const char *name, struct str bytes, mode_t mode, struct err *e)
{
    char temp[TEMP_SIZE] = ".anybox-";
    int fd own_fd = -1;

    id_hex(temp + sizeof(".anybox-") - 1, 8);
    fd = openat(folder, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return err_sys(e, errno, "make a file in its folder");
    }
    if (write_new(fd, bytes, mode, e) < 0) {
        (void)unlinkat(folder, temp, 0);
        return -1;
    }
    if (renameat(folder, temp, folder, name) < 0) {
        int errnum = errno;

        (void)unlinkat(folder, temp, 0);
        return err_sys(e, errnum, "rename");
    }
    return 0;
}

int fd_replace_file(int dir, const char *path, struct str bytes, mode_t mode, struct err *e)
{
    struct str name = path_base(str_from(path));
    struct str folder = path_dir(str_from(path));
    char *name_copy own_mem = xmemdup(name.p, name.len);
    char *folder_copy own_mem = xmemdup(folder.p, folder.len);
    int fd own_fd = openat(dir, folder_copy, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0) {
        return err_sys(e, errno, "write %s: open its folder", path);
    }
    if (replace_in(fd, name_copy, bytes, mode, e) < 0) {
        return err_wrap(e, "write %s", path);
    }
    return 0;
}

static int make_one(const char *path, mode_t mode, struct err *e)
{
    struct stat st;

    if (mkdir(path, mode) == 0) {
        return 0;
    }
    if (errno != EEXIST) {
        return err_sys(e, errno, "make the folder %s", path);
    }
    if (stat(path, &st) < 0) {
        return err_sys(e, errno, "look at %s", path);
    }
    if (!S_ISDIR(st.st_mode)) {
        return err_set(e, ERR_EXISTS, "%s is there already and is not a folder", path);
    }
    return 0;
}

int fd_mkdirs(const char *path, mode_t mode, struct err *e)
{
    char *copy own_mem = xstrdup(path);
    struct stat st;

    /* A part of the path that exists may be unreadable to us, or on a read-only file
     * system: ask for what is missing only. */
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        return 0;
    }
    for (char *p = copy; *p != '\0'; p++) {
        if (*p != '/' || p == copy || p[-1] == '/') {
            continue;
        }
        *p = '\0';
        if (stat(copy, &st) < 0 && make_one(copy, mode, e) < 0) {
            return -1;
        }
        *p = '/';
    }
    return make_one(copy, mode, e);
}

int fd_set_nonblock(int fd, bool on, struct err *e)
{
    int flags = fcntl(fd, F_GETFL);
    int wanted = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;

    if (flags < 0 || (wanted != flags && fcntl(fd, F_SETFL, wanted) < 0)) {
        return err_sys(e, errno, "set descriptor flags");
    }
    return 0;
}
