#include "base/library.h"

#include <dlfcn.h>
#include <string.h>

static void *open_any(const struct library *l)
{
    void *handle = NULL;

    for (size_t i = 0; handle == NULL && i < LIBRARY_NAMES && l->names[i] != NULL; i++) {
        handle = dlopen(l->names[i], RTLD_NOW | RTLD_LOCAL);
    }
    return handle;
}

int library_open(const struct library *l, const struct library_function *functions, size_t n,
                 void *table, struct err *e)
{
    void *handle = open_any(l);

    if (handle == NULL) {
        return err_set(e, ERR_UNSUPPORTED,
                       "%s the library %s, which cannot be opened: install the package %s "
                       "(apt-get install %s)",
                       l->who, l->names[0], l->package, l->package);
    }
    for (size_t i = 0; i < n; i++) {
        void *found = dlsym(handle, functions[i].name);

        if (found == NULL) {
            return err_set(e, ERR_UNSUPPORTED,
                           "%s has no %s: it is too old; install the package %s in version %s or "
                           "later",
                           l->names[0], functions[i].name, l->package, l->version);
        }
        /* POSIX lets dlsym() return functions, C lets a pointer become one by its bytes only. */
        memcpy((char *)table + functions[i].offset, &found, sizeof(found));
    }
    return 0;
}
