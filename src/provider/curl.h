/*
 * curl.h - libcurl, opened when it is first needed.
 *
 * Linked, it would cost every stdio server the start of some thirty libraries. The table
 * is filled once and never changed; any thread may use it.
 */
#ifndef PROVIDER_CURL_H
#define PROVIDER_CURL_H

#include <curl/curl.h>

#include "base/ctx.h"
#include "base/err.h"

#define CURL_FUNCTIONS(X)                                                                          \
    X(easy_init)                                                                                   \
    X(easy_cleanup)                                                                                \
    X(easy_setopt)                                                                                 \
    X(easy_perform)                                                                                \
    X(easy_getinfo)                                                                                \
    X(easy_strerror)                                                                               \
    X(easy_send)                                                                                   \
    X(easy_recv)                                                                                   \
    X(easy_reset)                                                                                  \
    X(easy_pause)                                                                                  \
    X(multi_init)                                                                                  \
    X(multi_cleanup)                                                                               \
    X(multi_add_handle)                                                                            \
    X(multi_remove_handle)                                                                         \
    X(multi_setopt)                                                                                \
    X(multi_perform)                                                                               \
    X(multi_poll)                                                                                  \
    X(multi_info_read)                                                                             \
    X(mime_init)                                                                                   \
    X(mime_free)                                                                                   \
    X(mime_addpart)                                                                                \
    X(mime_name)                                                                                   \
    X(mime_filename)                                                                               \
    X(mime_type)                                                                                   \
    X(mime_data)                                                                                   \
    X(mime_data_cb)                                                                                \
    X(slist_append)                                                                                \
    X(slist_free_all)

struct curl_library {
#define MEMBER(name) __typeof__ (&curl_##name)(name);
    CURL_FUNCTIONS(MEMBER)
#undef MEMBER
};

/* NULL with ERR_UNSUPPORTED and the package to install. */
const struct curl_library *curl_library(struct err *e);

/* For CURLOPT_XFERINFOFUNCTION, with a struct ctx as its data: ends a transfer whose caller does not
 * wait any more. */
int curl_is_cancelled(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d);

#endif
