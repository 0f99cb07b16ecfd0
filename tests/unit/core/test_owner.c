/* Boxes belong to who made them: two owners over one database and one provider. */
#include "world.h"

struct owners {
    struct world *w;
    struct scope ann, bob; /* of one process, as HTTP keys are */
};

static int set_up(void **state)
{
    struct owners *o = calloc(1, sizeof(*o));
    void *world = NULL;

    assert_int_equal(world_set_up(&world), 0);
    o->w = world;
    scope_init(&o->ann, S("key:ann"), S("/srv"));
    scope_init(&o->bob, S("key:bob"), S("/srv"));
    *state = o;
    return 0;
}

static int tear_down(void **state)
{
    struct owners *o = *state;
    void *world = o->w;

    scope_fini(&o->ann);
    scope_fini(&o->bob);
    free(o);
    return world_tear_down(&world);
}

static int create_in(struct owners *o, struct scope *scope, const char *name, struct box_view *view,
                     struct err *e)
{
    struct box_order order = {.name = str_from(name)};
    bool reused;

    return boxes_create(o->w->one.boxes, &o->w->ctx, scope, &order, view, &reused, e);
}

static struct str made(struct owners *o, struct scope *scope, const char *name)
{
    struct box_view view = {0};
    struct err e;

    assert_ok(create_in(o, scope, name, &view, &e), &e);
    return view.row.id;
}

static int find_in(struct owners *o, struct scope *scope, struct box_want want, struct str *id,
                   struct err *e)
{
    struct box *b = boxes_find(o->w->one.boxes, &o->w->ctx, scope, &want, id, e);

    box_unref(b);
    return b != NULL ? 0 : -1;
}

static void the_same_name_is_two_boxes(void **state)
{
    struct owners *o = *state;
    struct str anns = made(o, &o->ann, "web"), bobs = made(o, &o->bob, "web"), id;
    struct err e;

    assert_false(str_eq(anns, bobs));
    assert_ok(find_in(o, &o->ann, (struct box_want){.name = S("web")}, &id, &e), &e);
    assert_str(id, anns);
    assert_ok(find_in(o, &o->bob, (struct box_want){.name = S("web")}, &id, &e), &e);
    assert_str(id, bobs);
}

/* With the handle in the cache, and without. */
static void nobody_finds_anothers_box(void **state)
{
    struct owners *o = *state;
    struct str secret = made(o, &o->ann, "secret-name");
    const struct box_want wants[] = {
        {.id = secret},
        {.id = str_head(secret, STORE_SHORT_ID_LEN)},
        {.name = S("secret-name")},
        {.name = secret},
        {.id = arena_printf(&o->w->arena, "local:%.*s", STR_ARG(secret))},
    };
    struct scope *others[] = {&o->bob, &o->w->one.scope};

    for (int cached = 1; cached >= 0; cached--) {
        for (size_t i = 0; i < COUNTOF(wants) * COUNTOF(others); i++) {
            struct scope *scope = others[i % COUNTOF(others)];
            const struct box_want *want = &wants[i / COUNTOF(others)];
            struct str id, name;
            struct box_view view;
            struct err e;

            assert_fails(find_in(o, scope, *want, &id, &e), &e, ERR_NOT_FOUND, "none at all");
            assert_null(strstr(e.msg, "existing"));
            assert_fails(boxes_delete(o->w->one.boxes, &o->w->ctx, scope, want, &id, &name, &e), &e,
                         ERR_NOT_FOUND, "no sandbox");
            assert_fails(boxes_select(o->w->one.boxes, &o->w->ctx, scope, want, &view, &e), &e,
                         ERR_NOT_FOUND, "no sandbox");
        }
        assert_false(boxes_owns(o->w->one.boxes, &o->w->ctx, &o->bob, secret));
        assert_true(boxes_owns(o->w->one.boxes, &o->w->ctx, &o->ann, secret));
        box_unref(cache_take(&o->w->one.boxes->cache, secret));
    }
}

static int count_view(void *arg, const struct box_view *view, struct box *box, struct err *e)
{
    int *n = arg;

    (void)view;
    (void)box;
    (void)e;
    (*n)++;
    return 0;
}

