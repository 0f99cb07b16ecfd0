/*
 * index_page.h - pages of a package index (the "simple" repository, PEP 503, 658, 592) and the
 * addresses in them. Pure: nothing is fetched here.
 *
 * Pages come from strangers, and what is read here decides what we fetch for a box. So addresses
 * are read strictly: http and https, a plain host, printable ASCII without blanks, quotes,
 * backslashes and the like; whatever another reader could understand otherwise is refused.
 */
#ifndef CORE_INDEX_PAGE_H
#define CORE_INDEX_PAGE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define INDEX_URL_MAX   2000 /* bytes of an address */
#define INDEX_LINKS_MAX 200000

struct index_url {
    bool tls;
    struct str user; /* "name:secret" or empty */
    struct str
        host; /* in lower case it is compared without regard to case; "[::1]" has its brackets */
    uint16_t port;
    struct str path; /* begins with '/', with the query, without the fragment */
};

/* ERR_INVALID. *out points into text; only the fragment is dropped. */
int index_url_read(struct str text, struct index_url *out, struct err *e) MUST_CHECK;
/* Without user and fragment: "https://host/path". In the arena. */
struct str index_url_text(struct arena *a, const struct index_url *u);
/* The same host and port. */
bool index_url_same(const struct index_url *a, const struct index_url *b);
/* What a link means on a page: absolute, "//host/path", "/path" or relative. *out is whole, without user
 * and fragment; *fragment points into link. ERR_INVALID. */
int index_url_join(struct arena *a, const struct index_url *base, struct str link, struct str *out,
                   struct str *fragment, struct err *e) MUST_CHECK;

/* A file that a page offers. Its strings live until index_link_fn returns. */
struct index_link {
    struct str url;      /* whole */
    struct str file;     /* the last part of its path: letters, digits and "._+!-" */
    struct str hash;     /* "sha256=..." or empty */
    struct str python;   /* data-requires-python, or empty */
    struct str metadata; /* data-core-metadata: "true" or a hash; or empty */
    bool yanked;
};

typedef int index_link_fn(void *arg, const struct index_link *link, struct err *e);
/* Each file of the page in order; links that are none are passed over. `base` is where the page
 * came from. */
int index_page_read(struct str page, const struct index_url *base, index_link_fn *each, void *arg,
                    struct err *e) MUST_CHECK;

/* A page of our own that offers the file at another address. */
void index_page_begin(struct buf *to);
void index_page_add(struct buf *to, const struct index_link *link, struct str href);
void index_page_end(struct buf *to);

#endif
