/*
 * guard.h - who may talk to us at all: the Host that is named, the Origin of a page, the key.
 *
 * A page of another site can make a browser send requests here, by its own name (then Origin
 * is foreign) or after pointing its name at our address (then Host is). Both are refused
 * before anything else is looked at, whatever key comes with them.
 */
#ifndef SERVE_HTTP_GUARD_H
#define SERVE_HTTP_GUARD_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "config/config.h"

struct guard {
    struct str hosts;   /* http.hosts: names besides loopback's, with commas */
    struct str origins; /* http.cors_origins, with commas; "*": any */
    struct str bound;   /* the address that we listen on */
    bool any_address;   /* we listen on all of them: addresses are fine as Host */
};

/* The Host header. ERR_DENIED says which setting allows it. */
int guard_host(const struct guard *g, struct str host, struct err *e) MUST_CHECK;
/* True when pages of every site are allowed. */
bool guard_any_origin(const struct guard *g);
/* The Origin header, when there is one: that of a page which came from the Host that is named, or
 * an allowed one; *cors becomes true for the latter, which may read the answer. Else ERR_DENIED. */
int guard_origin(const struct guard *g, struct str origin, struct str host, bool *cors,
                 struct err *e) MUST_CHECK;

#endif
