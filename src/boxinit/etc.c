#include "boxinit/etc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/proto.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "boxinit/net.h"

#define PASSWD_MAX (1u << 20)

static int make(const char *path, struct str text, struct err *e)
{
    int fd own_fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    if (fd < 0) {
        return err_sys(e, errno, "make %s", path);
    }
    return fd_write_all(fd, text, e);
}

/* What the image has there goes, in the overlay: it tells of another machine. */
static int clear(const struct spec *spec, const char *path, struct err *e)
{
    if (spec->image != NULL && unlink(path) < 0 && errno != ENOENT) {
        return err_sys(e, errno, "remove the image's %s", path);
    }
    return 0;
}

/* A line for our user in a file of the image that has none: whoever asks who owns a file
 * gets an answer. What is no plain file is left as it is: a link could lead out, as long
 * as the host's files are there. */
static int add_line(const char *path, struct str line, struct err *e)
{
    struct arena a own_arena = {0};
    struct str text;
    struct stat is;
    int fd own_fd = open(path, O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    arena_init(&a, (size_t)2 * PASSWD_MAX);
    if (fd < 0 || fstat(fd, &is) < 0 || !S_ISREG(is.st_mode) || is.st_size > PASSWD_MAX) {
        return 0;
    }
    if (fd_read_file(AT_FDCWD, path, PASSWD_MAX, &a, &text, e) < 0) {
        return -1;
    }
    bool ends = text.len == 0 || text.p[text.len - 1] == '\n';
    while (text.len > 0) {
        if (str_starts(str_cut(text, '\n', &text), S(BOX_USER ":"))) {
            return 0;
        }
    }
    return (!ends && fd_write_all(fd, S("\n"), e) < 0) ? -1 : fd_write_all(fd, line, e);
}

static bool is_there(const char *path)
{
    struct stat is;

    return lstat(path, &is) == 0;
}

#define PASSWD_LINE BOX_USER ":x:1000:1000:sandbox user:" BOX_HOME ":/bin/bash\n"
#define GROUP_LINE  BOX_USER ":x:1000:\n"

static int make_users(const struct spec *spec, struct err *e)
{
    static const struct {
        const char *path, *text, *line;
    } files[] = {
        {"/etc/passwd",
         "root:x:0:0:root:/:/usr/sbin/nologin\n" PASSWD_LINE
         "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
         PASSWD_LINE},
        {"/etc/group", "root:x:0:\ntty:x:5:\n" GROUP_LINE "nogroup:x:65534:\n", GROUP_LINE},
    };

    for (size_t i = 0; i < COUNTOF(files); i++) {
        bool kept = spec->image != NULL && is_there(files[i].path);

        if (kept ? add_line(files[i].path, str_from(files[i].line), e) < 0
                 : make(files[i].path, str_from(files[i].text), e) < 0) {
            return -1;
        }
    }
    return 0;
}

static struct str resolv_conf(const struct spec *spec)
{
    if (spec->host_net) {
        return spec->resolv_conf;
    }
    return spec->net_program != NULL ? S("nameserver " NET_DNS "\n")
                                     : S("# This sandbox has no network.\n");
}

int etc_make(const struct spec *spec, struct err *e)
{
    bool net = spec->net_program != NULL || spec->host_net;
    struct buf text own_buf = {0};

    if (make_users(spec, e) < 0 || clear(spec, "/etc/resolv.conf", e) < 0 ||
        clear(spec, "/etc/mtab", e) < 0) {
        return -1;
    }
    buf_init(&text, 512);
    buf_addf(&text,
             "passwd: files\ngroup: files\nshadow: files\nhosts: files%s\nnetworks: files\n"
             "protocols: files\nservices: files\n",
             net ? " dns" : "");
    bool kept = spec->image != NULL && is_there("/etc/nsswitch.conf");
    if ((!kept && make("/etc/nsswitch.conf", buf_str(&text), e) < 0) ||
        make("/etc/resolv.conf", resolv_conf(spec), e) < 0) {
        return -1;
    }
    if (symlink("/proc/self/mounts", "/etc/mtab") < 0) {
        return err_sys(e, errno, "make /etc/mtab");
    }
    return 0;
}

static int put_name(const struct spec *spec, const char *path, struct str text, struct err *e)
{
    if (!spec->shared_root) {
        return make(path, text, e);
    }
    int fd own_fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? err_sys(e, errno, "open %s", path) : fd_write_all(fd, text, e);
}

int etc_name(const struct spec *spec, struct err *e)
{
    struct buf text own_buf = {0};

    buf_init(&text, 512 + spec->hosts.len);
    buf_addf(&text, "127.0.0.1 localhost %s\n::1 localhost ip6-localhost\n", spec->hostname);
    buf_add(&text, spec->hosts);
    if (clear(spec, "/etc/hosts", e) < 0 || put_name(spec, "/etc/hosts", buf_str(&text), e) < 0 ||
        clear(spec, "/etc/hostname", e) < 0) {
        return -1;
    }
    buf_clear(&text);
    buf_addf(&text, "%s\n", spec->hostname);
    return put_name(spec, "/etc/hostname", buf_str(&text), e);
}
