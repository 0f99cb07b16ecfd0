/*
 * host.h - names of hosts, users and sandboxes as text that is safe to hand on: checked
 * before they reach a library, an argument list or a file. Each failure is ERR_INVALID with
 * the sentence that says what is accepted; none quotes more than the beginning of the text.
 */
#ifndef BASE_HOST_H
#define BASE_HOST_H

#include "base/err.h"
#include "base/str.h"

/* A host name or address: letters, digits, '.', '-', '_', ':' and '%' (as in fe80::1%eth0),
 * at most 255, not beginning with '-' or '.'. */
int host_check(struct str host, struct err *e) MUST_CHECK;
/* Letters, digits, '.', '_', '-', '+' and '@', at most 64, not beginning with '-'. */
int host_check_user(struct str user, struct err *e) MUST_CHECK;
/* "[user@]host[:port]" with commas between several, as ProxyJump has it; "[::1]:22" too. */
int host_check_jump(struct str jump, struct err *e) MUST_CHECK;

#endif
