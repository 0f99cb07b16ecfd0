/* world.h - boxes on a fake provider and a real database in a folder of its own. */
#ifndef TESTS_CORE_WORLD_H
#define TESTS_CORE_WORLD_H

#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/proc.h"
#include "base/thread.h"
#include "config/config.h"
#include "core/boxes_own.h"
#include "provider_fake.h"
#include "test.h"

/* One running anybox. */
struct process {
    struct store *store;
    struct boxes *boxes;
    struct scope scope;
};

struct world {
    char dir[64];
    char state[80];
    struct config config;
    struct fake_world fake;
    struct arena arena;
    struct ctx ctx;
    struct process one;
};

static inline void process_start(struct world *w, struct process *p, const char *folder)
{
    struct provider *provider = fake_provider(&w->fake);

    p->store = store_new(str_from(w->state));
    p->boxes = boxes_new_with(&w->config, p->store, &provider, 1, NULL);
    scope_init(&p->scope, STR_EMPTY, str_from(folder));
}

static inline void process_stop(struct process *p)
{
    scope_fini(&p->scope);
    boxes_free(p->boxes);
    store_free(p->store);
}

static inline int world_set_up(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    (void)snprintf(w->dir, sizeof(w->dir), "/tmp/test-core-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    (void)snprintf(w->state, sizeof(w->state), "%s/state", w->dir);
    w->config.state_dir = str_from(w->state);
    w->config.default_provider = S("local");
    arena_init(&w->arena, 64u << 20);
    w->ctx.arena = &w->arena;
    fake_init(&w->fake);
    process_start(w, &w->one, "/home/me/my project");
    *state = w;
    return 0;
}

static inline int world_tear_down(void **state)
{
    struct world *w = *state;
    struct err e;

    process_stop(&w->one);
    assert_int_equal(atomic_load(&w->fake.handles), 0); /* every reference was given back */
    fake_fini(&w->fake);
    arena_fini(&w->arena);
    assert_ok(fd_remove_tree(AT_FDCWD, w->dir, &e), &e);
    free(w);
    return 0;
}

/* The id of the box that is found; the handle is given back. */
static inline int world_find(struct world *w, struct process *p, struct box_want want,
                             struct str *id, struct err *e)
{
    struct box *b = boxes_find(p->boxes, &w->ctx, &p->scope, &want, id, e);

    box_unref(b);
    return b != NULL ? 0 : -1;
}

static inline struct str world_found(struct world *w, struct process *p, struct box_want want)
{
    struct str id = STR_EMPTY;
    struct err e;

    assert_ok(world_find(w, p, want, &id, &e), &e);
    return id;
}

static inline struct box_view world_create(struct world *w, struct process *p, const char *name)
{
    struct box_order order = {.name = str_from(name)};
    struct box_view view = {0};
    bool reused = true;
    struct err e;

    assert_ok(boxes_create(p->boxes, &w->ctx, &p->scope, &order, &view, &reused, &e), &e);
    assert_false(reused);
    return view;
}

static inline struct box_row world_row(struct world *w, struct process *p, struct str id)
{
    struct box_row row = {0};
    struct err e;

    assert_ok(store_box_by_id(p->store, &w->arena, STR_EMPTY, id, &row, &e), &e);
    return row;
}

static inline int64_t world_rows(struct process *p)
{
    int64_t n = -1;
    struct err e;

    assert_ok(store_count_boxes(p->store, STR_EMPTY, &n, &e), &e);
    return n;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_set_up, world_tear_down)

#endif
