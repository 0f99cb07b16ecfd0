#include "provider/curl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/thread.h"

/* The one copy of the table: the library cannot be opened twice with different results. */
static struct {
    pthread_mutex_t lock;
    bool is_open;
    struct curl_library table;
} library = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* POSIX lets dlsym() return functions, C does not let a pointer become one but by its bytes. */
union symbol {
    void *found;
    void (*function)(void);
};

static int find(void *handle, const char *name, void *to, struct err *e)
{
    union symbol symbol = {.found = dlsym(handle, name)};

    if (symbol.found == NULL) {
        return err_set(e, ERR_UNSUPPORTED,
                       "libcurl has no %s: it is too old; install the package libcurl4 in version "
                       "7.74 or later",
                       name);
    }
    *(void (**)(void))to = symbol.function;
    return 0;
}

static void *open_any(void)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.4.dylib"};
    void *handle = NULL;

    for (size_t i = 0; handle == NULL && i < sizeof(names) / sizeof(*names); i++) {
        handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    return handle;
}

static int fill(struct curl_library *out, struct err *e)
{
    void *handle = open_any();

    if (handle == NULL) {
        return err_set(e, ERR_UNSUPPORTED,
                       "this needs the library libcurl.so.4, which cannot be opened: install the "
                       "package libcurl4 (apt-get install libcurl4)");
    }
#define FIND(name)                                                                                 \
    if (find(handle, "curl_" #name, &out->name, e) < 0) {                                          \
        return -1;                                                                                 \
    }
    CURL_FUNCTIONS(FIND)
#undef FIND
    return 0;
}

const struct curl_library *curl_library(struct err *e)
{
    LOCKED(&library.lock);

    if (!library.is_open && fill(&library.table, e) < 0) {
        return NULL;
    }
    library.is_open = true;
    return &library.table;
}
