/*
 * seccomp.c - installs the two filters that gen_seccomp.c wrote at build time.
 *
 * Both must let a call pass. `deny_policy` refuses what a box has no use for;
 * `known_policy` answers ENOSYS to calls that were not known when we were built, as an
 * older kernel would, so that programs fall back instead of failing. They are installed
 * once, in PID 1; a call that is allowed whatever its arguments costs nothing (the
 * kernel keeps a bitmap of those).
 */
#include "boxinit/seccomp.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/attr.h"
#include "boxinit/seccomp_policy.h"

static int install(const struct sock_filter *filter, size_t n, struct err *e)
{
    /* The kernel only reads it; its interface has no const. */
    union {
        const struct sock_filter *in;
        struct sock_filter *out;
    } code = {.in = filter};
    struct sock_fprog program = {.len = (unsigned short)n, .filter = code.out};

    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0) {
        return err_sys(e, errno, "install the system-call filter");
    }
    return 0;
}

int seccomp_install(struct err *e)
{
    if (install(known_policy, COUNTOF(known_policy), e) < 0) {
        return -1;
    }
    return install(deny_policy, COUNTOF(deny_policy), e);
}
