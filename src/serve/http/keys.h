/*
 * keys.h - API keys: who may ask, and under which name.
 *
 * Keys come from the file `http_keys` in the state folder (names and SHA-256 of the keys;
 * `anybox key` and the first start write it) and from the configuration (http.keys,
 * http.key_file). A name is the owner of the boxes that are made with it, so it is unique.
 * A key itself is shown once, when it is made, and kept nowhere. Keys of ours have 192 random
 * bits, so a plain hash is enough: nobody can try them all.
 */
#ifndef SERVE_HTTP_KEYS_H
#define SERVE_HTTP_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/config.h"

#define KEY_NAME_MAX   64
#define KEY_LEN_MIN    16 /* of one that somebody chose */
#define KEY_LEN_MAX    512
#define KEYS_MAX       1000
#define KEY_OWNER_SIZE (sizeof("key:") + KEY_NAME_MAX)

struct key {
    char name[KEY_NAME_MAX + 1]; /* letters, digits, '-', '_' and '.' */
    unsigned char hash[32];
    int64_t created_ms;
    bool configured; /* by the configuration, not by the file */
};

/* ---- for a server -------------------------------------------------------------------- */

struct keys;

/* Reads them all. A key that is wrong, or a name that is there twice, is an error. `config`
 * must outlive it. NULL is the failure. */
struct keys *keys_open(const struct config *config, struct err *e) MUST_CHECK;
void keys_close(struct keys *k);

size_t keys_count(struct keys *k);
/* When there is no key at all: makes one with the name "default", appends it to `key` and
 * says *made. Another process that starts at the same moment makes none. */
int keys_need_one(struct keys *k, struct buf *key, bool *made, struct err *e) MUST_CHECK;
/* Whose key is this? Copies the name and returns true. It takes as long for any key of the
 * same length. A file that was changed since is read again, so that a key that was removed
 * ends at once; while the file cannot be read, none of its keys are good. Any thread. */
bool keys_check(struct keys *k, struct str key, char name[KEY_NAME_MAX + 1]);

/* Is there a key of this name now? Any thread. */
bool keys_has(struct keys *k, struct str name);

/* "key:<name>": the owner in struct scope. Returns `to`. */
const char *key_owner(const char *name, char to[KEY_OWNER_SIZE]);

/* ---- for `anybox key` ---------------------------------------------------------------- */

/* Makes a key and appends it to `key`. ERR_EXISTS, ERR_INVALID. */
int keys_add(const struct config *config, struct str name, struct buf *key, struct err *e)
    MUST_CHECK;
/* ERR_NOT_FOUND; ERR_UNSUPPORTED for one that the configuration names. */
int keys_remove(const struct config *config, struct str name, struct err *e) MUST_CHECK;
/* All of them, sorted by name; their number in *n. NULL is the failure. */
const struct key *keys_list(const struct config *config, struct arena *a, size_t *n, struct err *e)
    MUST_CHECK;

#endif
