/*
 * gate.h - the head of an HTTP request, as it goes to a port of a sandbox through the platform.
 *
 * The platform leads to ports by path ("/proxy/8000/x") and wants headers of ours, among them the
 * token of the sandbox. Whoever can connect to a forwarded port speaks to this code; so a path that
 * would leave the port's own is refused, however it is written.
 */
#ifndef PROVIDER_OPENSANDBOX_GATE_H
#define PROVIDER_OPENSANDBOX_GATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

#define GATE_HEAD_MAX (64u << 10)

struct gate {
    struct str host;           /* what the platform is called: "10.0.0.1:8080" */
    struct str prefix;         /* "/proxy/8000": goes before each path */
    const struct str *headers; /* "Name: value"; the client's own of those names are dropped */
    size_t n_headers;
};

struct gate_found {
    size_t used;    /* bytes that were the head */
    bool is_change; /* it asks for another protocol; else the answer ends the connection */
};

/* 1: `out` has the head for the platform; 0: it is not whole yet; -1: ERR_INVALID, with what is
 * wrong with it. */
int gate_head(struct str said, const struct gate *g, struct buf *out, struct gate_found *found,
              struct err *e) MUST_CHECK;

#endif
