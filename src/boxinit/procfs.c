#include "boxinit/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/own.h"
#include "boxinit/bind.h"

/* What was looked up in a /proc stays in the kernel's memory as long as that: so it is done in
 * a second one, which goes with what is apart. */
static void looked_at(const char *apart, const char *name, char *path, size_t cap)
{
    (void)snprintf(path, cap, "%s/proc%s", apart, name);
}

/* Some things are counted for the user who made a namespace, here too: in every box
 * of root for root, who would find none left. So a box has a share of its own. And even
 * without the filter there would be no namespaces inside. What this kernel does not know
 * is left out. */
static void limit_shared(const char *apart)
{
    static const char *const limits[][2] = {
        {"max_inotify_instances", "16"}, {"max_inotify_watches", "8192"},
        {"max_user_namespaces", "0"},    {"max_mnt_namespaces", "0"},
        {"max_pid_namespaces", "0"},     {"max_net_namespaces", "0"},
        {"max_ipc_namespaces", "0"},     {"max_uts_namespaces", "0"},
        {"max_cgroup_namespaces", "0"},  {"max_time_namespaces", "0"},
    };

    char path[64];

    looked_at(apart, "/sys/user", path, sizeof(path));
    int user own_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

    for (size_t i = 0; i < COUNTOF(limits); i++) {
        int fd own_fd = openat(user, limits[i][0], O_WRONLY | O_CLOEXEC);

        if (fd >= 0) {
            (void)!write(fd, limits[i][1], strlen(limits[i][1]));
        }
    }
}

/* Read-only in place: the path is shown over itself. */
static int protect(const char *path, struct err *e)
{
    if (mount(path, path, NULL, MS_BIND, NULL) < 0) {
        return errno == ENOENT ? 0 : err_sys(e, errno, "protect %s", path);
    }
    return bind_protect(path, BIND_RDONLY | BIND_NODEV | BIND_NOEXEC, e);
}

/* A folder is hidden by an empty one, which all share: a file system for each would take
 * memory of every box. */
static int mask_folder(const char *apart, const char *path, struct err *e)
{
    char none[32];

    (void)snprintf(none, sizeof(none), "%s/none", apart);
    if (bind_make_dir(none, 0555, e) < 0) {
        return -1;
    }
    if (mount(none, path, NULL, MS_BIND, NULL) < 0) {
        return err_sys(e, errno, "hide %s", path);
    }
    return bind_protect(path, BIND_RDONLY | BIND_NOEXEC | BIND_NODEV, e);
}

/* The kernel tells whether it is there, and of which kind. A bind has the flags of what it
 * shows: /dev/null is protected already. */
static int mask(const char *apart, const char *name, struct err *e)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc%s", name);
    if (mount("/dev/null", path, NULL, MS_BIND, NULL) == 0) {
        return 0;
    }
    if (errno == ENOTDIR) {
        return mask_folder(apart, path, e);
    }
    return errno == ENOENT ? 0 : err_sys(e, errno, "hide %s", path);
}

static bool can_read(const char *apart, const char *name)
{
    char path[64];

    looked_at(apart, name, path, sizeof(path));
    return access(path, R_OK) == 0;
}

static int mask_all(const struct spec *spec, const char *apart, struct err *e)
{
    static const char *const roots[] = {"/kpagecount",  "/kpageflags", "/kpagecgroup",
                                        "/vmallocinfo", "/slabinfo",   "/pagetypeinfo"};
    static const char *const hidden[] = {"/kcore",   "/keys",     "/timer_list", "/sched_debug",
                                         "/scsi",    "/acpi",     "/kmsg",       "/latency_stats",
                                         "/cmdline", "/key-users"};

    for (size_t i = 0; i < COUNTOF(hidden); i++) {
        if (mask(apart, hidden[i], e) < 0) {
            return -1;
        }
    }
    /* Root's alone, and root without its capabilities may be who we are: not with a range of
     * uids, which the host's root is not in. */
    for (size_t i = 0; spec->uid_mode == UIDS_ONE && i < COUNTOF(roots); i++) {
        if (can_read(apart, roots[i]) && mask(apart, roots[i], e) < 0) {
            return -1;
        }
    }
    return 0;
}

static int mount_proc(const char *at, struct err *e)
{
    if (mount("proc", at, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0) {
        return err_sys(e, errno, "mount /proc");
    }
    return 0;
}

int procfs_make(const struct spec *spec, const char *apart, struct err *e)
{
    static const char *const fixed[] = {"/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs",
                                        "/proc/sysrq-trigger"};

    char other[32];

    looked_at(apart, "", other, sizeof(other));
    if (bind_make_dir(other, 0700, e) < 0 || mount_proc(other, e) < 0 ||
        mount_proc("/proc", e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < COUNTOF(fixed); i++) {
        if (protect(fixed[i], e) < 0) {
            return -1;
        }
    }
    limit_shared(apart);
    return mask_all(spec, apart, e);
}
