/*
 * link.h - links to files of boxes that work without a key: for a browser, or a program that
 * only knows a URL. A link is good for one path of one box as its owner sees it, for reading,
 * and for a while (http.link_ttl).
 *
 * What is signed is the owner and a hash of box and path, so the text stays short whatever the
 * path is; box and path themselves are in the URL, where the server compares them.
 */
#ifndef CORE_LINK_H
#define CORE_LINK_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "core/services.h"

#define LINK_PATH "/sandbox/file" /* where the server has files */

/* What a link is good for. */
struct link_to {
    struct str owner; /* of struct scope */
    struct str box;   /* id */
    struct str path;
};

/* "<base>/sandbox/file?sandbox_id=...&file_path=...&link=...", in the arena. `base` is
 * "http://host:port". */
int link_make(const struct services *s, struct str base, const struct link_to *to, struct arena *a,
              struct str *url, struct err *e) MUST_CHECK;
/* to->box and to->path are as the request names them; to->owner is filled in. ERR_DENIED: this
 * is no link of ours to that file; ERR_GONE: it was, and has expired. */
int link_check(const struct services *s, struct str text, struct arena *a, struct link_to *to,
               struct err *e) MUST_CHECK;

#endif
