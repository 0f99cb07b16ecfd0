#include "boxinit/landlock.h"

#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"

/* As Linux 6.12 has it; <linux/landlock.h> may be older than the kernel that we meet. */
struct ruleset {
    uint64_t handled_files, handled_net;
    uint64_t scoped;
};

#define ONLY_VERSION        1u
#define SCOPE_ABSTRACT_UNIX (1u << 0)
#define SCOPE_SIGNAL        (1u << 1)

int landlock_scope(struct err *e)
{
    const struct ruleset rules = {.scoped = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL};
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, ONLY_VERSION);

    if (abi < LANDLOCK_SCOPES) {
        return err_set(e, ERR_UNSUPPORTED,
                       "this kernel's Landlock is too old or switched off: version %ld, needed %d "
                       "(Linux 6.12)",
                       abi > 0 ? abi : 0, LANDLOCK_SCOPES);
    }
    int fd own_fd = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof(rules), 0);
    if (fd < 0 || syscall(SYS_landlock_restrict_self, fd, 0) < 0) {
        return err_sys(e, errno, "put up the Landlock scopes");
    }
    return 0;
}
