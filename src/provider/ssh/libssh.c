#include "provider/ssh/libssh.h"

#include <pthread.h>
#include <stddef.h>

#include "base/library.h"
#include "base/thread.h"

/* The one copy of the table, filled in once and never changed: the library cannot be opened
 * twice with different results, and every session's thread needs it. */
static struct {
    pthread_mutex_t lock;
    bool is_open;
    struct libssh table;
} library = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const struct library_function functions[] = {
#define ROW(name) {"ssh_" #name, offsetof(struct libssh, name)},
    LIBSSH_FUNCTIONS(ROW)
#undef ROW
};

static const struct library description = {
    .names = {"libssh.so.4"},
    .who = "SSH hosts need",
    .package = "libssh-4",
    .version = "0.9.6",
};

static int fill(struct libssh *out, struct err *e)
{
    if (library_open(&description, functions, COUNTOF(functions), out, e) < 0) {
        return -1;
    }
    /* It logs to stderr, which is ours. */
    (void)out->set_log_level(SSH_LOG_NOLOG);
    return 0;
}

const struct libssh *libssh_open(struct err *e)
{
    LOCKED(&library.lock);

    if (!library.is_open) {
        if (fill(&library.table, e) < 0) {
            return NULL;
        }
        library.is_open = true;
    }
    return &library.table;
}
