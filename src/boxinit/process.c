#include "boxinit/process.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STACK_USED ((size_t)256 << 10) /* at most */

void process_reset_signals(void)
{
    /* All zeros is SIG_DFL. Not by libc, which keeps two signals to itself and whose
     * posix_spawn() leaves them ignored. Fails for KILL and STOP, which is fine. */
    static const unsigned long as_new[8];
    sigset_t none;

    for (int sig = 1; sig < NSIG; sig++) {
        (void)syscall(SYS_rt_sigaction, sig, as_new, NULL, (NSIG - 1) / 8);
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

int process_null_stdio(struct err *e)
{
    int null = open("/dev/null", O_RDWR);

    if (null < 0) {
        return err_sys(e, errno, "open /dev/null");
    }
    for (int fd = 0; fd < 3; fd++) {
        if (null != fd && dup2(null, fd) < 0) {
            return err_sys(e, errno, "redirect descriptor %d", fd);
        }
    }
    if (null > 2) {
        (void)close(null);
    }
    return 0;
}

/* Nothing else can be mapped as near to a stack. */
void process_give_back(void)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    char *frame = __builtin_frame_address(0);
    char *in_use = frame - ((uintptr_t)frame & (page - 1)) - page;

    (void)madvise(in_use - STACK_USED, STACK_USED, MADV_DONTNEED);
    (void)malloc_trim(0);
}
