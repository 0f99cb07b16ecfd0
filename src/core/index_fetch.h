/*
 * index_fetch.h - gets pages and files of the one package index that the operator has named.
 *
 * Who asks is a box, so nothing of what it says becomes an address: a page is asked for by the
 * name of its project, and a file by what we put into that page, address and all, signed with a key
 * of ours. A page links where its writer likes, so a host other than the index's own must have a public
 * address, unless mirror.file_hosts names it; what is reached by a proxy the proxy has to decide. Redirects
 * lead to the host that was asked, to the index's or to such a named one, never from https to http.
 */
#ifndef CORE_INDEX_FETCH_H
#define CORE_INDEX_FETCH_H

#include <netinet/in.h>

#include "base/buf.h"
#include "base/ctx.h"
#include "base/err.h"
#include "base/str.h"

struct index_conf {
    struct str url;        /* mirror.pypi_index_url; may have a user and a secret */
    struct str file_hosts; /* "host" or "host:port" with commas between them */
    int64_t max_file;      /* bytes */
};

/* ERR_INVALID with the setting's name in it. */
int index_conf_check(const struct index_conf *conf, struct err *e) MUST_CHECK;

/* Is there a user or a secret in the address, which no box may see? */
bool index_conf_is_secret(const struct index_conf *conf);

struct index_fetch;

/* Borrows conf. `ctx` ends what is under way. */
struct index_fetch *index_fetch_new(const struct index_conf *conf, const struct ctx *ctx,
                                    struct err *e) MUST_CHECK;
void index_fetch_free(struct index_fetch *f); /* NULL is fine */

/* The page of a project, with links as the relay understands them. ERR_NOT_FOUND: the index has
 * none; ERR_INVALID: it is no name; ERR_UNREACHABLE, ERR_LIMIT, ERR_DENIED. */
int index_fetch_page(struct index_fetch *f, struct str project, struct buf *page, struct err *e)
    MUST_CHECK;

/* begin() once, with the length or -1; then write(). */
struct index_taker {
    int (*begin)(void *arg, int64_t length, struct err *e);
    int (*write)(void *arg, struct str bytes, struct err *e);
    void *arg;
};
/* A file of such a page, by the two words of its link. ERR_DENIED: they are not ours. */
int index_fetch_file(struct index_fetch *f, struct str signature, struct str word, bool metadata,
                     const struct index_taker *to, struct err *e) MUST_CHECK;

/* Does the environment name a proxy for addresses of this kind? */
bool index_has_proxy(bool tls);
/* Can everybody on the internet have this address? (pure) */
bool index_address_is_public(const struct sockaddr *address);

#endif
