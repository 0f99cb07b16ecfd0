/* state.h - a state folder of its own for each test of the store. */
#ifndef TESTS_STORE_STATE_H
#define TESTS_STORE_STATE_H

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "store/db.h"
#include "test.h"

struct place {
    char dir[64];   /* removed at the end */
    char state[80]; /* dir/state: not there yet */
    struct store *store;
    struct arena arena;
};

static inline int place_set_up(void **state)
{
    struct place *p = calloc(1, sizeof(*p));

    (void)snprintf(p->dir, sizeof(p->dir), "/tmp/test-store-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    (void)snprintf(p->state, sizeof(p->state), "%s/state", p->dir);
    arena_init(&p->arena, 64u << 20);
    p->store = store_new(str_from(p->state));
    *state = p;
    return 0;
}

static inline int place_tear_down(void **state)
{
    struct place *p = *state;
    struct err e;

    store_free(p->store);
    arena_fini(&p->arena);
    assert_ok(fd_remove_tree(AT_FDCWD, p->dir, &e), &e);
    free(p);
    return 0;
}

/* A STARTING row; `n` makes its id: 00000001..., and its time. */
static inline struct box_row place_row(struct place *p, int n, const char *name)
{
    return (struct box_row){
        .id = arena_printf(&p->arena, "%012x%020x", n, n),
        .name = str_from(name),
        .provider = S("local"),
        .ref = arena_printf(&p->arena, "ref-%d", n),
        .created_ms = 1000 + n,
        .used_ms = 1000 + n,
        .starter_pid = 42,
        .starter_start = 4242,
    };
}

static inline struct str place_add(struct place *p, int n, const char *name)
{
    struct box_row row = place_row(p, n, name);
    struct err e;

    assert_ok(store_add_box(p->store, &row, 0, &e), &e);
    return row.id;
}

#endif
