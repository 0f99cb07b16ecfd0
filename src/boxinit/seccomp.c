/*
 * seccomp.c - installs the filter that gen_seccomp.c wrote at build time.
 *
 * Two policies must let a call pass. `deny_policy` refuses what a box has no use for; what it
 * allows is judged by `known_policy`, which answers ENOSYS to calls that were not known when
 * we were built, as an older kernel would, so that programs fall back instead of failing.
 * `box_policy` is both in one program, for the kernel takes as long for each program as for its
 * steps. It is installed once, in PID 1; a call that is allowed whatever its arguments costs
 * nothing (the kernel keeps a bitmap of those).
 */
#include "boxinit/seccomp.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/attr.h"
#include "boxinit/seccomp_policy.h"

int seccomp_install(struct err *e)
{
    /* The kernel only reads it; its interface has no const. */
    union {
        const struct sock_filter *in;
        struct sock_filter *out;
    } code = {.in = box_policy};
    struct sock_fprog program = {.len = COUNTOF(box_policy), .filter = code.out};

    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0) {
        return err_sys(e, errno, "install the system-call filter");
    }
    return 0;
}
