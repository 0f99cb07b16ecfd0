#include "provider/curl.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/library.h"
#include "base/thread.h"

/* The one copy of the table: the library cannot be opened twice with different results. */
static struct {
    pthread_mutex_t lock;
    bool is_open;
    struct curl_library table;
} library = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const struct library_function functions[] = {
#define ROW(name) {"curl_" #name, offsetof(struct curl_library, name)},
    CURL_FUNCTIONS(ROW)
#undef ROW
};

static const struct library description = {
    .names = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.4.dylib"},
    .who = "this needs",
    .package = "libcurl4",
    .version = "7.74",
};

const struct curl_library *curl_library(struct err *e)
{
    LOCKED(&library.lock);

    if (!library.is_open &&
        library_open(&description, functions, COUNTOF(functions), &library.table, e) < 0) {
        return NULL;
    }
    library.is_open = true;
    return &library.table;
}

int curl_is_cancelled(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    struct err ignored;

    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return ctx_check(ctx, &ignored) < 0;
}
