#include "provider/ssh/libssh.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

#include "base/thread.h"

#define LIBRARY "libssh.so.4"

/* The one copy of the table, filled in once and never changed: the library cannot be opened
 * twice with different results, and every session's thread needs it. */
static struct {
    pthread_mutex_t lock;
    bool is_open;
    struct libssh table;
} library = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* POSIX lets dlsym() return functions, C does not let a pointer become one but by its bytes. */
union symbol {
    void *found;
    void (*function)(void);
};

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define ROW(name) {"ssh_" #name, offsetof(struct libssh, name)},
    LIBSSH_FUNCTIONS(ROW)
#undef ROW
};

static int find(void *handle, const char *name, void *to, struct err *e)
{
    union symbol symbol = {.found = dlsym(handle, name)};

    if (symbol.found == NULL) {
        return err_set(e, ERR_UNSUPPORTED,
                       "%s has no %s: it is too old; install the package libssh-4 in version "
                       "0.9.6 or later",
                       LIBRARY, name);
    }
    *(void (**)(void))to = symbol.function;
    return 0;
}

static int fill(struct libssh *out, struct err *e)
{
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

    if (handle == NULL) {
        return err_set(e, ERR_UNSUPPORTED,
                       "SSH hosts need the library %s, which cannot be opened: install the "
                       "package libssh-4 (apt-get install libssh-4)",
                       LIBRARY);
    }
    for (size_t i = 0; i < COUNTOF(functions); i++) {
        if (find(handle, functions[i].name, (char *)out + functions[i].offset, e) < 0) {
            return -1;
        }
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
