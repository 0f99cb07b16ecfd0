/*
 * cache.h - handles to boxes that were used, so that a command in a known box needs
 * neither the database nor the disk.
 *
 * Found by id (all of it or its first 12 digits) and by owner and name, in constant
 * time however many boxes there are. At most CACHE_MAX handles are kept; the one that
 * was not used for longest goes first. Thread-safe; its lock is never held across a
 * call into a provider.
 */
#ifndef CORE_CACHE_H
#define CORE_CACHE_H

#include <pthread.h>

#include "base/list.h"
#include "base/str.h"
#include "provider/provider.h"
#include "store/store.h"

#define CACHE_MAX       256
#define CACHE_BUCKETS   512
#define CACHE_NAME_SIZE 72 /* a longer name is not found by name */

struct cache {
    pthread_mutex_t lock;
    struct list ids[CACHE_BUCKETS];   /* struct entry.by_id; guarded by lock, as all below */
    struct list names[CACHE_BUCKETS]; /* struct entry.by_name */
    struct list age;                  /* struct entry.by_age, oldest first */
    size_t n;
};

/* What is found: a reference for the caller to box_unref(). */
struct cached {
    struct box *box;
    char id[STORE_ID_LEN + 1];
    char name[CACHE_NAME_SIZE];
};

void cache_init(struct cache *c);
void cache_fini(struct cache *c);
bool cache_by_id(struct cache *c, struct str owner, struct str id, struct cached *out);
bool cache_by_name(struct cache *c, struct str owner, struct str name, struct cached *out);
/* Takes a reference of its own; replaces what it knew about this id. */
void cache_put(struct cache *c, const struct box_row *row, struct box *box);
/* Out of the cache; the reference is now the caller's. NULL: it was not there. */
struct box *cache_take(struct cache *c, struct str id);

#endif
