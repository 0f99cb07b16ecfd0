#include "core/cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"

struct entry {
    struct list by_id, by_name, by_age;
    struct box *box;
    char id[STORE_ID_LEN + 1];
    char name[CACHE_NAME_SIZE];
    char *owner;
};

static uint32_t hash(struct str s, uint32_t h)
{
    for (size_t i = 0; i < s.len; i++) {
        h = (h ^ (unsigned char)s.p[i]) * 16777619u;
    }
    return h;
}

/* Only the digits that a short id has too. */
static struct list *id_bucket(struct cache *c, struct str id)
{
    return &c->ids[hash(str_head(id, STORE_SHORT_ID_LEN), 2166136261u) % CACHE_BUCKETS];
}

static struct list *name_bucket(struct cache *c, struct str owner, struct str name)
{
    return &c->names[hash(name, hash(owner, 2166136261u)) % CACHE_BUCKETS];
}

void cache_init(struct cache *c)
{
    (void)pthread_mutex_init(&c->lock, NULL);
    list_init(&c->age);
    for (size_t i = 0; i < CACHE_BUCKETS; i++) {
        list_init(&c->ids[i]);
        list_init(&c->names[i]);
    }
    c->n = 0;
}

/* Out of all lists, with the lock held; let go of it without. */
static struct entry *unlink_entry(struct cache *c, struct entry *entry)
{
    list_del(&entry->by_id);
    list_del(&entry->by_name);
    list_del(&entry->by_age);
    c->n--;
    return entry;
}

static void free_entry(struct entry *entry)
{
    if (entry != NULL) {
        box_unref(entry->box);
        free(entry->owner);
        free(entry);
    }
}

void cache_fini(struct cache *c)
{
    while (!list_empty(&c->age)) {
        free_entry(unlink_entry(c, list_entry(c->age.next, struct entry, by_age)));
    }
    (void)pthread_mutex_destroy(&c->lock);
}

static void hand_out(struct cache *c, struct entry *entry, struct cached *out)
{
    list_del(&entry->by_age);
    list_add_tail(&c->age, &entry->by_age);
    out->box = box_ref(entry->box);
    memcpy(out->id, entry->id, sizeof(out->id));
    memcpy(out->name, entry->name, sizeof(out->name));
}

/* The only entry whose id is or begins so; NULL also when there are two. */
static struct entry *entry_by_id(struct cache *c, struct str id)
{
    struct list *bucket = id_bucket(c, id);
    struct entry *found = NULL;
    struct list *at;

    list_each (at, bucket) {
        struct entry *entry = list_entry(at, struct entry, by_id);

        if (!str_starts(str_from(entry->id), id)) {
            continue;
        }
        if (found != NULL) {
            return NULL;
        }
        found = entry;
    }
    return found;
}

bool cache_by_id(struct cache *c, struct str owner, struct str id, struct cached *out)
{
    LOCKED(&c->lock);
    struct entry *entry = NULL;

    if (id.len == STORE_ID_LEN || id.len == STORE_SHORT_ID_LEN) {
        entry = entry_by_id(c, id);
    }
    if (entry == NULL || !str_eq(str_from(entry->owner), owner)) {
        return false;
    }
    hand_out(c, entry, out);
    return true;
}

bool cache_by_name(struct cache *c, struct str owner, struct str name, struct cached *out)
{
    LOCKED(&c->lock);
    struct list *bucket = name_bucket(c, owner, name);
    struct list *at;

    list_each (at, bucket) {
        struct entry *entry = list_entry(at, struct entry, by_name);

        if (name.len > 0 && str_eq(str_from(entry->name), name) &&
            str_eq(str_from(entry->owner), owner)) {
            hand_out(c, entry, out);
            return true;
        }
    }
    return false;
}

static struct entry *take_entry(struct cache *c, struct str id)
{
    struct entry *old = id.len == STORE_ID_LEN ? entry_by_id(c, id) : NULL;

    return old != NULL ? unlink_entry(c, old) : NULL;
}

void cache_put(struct cache *c, const struct box_row *row, struct box *box)
{
    struct entry *replaced = NULL;
    struct entry *oldest = NULL;
    struct entry *entry;

    if (row->id.len != STORE_ID_LEN) {
        return;
    }
    entry = xcalloc(1, sizeof(*entry));
    entry->box = box_ref(box);
    entry->owner = xmemdup(row->owner.p != NULL ? row->owner.p : "", row->owner.len);
    memcpy(entry->id, row->id.p, STORE_ID_LEN);
    if (row->name.len < CACHE_NAME_SIZE) {
        memcpy(entry->name, row->name.p, row->name.len);
    }
    lock(&c->lock);
    replaced = take_entry(c, row->id);
    if (c->n == CACHE_MAX) {
        oldest = unlink_entry(c, list_entry(c->age.next, struct entry, by_age));
    }
    list_add_tail(id_bucket(c, row->id), &entry->by_id);
    list_add_tail(name_bucket(c, row->owner, str_from(entry->name)), &entry->by_name);
    list_add_tail(&c->age, &entry->by_age);
    c->n++;
    unlock(&c->lock);
    free_entry(replaced);
    free_entry(oldest);
}

struct box *cache_take(struct cache *c, struct str id)
{
    struct entry *old;
    struct box *box;

    lock(&c->lock);
    old = take_entry(c, id);
    unlock(&c->lock);
    if (old == NULL) {
        return NULL;
    }
    box = box_ref(old->box);
    free_entry(old);
    return box;
}