static int listed(struct owners *o, struct scope *scope)
{
    struct err e;
    int n = 0;

    assert_ok(boxes_each(o->w->one.boxes, &o->w->ctx, scope, count_view, &n, &e), &e);
    return n;
}

static void lists_hold_ones_own(void **state)
{
    struct owners *o = *state;

    (void)made(o, &o->ann, "a1");
    (void)made(o, &o->ann, "a2");
    (void)made(o, &o->bob, "b1");
    assert_int_equal(listed(o, &o->ann), 2);
    assert_int_equal(listed(o, &o->bob), 1);
    assert_int_equal(listed(o, &o->w->one.scope), 0);
}

static void an_unnamed_box_is_never_anothers(void **state)
{
    struct owners *o = *state;
    struct str only = made(o, &o->ann, "only"), id;
    bool is_made = false;
    struct err e;

    assert_fails(find_in(o, &o->bob, (struct box_want){0}, &id, &e), &e, ERR_NOT_FOUND,
                 "no sandbox yet");
    assert_ok(
        find_in(o, &o->bob, (struct box_want){.make_default = true, .made = &is_made}, &id, &e),
        &e);
    assert_true(is_made);
    assert_false(str_eq(id, only));
    /* Both in the same folder: each has a default box of its own. */
    scope_select(o->w->one.boxes, &o->ann, STR_EMPTY);
    assert_ok(find_in(o, &o->ann, (struct box_want){.make_default = true}, &id, &e), &e);
    assert_str(id, only);
}

static void a_selection_of_anothers_box_counts_for_nothing(void **state)
{
    struct owners *o = *state;
    struct str anns = made(o, &o->ann, "a"), id;
    struct err e;

    scope_select(o->w->one.boxes, &o->bob, anns); /* as a forged row in the database would */
    assert_true(find_in(o, &o->bob, (struct box_want){0}, &id, &e) < 0);
}

static void the_operator_sees_whose_they_are(void **state)
{
    struct owners *o = *state;
    const struct str *owners;
    size_t n;
    struct err e;

    assert_ok(boxes_owners(o->w->one.boxes, &o->w->ctx, &owners, &n, &e), &e);
    assert_int_equal(n, 0);
    (void)made(o, &o->bob, "b");
    (void)made(o, &o->ann, "a1");
    (void)made(o, &o->ann, "a2");
    (void)made(o, &o->w->one.scope, "mine");
    assert_ok(boxes_owners(o->w->one.boxes, &o->w->ctx, &owners, &n, &e), &e);
    assert_int_equal(n, 3);
    assert_str(owners[0], S(""));
    assert_str(owners[1], S("key:ann"));
    assert_str(owners[2], S("key:bob"));
}

static void the_limit_counts_all_and_names_ones_own(void **state)
{
    struct owners *o = *state;
    struct box_view view;
    struct str first;
    struct err e;

    o->w->config.max_boxes = 2;
    first = made(o, &o->ann, "secret-1");
    (void)made(o, &o->ann, "secret-2");
    assert_fails(create_in(o, &o->bob, "b", &view, &e), &e, ERR_LIMIT, "none of them is yours");
    assert_null(strstr(e.msg, "secret"));
    assert_fails(create_in(o, &o->ann, "c", &view, &e), &e, ERR_LIMIT, "secret-1, secret-2");
    /* One of Ann's dies unseen: Bob's next try finds that out. */
    box_unref(cache_take(&o->w->one.boxes->cache, first));
    fake_end(&o->w->fake, first, "it was killed");
    assert_ok(create_in(o, &o->bob, "b", &view, &e), &e);
}

#define OWNED(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OWNED(the_same_name_is_two_boxes),
        OWNED(nobody_finds_anothers_box),
        OWNED(lists_hold_ones_own),
        OWNED(an_unnamed_box_is_never_anothers),
        OWNED(a_selection_of_anothers_box_counts_for_nothing),
        OWNED(the_operator_sees_whose_they_are),
        OWNED(the_limit_counts_all_and_names_ones_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
