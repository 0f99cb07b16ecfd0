#include "boxinit/limits.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "boxinit/landlock.h"
#include "boxinit/seccomp.h"

#define PENDING_MOST 8192         /* signals; a timer is one, too */
#define QUEUES_MOST  (256u << 10) /* bytes of POSIX message queues */
#define CORE_BYTES   1            /* see limit_core() */
#define CAPS_END     64           /* the kernel answers EINVAL from the first unknown one on */

static int drop_bounding_set(struct err *e)
{
    for (unsigned long cap = 0; cap < CAPS_END; cap++) {
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
            return errno == EINVAL ? 0 : err_sys(e, errno, "drop capability %lu", cap);
        }
    }
    return 0;
}

static int keep_caps(uint32_t bits, struct err *e)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{.effective = bits, .permitted = bits}};

    if (syscall(SYS_capset, &header, data) < 0) {
        return err_sys(e, errno, "give up capabilities");
    }
    return 0;
}

static int limit(int what, uint64_t value)
{
    struct rlimit now;
    struct rlimit want;

    if (getrlimit((__rlimit_resource_t)what, &now) < 0) {
        return errno;
    }
    /* Without privilege a hard limit only goes down. */
    want.rlim_max = value < now.rlim_max ? value : now.rlim_max;
    want.rlim_cur = want.rlim_max;
    return setrlimit((__rlimit_resource_t)what, &want) < 0 ? errno : 0;
}

/* No core is so small. And it is the one size with which the host's program for cores, where
 * there is one (kernel.core_pattern), is not run: it would be for every process that crashes here, as
 * root and in nobody's cgroup. The filter keeps it so. */
static int limit_core(struct err *e)
{
    int errnum = limit(RLIMIT_CORE, CORE_BYTES);

    return errnum != 0 ? err_sys(e, errnum, "limit the size of cores") : 0;
}

int limits_seal(const struct spec *spec, struct err *e)
{
    uint32_t needed = (1u << CAP_SETUID) | (1u << CAP_SETGID) | (1u << CAP_KILL);

    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL) {
        return err_sys(e, errno, "clear the ambient capabilities");
    }
    if (limit_core(e) < 0 || drop_bounding_set(e) < 0 ||
        keep_caps(spec_shares_uid(spec) ? 0 : needed, e) < 0) {
        return -1;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        return err_sys(e, errno, "set no_new_privs");
    }
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) {
        return err_sys(e, errno, "forbid tracing");
    }
    if (spec->scoped && landlock_scope(e) < 0) {
        return -1;
    }
    return seccomp_install(e);
}

/* A quarter, and no more than any box needs. */
static void share(int what, uint64_t most)
{
    struct rlimit now;

    if (getrlimit((__rlimit_resource_t)what, &now) == 0) {
        (void)limit(what, now.rlim_cur / 4 < most ? now.rlim_cur / 4 : most);
    }
}

void limits_share(void)
{
    share(RLIMIT_SIGPENDING, PENDING_MOST);
    share(RLIMIT_MSGQUEUE, QUEUES_MOST);
}

/* Ours is higher than what our commands are to have. */
static int lower_open_files(uint32_t soft)
{
    struct rlimit now;

    if (getrlimit(RLIMIT_NOFILE, &now) < 0) {
        return errno;
    }
    now.rlim_cur = soft < now.rlim_max ? soft : now.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &now) < 0 ? errno : 0;
}

int limits_apply(const struct spec *spec)
{
    int rc;

    if (spec->is_plain) {
        return spec->open_files > 0 ? lower_open_files(spec->open_files) : 0;
    }
    /* Who started us may have the right to real-time priorities, for sound perhaps. */
    rc = limit(RLIMIT_RTPRIO, 0);
    if (rc == 0) {
        rc = limit(RLIMIT_NICE, 0);
    }
    if (rc == 0 && spec->memory_bytes > 0) {
        rc = limit(RLIMIT_AS, spec->memory_bytes);
    }
    if (rc == 0 && spec->pids > 0) {
        rc = limit(RLIMIT_NPROC, spec->pids);
    }
    if (rc == 0 && spec->open_files > 0) {
        rc = limit(RLIMIT_NOFILE, spec->open_files);
    }
    return rc;
}
