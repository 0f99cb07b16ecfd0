/*
 * mhd.h - libmicrohttpd, opened when it is first needed: linking it would cost every start of
 * the stdio server a millisecond and ten libraries. Its header is used for types only.
 */
#ifndef SERVE_HTTP_MHD_H
#define SERVE_HTTP_MHD_H

#include <microhttpd.h>

#include "base/err.h"

#define MHD_FUNCTIONS(X)                                                                           \
    X(start_daemon)                                                                                \
    X(quiesce_daemon)                                                                              \
    X(stop_daemon)                                                                                 \
    X(get_daemon_info)                                                                             \
    X(get_connection_info)                                                                         \
    X(set_connection_option)                                                                       \
    X(lookup_connection_value_n)                                                                   \
    X(get_connection_values_n)                                                                     \
    X(queue_response)                                                                              \
    X(suspend_connection)                                                                          \
    X(resume_connection)                                                                           \
    X(create_response_from_callback)                                                               \
    X(create_response_from_buffer)                                                                 \
    X(destroy_response)                                                                            \
    X(add_response_header)                                                                         \
    X(get_version)

struct mhd {
#define MEMBER(name) __typeof__ (&MHD_##name)(name);
    MHD_FUNCTIONS(MEMBER)
#undef MEMBER
};

/* Opens the library for good. ERR_UNSUPPORTED names the package that is missing. */
int mhd_open(struct mhd *out, struct err *e) MUST_CHECK;

#endif
