/*
 * copy.c - boxinit as a file that nobody can change.
 *
 * A command is a child of PID 1 until it execs, and /proc/self/exe is a link that leads it to
 * boxinit's file, on the host's own mount: whatever the box's mounts are. So a command that is
 * named by such a link, or has it behind its "#!", runs boxinit; others in the box can then
 * open that file by /proc, and where they have its owner's uid outside they can change its
 * mode, and with bad luck its content. That is the case for a boxinit that the user has built
 * or installed for himself. There PID 1 runs from a copy that is the box's own and goes with
 * it. Anybody else can but read the file, which holds no secret.
 */
#include "boxinit/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/proto.h"
#include "base/own.h"

#ifndef MFD_EXEC
#    define MFD_EXEC 0x10u /* Linux 6.3 */
#endif

#define FIXED (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)

static int make_file(void)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create("boxinit", flags | MFD_EXEC);

    return fd < 0 && errno == EINVAL ? memfd_create("boxinit", flags) : fd;
}

static int fill(int copy, int from, off_t size, struct err *e)
{
    while (size > 0) {
        ssize_t n = sendfile(copy, from, NULL, (size_t)size);

        if (n <= 0) {
            return err_sys(e, n < 0 ? errno : EIO, "copy boxinit");
        }
        size -= n;
    }
    return fcntl(copy, F_ADD_SEALS, FIXED) < 0 ? err_sys(e, errno, "seal boxinit's copy") : 0;
}

int copy_run(const char *mode, struct err *e)
{
    const char *const argv[] = {"init", mode, NULL};
    static const char *const no_env[] = {NULL};
    struct stat is;

    int from own_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (from < 0 || fstat(from, &is) < 0) {
        return err_sys(e, errno, "look at boxinit's own file");
    }
    int seals = fcntl(from, F_GET_SEALS);
    if (is.st_uid != geteuid() || (seals >= 0 && (seals & FIXED) == FIXED)) {
        return 0;
    }
    int copy own_fd = make_file();
    if (copy < 0) {
        return err_set(e, ERR_UNSUPPORTED,
                       "boxinit's file belongs to the user that the sandbox's code runs as, and a "
                       "copy of it in memory cannot be made (errno %d, perhaps by the setting "
                       "vm.memfd_noexec): install anybox as root",
                       errno);
    }
    if (fill(copy, from, is.st_size, e) < 0) {
        return -1;
    }
    (void)syscall(SYS_execveat, copy, "", argv, no_env, AT_EMPTY_PATH);
    return err_sys(e, errno, "run boxinit's copy");
}

int copy_for(const struct spec *spec, struct err *e)
{
    if (!spec_shares_uid(spec) || spec->uid_mode == UIDS_WRITE) {
        return 0;
    }
    if (lseek(SPEC_FD, 0, SEEK_SET) < 0) {
        return err_sys(e, errno, "read the spec once more");
    }
    return copy_run("box", e);
}
