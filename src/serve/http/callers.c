/* callers.c - who asks: one struct caller per key, kept for as long as the server runs. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "serve/http/http_own.h"

/* Whose boxes nobody has: for routes that need no key. */
#define NOBODY "(nobody)"

struct entry {
    struct list link; /* callers.entries */
    struct caller caller;
    char *owner, *name;
};

struct callers {
    struct str folder;
    pthread_mutex_t lock;
    struct list entries; /* struct entry.link; guarded by lock */
    struct caller nobody, local;
};

struct callers *callers_new(struct http *h)
{
    struct callers *c = xcalloc(1, sizeof(*c));

    c->folder = h->services->config->folder;
    (void)pthread_mutex_init(&c->lock, NULL);
    list_init(&c->entries);
    scope_init(&c->nobody.scope, S(NOBODY), c->folder);
    scope_init(&c->local.scope, STR_EMPTY, c->folder);
    return c;
}

void callers_free(struct callers *c)
{
    if (c == NULL) {
        return;
    }
    while (!list_empty(&c->entries)) {
        struct entry *entry = list_entry(c->entries.next, struct entry, link);

        list_del(&entry->link);
        scope_fini(&entry->caller.scope);
        free(entry->owner);
        free(entry->name);
        free(entry);
    }
    scope_fini(&c->nobody.scope);
    scope_fini(&c->local.scope);
    (void)pthread_mutex_destroy(&c->lock);
    free(c);
}

struct caller *callers_nobody(struct callers *c)
{
    return &c->nobody;
}

struct caller *callers_local(struct callers *c)
{
    return &c->local;
}

struct caller *callers_of_key(struct callers *c, struct str key_name, struct str owner)
{
    struct list *pos;
    struct entry *entry;
    LOCKED(&c->lock);

    list_each (pos, &c->entries) {
        entry = list_entry(pos, struct entry, link);
        if (str_eq(entry->caller.name, key_name)) {
            return &entry->caller;
        }
    }
    entry = xcalloc(1, sizeof(*entry));
    entry->name = xmemdup(key_name.p, key_name.len);
    entry->owner = xmemdup(owner.len > 0 ? owner.p : "", owner.len);
    entry->caller.name = (struct str){entry->name, key_name.len};
    scope_init(&entry->caller.scope, (struct str){entry->owner, owner.len}, c->folder);
    list_add_tail(&c->entries, &entry->link);
    return &entry->caller;
}

bool caller_enter(struct http *http, struct caller *c, unsigned n)
{
    int more = (int)n;

    if (more > 0 &&
        atomic_fetch_add(&c->n_calls, more) + more > http->services->config->http_max_calls) {
        (void)atomic_fetch_sub(&c->n_calls, more);
        return false;
    }
    return true;
}

void caller_leave(struct caller *c, unsigned n)
{
    (void)atomic_fetch_sub(&c->n_calls, (int)n);
}

bool request_enter_file(struct request *r)
{
    const struct config *config = r->services->config;
    bool few = atomic_fetch_add(&r->caller->n_files, 1) < config->http_max_calls;
    bool few_at_all = atomic_fetch_add(&r->http->n_files, 1) < config->max_calls;

    if (few && few_at_all) {
        return true;
    }
    request_leave_file(r);
    request_set_header(r, "Retry-After", S("1"));
    request_fail(r, MHD_HTTP_TOO_MANY_REQUESTS, "limit",
                 "Too many files are on their way: at most %lld of one key (http.max_calls), and "
                 "%lld of all together (server.max_calls); wait for one to end, then ask again.",
                 (long long)config->http_max_calls, (long long)config->max_calls);
    return false;
}

void request_leave_file(struct request *r)
{
    (void)atomic_fetch_sub(&r->caller->n_files, 1);
    (void)atomic_fetch_sub(&r->http->n_files, 1);
}
