#include "boxinit/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

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
