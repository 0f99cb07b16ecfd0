/*
 * admit.h - what is checked when the headers of a request are there, before its body is read:
 * Host and Origin, the key, the path, the method, the type and the length, in this order.
 */
#ifndef SERVE_HTTP_ADMIT_H
#define SERVE_HTTP_ADMIT_H

#include "serve/http/http_own.h"

/* Fills in what handlers see. False: it was refused, or answered at once (a preflight), and
 * the answer is in the request. */
bool admit(struct live *l, const char *method);
/* 413: the body turned out to be longer than its route takes. */
void admit_refuse_length(struct live *l);
/* 429: all bodies of this key together are. */
void admit_refuse_bodies(struct live *l, long long max);

#endif
