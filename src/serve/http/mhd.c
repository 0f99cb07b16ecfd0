#include "serve/http/mhd.h"

#include <dlfcn.h>

#define LIBRARY "libmicrohttpd.so.12"

/* POSIX lets dlsym() return functions, C does not let a pointer become one but by its bytes. */
union symbol {
    void *found;
    void (*function)(void);
};

static int find(void *library, const char *name, void *to, struct err *e)
{
    union symbol symbol = {.found = dlsym(library, name)};

    if (symbol.found == NULL) {
        return err_set(e, ERR_UNSUPPORTED,
                       "%s has no %s: it is too old; install the package libmicrohttpd12 in "
                       "version 0.9.75 or later",
                       LIBRARY, name);
    }
    *(void (**)(void))to = symbol.function;
    return 0;
}

int mhd_open(struct mhd *out, struct err *e)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

    if (library == NULL) {
        return err_set(e, ERR_UNSUPPORTED,
                       "the HTTP server needs the library %s, which cannot be opened: install the "
                       "package libmicrohttpd12 (apt-get install libmicrohttpd12)",
                       LIBRARY);
    }
#define FIND(name)                                                                                 \
    if (find(library, "MHD_" #name, &out->name, e) < 0) {                                          \
        return -1;                                                                                 \
    }
    MHD_FUNCTIONS(FIND)
#undef FIND
    return 0;
}
