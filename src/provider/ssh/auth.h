/* auth.h - what auth.c (the ways to log in) and auth_key.c (private keys) share. */
#ifndef PROVIDER_SSH_AUTH_H
#define PROVIDER_SSH_AUTH_H

#include "provider/ssh/machine.h"

/* A private key that was read: with a certificate that was made for it, or without. */
struct auth_key {
    const char *path;
    ssh_key plain;
    ssh_key certified; /* or NULL: there is no certificate */
};

/* `path` may begin with "~". ERR_DENIED and so on: a sentence that says what is wrong with the
 * file and what to do. */
int auth_key_load(struct session *s, struct arena *a, struct str path, struct auth_key *out,
                  struct err *e) MUST_CHECK;
void auth_key_free(struct session *s, struct auth_key *key);

#endif
