/*
 * seccomp.c - installs the filter that gen_seccomp.c wrote at build time.
 *
 * Two policies must let a call pass. `deny_policy` refuses what a box has no use for; what it
 * allows is judged by `known_policy`, which answers ENOSYS to calls that were not known when
 * we were built, as an older kernel would, so that programs fall back instead of failing.
 * `box_policy` is both in one program, for the kernel takes as long for each program as for its
 * steps. It is installed once, in PID 1; a call that is allowed whatever its arguments costs
 * nothing (the kernel keeps a bitmap of those).
 *
 * One more is installed where the kernel has a hole: extended attributes of files in a tmpfs are
 * memory that no cgroup counts before Linux 6.6. Those named security.* need a capability, but
 * with the BPF LSM among the modules, as in Debian 12, older kernels do not ask for it, and a box
 * could take all memory of the machine. Whether it is so is tried, not read off a version.
 */
#include "boxinit/seccomp.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/own.h"
#include "boxinit/seccomp_policy.h"

static int install(const struct sock_filter *steps, size_t n, struct err *e)
{
    /* The kernel only reads it; its interface has no const. */
    union {
        const struct sock_filter *in;
        struct sock_filter *out;
    } code = {.in = steps};
    struct sock_fprog program = {.len = (unsigned short)n, .filter = code.out};

    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0) {
        return err_sys(e, errno, "install the system-call filter");
    }
    return 0;
}

int seccomp_refuse_attributes(struct err *e)
{
    static const struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setxattr, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_lsetxattr, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fsetxattr, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
    };

    return install(steps, COUNTOF(steps), e);
}

/* We have no capability any more that would allow it. */
static bool anybody_may_set_attributes(void)
{
    int fd own_fd = memfd_create("attributes", MFD_CLOEXEC);

    return fd >= 0 && fsetxattr(fd, "security.anybox", "", 1, 0) == 0;
}

int seccomp_install(struct err *e)
{
    if (anybody_may_set_attributes() && seccomp_refuse_attributes(e) < 0) {
        return -1;
    }
    return install(box_policy, COUNTOF(box_policy), e);
}
