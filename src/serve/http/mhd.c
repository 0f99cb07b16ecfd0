#include "serve/http/mhd.h"

#include <stddef.h>

#include "base/library.h"

static const struct library_function functions[] = {
#define ROW(name) {"MHD_" #name, offsetof(struct mhd, name)},
    MHD_FUNCTIONS(ROW)
#undef ROW
};

static const struct library description = {
    .names = {"libmicrohttpd.so.12"},
    .who = "the HTTP server needs",
    .package = "libmicrohttpd12",
    .version = "0.9.75",
};

int mhd_open(struct mhd *out, struct err *e)
{
    return library_open(&description, functions, COUNTOF(functions), out, e);
}
