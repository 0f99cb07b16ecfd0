#include "boxinit/etc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "agent/proto.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "boxinit/net.h"

static int make(const char *path, struct str text, struct err *e)
{
    int fd own_fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    if (fd < 0) {
        return err_sys(e, errno, "make %s", path);
    }
    return fd_write_all(fd, text, e);
}

int etc_make(const struct spec *spec, struct err *e)
{
    static const struct {
        const char *path;
        const char *text;
    } files[] = {
        {"/etc/passwd", "root:x:0:0:root:/:/usr/sbin/nologin\n" BOX_USER
                        ":x:1000:1000:sandbox user:" BOX_HOME ":/bin/bash\n"
                        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
        {"/etc/group", "root:x:0:\ntty:x:5:\n" BOX_USER ":x:1000:\nnogroup:x:65534:\n"},
    };
    bool net = spec->net_program != NULL;
    struct buf text own_buf = {0};

    for (size_t i = 0; i < COUNTOF(files); i++) {
        if (make(files[i].path, str_from(files[i].text), e) < 0) {
            return -1;
        }
    }
    buf_init(&text, 512);
    buf_addf(&text,
             "passwd: files\ngroup: files\nshadow: files\nhosts: files%s\nnetworks: files\n"
             "protocols: files\nservices: files\n",
             net ? " dns" : "");
    if (make("/etc/nsswitch.conf", buf_str(&text), e) < 0 ||
        make("/etc/resolv.conf",
             net ? S("nameserver " NET_DNS "\n") : S("# This sandbox has no network.\n"), e) < 0) {
        return -1;
    }
    if (symlink("/proc/self/mounts", "/etc/mtab") < 0) {
        return err_sys(e, errno, "make /etc/mtab");
    }
    return 0;
}

int etc_name(const struct spec *spec, struct err *e)
{
    struct buf text own_buf = {0};

    buf_init(&text, 512);
    buf_addf(&text, "127.0.0.1 localhost %s\n::1 localhost ip6-localhost\n", spec->hostname);
    if (make("/etc/hosts", buf_str(&text), e) < 0) {
        return -1;
    }
    buf_clear(&text);
    buf_addf(&text, "%s\n", spec->hostname);
    return make("/etc/hostname", buf_str(&text), e);
}
