/*
 * provider_fake.h - boxes in memory, for tests of what stands above providers.
 *
 * A fake_world holds the boxes; any number of providers may look into it, as several
 * processes would. Everything that reaches the provider is counted, and the n-th call
 * can be made to fail, so that a test can go through all of them.
 */
#ifndef TESTS_FAKE_PROVIDER_FAKE_H
#define TESTS_FAKE_PROVIDER_FAKE_H

#include <pthread.h>
#include <stdatomic.h>

#include "provider/provider.h"

#define FAKE_BOXES 512

enum fake_op {
    FAKE_CREATE,
    FAKE_ATTACH,
    FAKE_INFO,
    FAKE_EXEC,
    FAKE_DESTROY,
    FAKE_SWEEP,
    FAKE_OPS,
};

struct fake_world {
    pthread_mutex_t lock;
    struct {
        char id[40];
        char name[80];
        char why[80]; /* it ended */
        bool lives;
        struct limits limits;
    } boxes[FAKE_BOXES]; /* guarded by lock */
    size_t n;            /* guarded by lock */
    int create_ms;       /* how long making one takes */
    const char *output;  /* of each command */
    int code;            /* its exit status */
    bool hangs;          /* it runs until it is cancelled */
    atomic_int calls[FAKE_OPS];
    atomic_int handles;       /* that are not released */
    atomic_int until_failure; /* the call that makes it 0 fails; 0: none does */
    enum err_kind failure;    /* with this; ERR_NONE: ERR_UNREACHABLE */
};

void fake_init(struct fake_world *w);
void fake_fini(struct fake_world *w);
/* One more provider, named "local". Its close() frees it. */
struct provider *fake_provider(struct fake_world *w);
/* The box ends by itself. */
void fake_end(struct fake_world *w, struct str id, const char *why);
size_t fake_living(struct fake_world *w);
int fake_calls(struct fake_world *w); /* of all kinds */

#endif
