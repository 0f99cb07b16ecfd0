/*
 * web.h - HTTP exchanges by libcurl that obey a ctx.
 *
 * Theory of operation. A channel is one easy handle in a multi handle of its own, whose
 * connection cache it keeps. A call takes the channel that was used last, drives it on its own
 * thread (libcurl sleeps on the call's cancel, too) and gives it back; so there are as many
 * connections as there were calls at the same time, and each is used again.
 *
 * A receiver may have heard enough before the body ends: execd goes on for a moment after its
 * last event. The call returns then, and the channel drains by itself: whoever needs one next
 * looks whether it is done, takes another where it is not, and gives up the oldest of many.
 */
#ifndef PROVIDER_OPENSANDBOX_WEB_H
#define PROVIDER_OPENSANDBOX_WEB_H

#include "base/buf.h"
#include "base/ctx.h"
#include "provider/provider.h"

struct web;

/* `ca_file`: what https is trusted by, which must live as long; "": the machine's own. */
struct web *web_new(const char *ca_file);
void web_free(struct web *w); /* no call may be under way; NULL is fine */

enum web_take {
    WEB_MORE,   /* go on */
    WEB_ENOUGH, /* the rest is of no use: return at once */
};

#define WEB_HEADERS_MAX 16

struct web_req {
    const char *method; /* "GET" */
    struct str url;
    struct str headers[WEB_HEADERS_MAX]; /* "Name: value" */
    size_t n_headers;
    struct str range; /* "Range: ...", or empty */
    struct str body;  /* JSON, or empty */
    /* multipart/form-data instead of a body, as execd takes a file: what is told about it, its
     * name, and its bytes. */
    struct str file_meta, file_name;
    const struct source *file;
    int64_t silence_ms; /* without a byte in either direction; 0: any */
    int64_t connect_ms; /* 0: 10 s */
    const char *want;   /* a header of the answer, in lower case; or NULL */
    /* Takes the body of an answer 2xx (enum web_take); -1 ends the call with that error. NULL:
     * web_resp.body. */
    int (*receive)(void *arg, struct str bytes, struct err *e);
    void *arg;
    /* Called whenever nothing came for a moment: -1 ends the call. NULL: nobody is asked. */
    int (*tick)(void *arg, struct err *e);
    int64_t tick_ms;
};

struct web_resp {
    long status;
    struct buf body; /* of an error, or where nobody takes it; at most WEB_BODY_MAX */
    char wanted[256];
    bool not_sent; /* on failure: the request certainly did not reach anybody */
    bool refused;  /* on failure: nobody could be connected to */
    bool silent;   /* on failure: silence_ms passed */
    bool broken;   /* on failure: the answer broke off after it had begun */
};

#define WEB_BODY_MAX (64u << 20)

void web_resp_init(struct web_resp *r);
void web_resp_fini(struct web_resp *r);
#define own_resp CLEANUP(web_resp_fini)

/* One exchange. 0 whatever the status is. ERR_UNREACHABLE with what happened in the words of
 * libcurl; the caller says to whom. `r` was initialised. */
int web_do(struct web *w, const struct ctx *ctx, const struct web_req *req, struct web_resp *r,
           struct err *e) MUST_CHECK;

/* Adds text as a part of a URL: everything but letters, digits and "-._~" as %XX. */
void web_add_escaped(struct buf *to, struct str text);

#endif
