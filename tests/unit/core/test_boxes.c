#include "world.h"

static int create(struct world *w, const char *name, bool reuse, struct box_view *view,
                  bool *reused, struct err *e)
{
    struct box_order order = {.name = str_from(name), .reuse = reuse};

    return boxes_create(w->one.boxes, &w->ctx, &w->one.scope, &order, view, reused, e);
}

static int delete_box(struct world *w, struct str id, struct str *name, struct err *e)
{
    struct box_want want = {.id = id};
    struct str gone = STR_EMPTY;

    return boxes_delete(w->one.boxes, &w->ctx, &w->one.scope, &want, &gone, name, e);
}

static void names_are_checked(void **state)
{
    static const char *const good[] = {
        "a",
        "box-1a2b3c",
        "A.b_c-d",
        "_x",
        "0",
        "0123456789abcdeg",
        "0123456789012345678901234567890123456789012345678901234567890123",
    };
    static const char *const bad[] = {
        "",    ".a",
        "-a",  "a/b",
        "a b", "a\nb",
        "..",  "\xc3\xa4",
        "a:b", "01234567890123456789012345678901234567890123456789012345678901234",
    };
    struct err e;

    (void)state;
    for (size_t i = 0; i < COUNTOF(good); i++) {
        assert_ok(boxes_check_name(str_from(good[i]), &e), &e);
    }
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        assert_fails(boxes_check_name(str_from(bad[i]), &e), &e, ERR_INVALID, "1 to 64");
    }
    assert_fails(boxes_check_name(S("0123456789ab"), &e), &e, ERR_INVALID, "looks like an id");
    assert_fails(boxes_check_name(S("0123456789abcdef0123456789abcdef"), &e), &e, ERR_INVALID,
                 "looks like an id");
}

static void a_new_box_is_complete(void **state)
{
    struct world *w = *state;
    struct box_order order = {
        .name = S("x"),
        .spec = {.image = S("img"), .limits = {.lifetime_s = 100, .pids = 7}},
    };
    struct box_view view = {0};
    bool reused;
    struct err e;
    int64_t now = clock_wall_ms();

    assert_ok(boxes_create(w->one.boxes, &w->ctx, &w->one.scope, &order, &view, &reused, &e), &e);
    assert_int_equal(view.row.id.len, 32);
    assert_str(view.row.name, S("x"));
    assert_str(view.row.provider, S("local"));
    assert_str(view.row.image, S("img"));
    assert_int_equal(view.row.state, ROW_LIVE);
    assert_true(view.row.expires_ms >= now + 100000 && view.row.expires_ms < now + 160000);
    assert_true(view.alive);
    assert_true(view.selected);
    assert_int_equal(view.info.limits.pids, 7);
    assert_str(world_row(w, &w->one, view.row.id).name, S("x"));
    assert_true(world_row(w, &w->one, view.row.id).expires_ms == view.row.expires_ms);
}

static void a_name_is_made_up(void **state)
{
    struct world *w = *state;
    struct str name = world_create(w, &w->one, "").row.name;

    assert_true(str_starts(name, S("box-")));
    assert_int_equal(name.len, 10);
}

static void only_the_first_is_selected(void **state)
{
    struct world *w = *state;
    struct box_view active = {0};
    struct err e;

    assert_true(world_create(w, &w->one, "a").selected);
    assert_false(world_create(w, &w->one, "b").selected);
    assert_ok(boxes_active(w->one.boxes, &w->ctx, &w->one.scope, &active, &e), &e);
    assert_str(active.row.name, S("a"));
    /* What was selected and has ended does not count. */
    assert_ok(store_box_ended(w->one.store, active.row.id, S("so"), &e), &e);
    assert_true(world_create(w, &w->one, "c").selected);
}

static void a_box_made_by_itself_gives_way_to_one_made_to_order(void **state)
{
    struct world *w = *state;
    struct str made = world_found(w, &w->one, (struct box_want){.make_default = true});
    struct box_view view = world_create(w, &w->one, "x");

    assert_true(view.selected);
    assert_str(world_found(w, &w->one, (struct box_want){.make_default = true}), view.row.id);
    assert_false(str_eq(made, view.row.id));
}

static void a_taken_name_is_refused_or_reused(void **state)
{
    struct world *w = *state;
    struct str id = world_create(w, &w->one, "x").row.id;
    struct box_view view = {0};
    bool reused = false;
    struct err e;

    assert_fails(create(w, "x", false, &view, &reused, &e), &e, ERR_EXISTS,
                 "there is already a sandbox \"x\": use reuse=true or another name");
    assert_ok(create(w, "x", true, &view, &reused, &e), &e);
    assert_true(reused);
    assert_str(view.row.id, id);
    assert_int_equal(fake_living(&w->fake), 1);
    /* A box that died unseen holds no name. */
    fake_end(&w->fake, id, "idle");
    assert_ok(create(w, "x", true, &view, &reused, &e), &e);
    assert_false(reused);
    assert_false(str_eq(view.row.id, id));
    fake_end(&w->fake, view.row.id, "idle");
    assert_ok(create(w, "x", false, &view, &reused, &e), &e);
}

static void a_box_that_does_not_answer_is_not_reused(void **state)
{
    struct world *w = *state;
    struct box_view view = {0};
    bool reused;
    struct err e;

    world_create(w, &w->one, "x");
    atomic_store(&w->fake.until_failure, 1);
    assert_fails(create(w, "x", true, &view, &reused, &e), &e, ERR_UNREACHABLE,
                 "exists and does not answer");
    assert_int_equal(fake_living(&w->fake), 1);
}

static void bad_orders_leave_nothing(void **state)
{
    struct world *w = *state;
    struct box_order order = {.name = S("x"), .provider = S("docker")};
    struct box_view view = {0};
    bool reused;
    struct err e;

    assert_fails(boxes_create(w->one.boxes, &w->ctx, &w->one.scope, &order, &view, &reused, &e), &e,
                 ERR_INVALID, "there is no provider \"docker\"; available: local");
    assert_fails(create(w, "a/b", false, &view, &reused, &e), &e, ERR_INVALID, "1 to 64");
    atomic_store(&w->fake.until_failure, 1);
    w->fake.failure = ERR_LIMIT;
    assert_fails(create(w, "x", false, &view, &reused, &e), &e, ERR_LIMIT, "the script says so");
    assert_int_equal(world_rows(&w->one), 0);
    assert_int_equal(fake_living(&w->fake), 0);
    assert_ok(create(w, "x", false, &view, &reused, &e), &e);
}

static void the_number_of_boxes_is_limited(void **state)
{
    struct world *w = *state;
    struct str b;
    struct box_view view = {0};
    bool reused;
    struct err e;

    w->config.max_boxes = 2;
    world_create(w, &w->one, "a");
    b = world_create(w, &w->one, "b").row.id;
    assert_fails(create(w, "c", false, &view, &reused, &e), &e, ERR_LIMIT,
                 "there are already 2 sandboxes, as many as local.max_boxes allows: delete one "
                 "with delete_sandbox; existing: a, b");
    /* Dead ones do not count, even when nobody has noticed yet. */
    fake_end(&w->fake, b, "idle");
    assert_ok(create(w, "c", false, &view, &reused, &e), &e);
    assert_str(world_row(w, &w->one, b).ended, S("idle"));
}

static void delete_leaves_nothing(void **state)
{
    struct world *w = *state;
    struct str a = world_create(w, &w->one, "a").row.id;
    struct str name = STR_EMPTY;
    struct str id;
    struct err e;

    assert_ok(delete_box(w, a, &name, &e), &e);
    assert_str(name, S("a"));
    assert_int_equal(fake_living(&w->fake), 0);
    assert_str(world_row(w, &w->one, a).ended, S("it was deleted"));
    assert_int_equal(atomic_load(&w->fake.handles), 0);
    assert_ok(delete_box(w, a, &name, &e), &e); /* deleting again is success */
    assert_fails(delete_box(w, S("nobody"), &name, &e), &e, ERR_NOT_FOUND, "no sandbox \"nobody\"");
    /* It was the selected one: now there is none. */
    assert_fails(world_find(w, &w->one, (struct box_want){0}, &id, &e), &e, ERR_NOT_FOUND,
                 "there is no sandbox yet");
    assert_fails(world_find(w, &w->one, (struct box_want){.name = S("a")}, &id, &e), &e, ERR_GONE,
                 "it was deleted");
}

struct heard {
    int times;
    char id[80], why[80];
};

static void hear_end(void *arg, struct str id, struct str why)
{
    struct heard *h = arg;

    h->times++;
    (void)snprintf(h->id, sizeof(h->id), "%.*s", STR_ARG(id));
    (void)snprintf(h->why, sizeof(h->why), "%.*s", STR_ARG(why));
}

static void who_wants_to_know_hears_of_an_end(void **state)
{
    struct world *w = *state;
    struct heard h = {0};
    struct str a = world_create(w, &w->one, "a").row.id;
    struct str b = world_create(w, &w->one, "b").row.id;
    struct str name;
    struct err e;

    boxes_on_end(w->one.boxes, hear_end, &h);
    assert_ok(delete_box(w, a, &name, &e), &e);
    assert_int_equal(h.times, 1);
    assert_str(str_from(h.id), a);
    assert_string_equal(h.why, "it was deleted");
    fake_end(&w->fake, b, "it was idle");
    boxes_lost(w->one.boxes, &w->ctx, b, S("it was idle"));
    assert_int_equal(h.times, 2);
    assert_str(str_from(h.id), b);
}

static void output_that_is_kept_too_late_goes(void **state)
{
    struct world *w = *state;
    struct str a = world_create(w, &w->one, "a").row.id;
    char folder[160];
    struct str name;
    struct err e;

    (void)snprintf(folder, sizeof(folder), "%s/outputs/%.*s", w->state, STR_ARG(a));
    assert_ok(fd_mkdirs(folder, 0700, &e), &e);
    boxes_output_kept(w->one.boxes, &w->ctx, &w->one.scope, a);
    assert_int_equal(access(folder, F_OK), 0);
    assert_ok(delete_box(w, a, &name, &e), &e);
    assert_int_not_equal(access(folder, F_OK), 0);
    assert_ok(fd_mkdirs(folder, 0700, &e), &e);
    boxes_output_kept(w->one.boxes, &w->ctx, &w->one.scope, a);
    assert_int_not_equal(access(folder, F_OK), 0);
}

static void a_box_that_died_can_be_deleted(void **state)
{
    struct world *w = *state;
    struct process two;
    struct str a = world_create(w, &w->one, "a").row.id;
    struct box_want want = {.id = a};
    struct str id;
    struct str name;
    struct err e;

    fake_end(&w->fake, a, "idle");
    process_start(w, &two, "/elsewhere"); /* has no handle */
    assert_ok(boxes_delete(two.boxes, &w->ctx, &two.scope, &want, &id, &name, &e), &e);
    process_stop(&two);
    assert_ok(delete_box(w, a, &name, &e), &e);
}

static void a_box_that_cannot_be_destroyed_stays(void **state)
{
    struct world *w = *state;
    struct str a = world_create(w, &w->one, "a").row.id;
    struct str name;
    struct err e;

    atomic_store(&w->fake.until_failure, 1);
    assert_fails(delete_box(w, a, &name, &e), &e, ERR_UNREACHABLE, "the script says so");
    assert_int_equal(world_row(w, &w->one, a).state, ROW_LIVE);
    assert_ok(delete_box(w, a, &name, &e), &e);
}

static void select_holds_for_this_and_the_next_process(void **state)
{
    struct world *w = *state;
    struct process two;
    struct box_want want = {.name = S("b")};
    struct box_view view = {0};
    struct err e;

    world_create(w, &w->one, "a");
    world_create(w, &w->one, "b");
    assert_ok(boxes_select(w->one.boxes, &w->ctx, &w->one.scope, &want, &view, &e), &e);
    assert_true(view.selected);
    assert_true(view.alive);
    assert_ok(boxes_active(w->one.boxes, &w->ctx, &w->one.scope, &view, &e), &e);
    assert_str(view.row.name, S("b"));
    process_start(w, &two, "/home/me/my project");
    assert_ok(boxes_active(two.boxes, &w->ctx, &two.scope, &view, &e), &e);
    assert_str(view.row.name, S("b"));
    process_stop(&two);
    want.name = S("c");
    assert_fails(boxes_select(w->one.boxes, &w->ctx, &w->one.scope, &want, &view, &e), &e,
                 ERR_NOT_FOUND, "no sandbox \"c\"; existing: a, b");
}

static void a_dead_box_cannot_be_selected(void **state)
{
    struct world *w = *state;
    struct str a = world_create(w, &w->one, "a").row.id;
    struct box_want want = {.id = a};
    struct box_view view = {0};
    struct err e;

    fake_end(&w->fake, a, "its lifetime is over");
    assert_fails(boxes_select(w->one.boxes, &w->ctx, &w->one.scope, &want, &view, &e), &e, ERR_GONE,
                 "its lifetime is over");
}

struct list_of {
    char text[1024];
};

static int add_view(void *arg, const struct box_view *v, struct box *b, struct err *e)
{
    struct list_of *l = arg;
    size_t len = strlen(l->text);

    (void)e;
    (void)snprintf(l->text + len, sizeof(l->text) - len, "%.*s%s%s%s ", STR_ARG(v->row.name),
                   v->selected ? "*" : "", v->alive ? "+" : "-", b != NULL ? "" : "!");
    return 0;
}

static const char *list(struct world *w, struct list_of *l)
{
    struct err e;

    l->text[0] = '\0';
    assert_ok(boxes_each(w->one.boxes, &w->ctx, &w->one.scope, add_view, l, &e), &e);
    return l->text;
}

static void the_list_shows_what_lives(void **state)
{
    struct world *w = *state;
    struct box_row starting = {
        .id = S("0123456789abcdef0123456789abcdef"),
        .name = S("new"),
        .provider = S("local"),
        .created_ms = clock_wall_ms() + 1000,
        .starter_pid = getpid(),
        .starter_start = proc_start_time(getpid()),
    };
    struct box_row orphan = starting;
    struct list_of l;
    struct str b;
    struct err e;

    assert_string_equal(list(w, &l), "");
    world_create(w, &w->one, "a");
    b = world_create(w, &w->one, "b").row.id;
    assert_string_equal(list(w, &l), "a*+ b+ ");
    fake_end(&w->fake, b, "idle");
    assert_string_equal(list(w, &l), "a*+ ");
    assert_int_equal(world_row(w, &w->one, b).state, ROW_ENDED);
    assert_str(world_row(w, &w->one, b).ended, S("idle"));

    assert_ok(store_add_box(w->one.store, &starting, 0, &e), &e);
    orphan.id = S("1123456789abcdef0123456789abcdef");
    orphan.name = S("orphan");
    orphan.starter_start--;
    assert_ok(store_add_box(w->one.store, &orphan, 0, &e), &e);
    assert_string_equal(list(w, &l), "a*+ new-! ");
    assert_int_equal(world_rows(&w->one), 2);
}

static void a_box_that_does_not_answer_is_listed(void **state)
{
    struct world *w = *state;
    struct list_of l;

    world_create(w, &w->one, "a");
    atomic_store(&w->fake.until_failure, 1);
    assert_string_equal(list(w, &l), "a*- ");
    assert_string_equal(list(w, &l), "a*+ ");
}

static void a_cancelled_list_stops(void **state)
{
    struct world *w = *state;
    struct list_of l = {0};
    struct err e;

    world_create(w, &w->one, "a");
    w->ctx.deadline_ms = clock_mono_ms() - 1;
    atomic_store(&w->fake.until_failure, 1);
    assert_fails(boxes_each(w->one.boxes, &w->ctx, &w->one.scope, add_view, &l, &e), &e,
                 ERR_TIMEOUT, "");
    w->ctx.deadline_ms = 0;
    assert_int_equal(world_rows(&w->one), 1);
}

static void a_broken_connection_ends_no_box(void **state)
{
    struct world *w = *state;
    struct str a = world_create(w, &w->one, "a").row.id;

    boxes_lost(w->one.boxes, &w->ctx, a, S("the connection broke"));
    assert_int_equal(world_row(w, &w->one, a).state, ROW_LIVE);
    assert_str(world_found(w, &w->one, (struct box_want){.id = a}), a);
}

static void the_backend_knows_best_why_a_box_ended(void **state)
{
    struct world *w = *state;
    struct str a = world_create(w, &w->one, "a").row.id;
    struct str b = world_create(w, &w->one, "b").row.id;
    struct str c = world_create(w, &w->one, "c").row.id;
    struct err e;

    fake_end(&w->fake, a, "30 min idle");
    boxes_lost(w->one.boxes, &w->ctx, a, S("no connection"));
    assert_str(world_row(w, &w->one, a).ended, S("30 min idle"));
    boxes_lost(w->one.boxes, &w->ctx, a, S("later and worse"));
    assert_str(world_row(w, &w->one, a).ended, S("30 min idle"));
    fake_end(&w->fake, b, "");
    boxes_lost(w->one.boxes, &w->ctx, b, S("no connection"));
    assert_str(world_row(w, &w->one, b).ended, S("no connection"));
    /* info() that says ERR_GONE: attach() has the reason. */
    fake_end(&w->fake, c, "out of memory");
    w->fake.failure = ERR_GONE;
    atomic_store(&w->fake.until_failure, 1);
    boxes_lost(w->one.boxes, &w->ctx, c, STR_EMPTY);
    assert_str(world_row(w, &w->one, c).ended, S("out of memory"));
    assert_ok(store_prune(w->one.store, 0, &e), &e);
}

static void leftovers_are_swept_at_most_once_a_minute(void **state)
{
    struct world *w = *state;
    struct list_of l;

    (void)world_found(w, &w->one, (struct box_want){.make_default = true});
    assert_int_equal(atomic_load(&w->fake.calls[FAKE_SWEEP]), 0); /* not on the exec path */
    (void)list(w, &l);
    (void)list(w, &l);
    world_create(w, &w->one, "a");
    assert_int_equal(atomic_load(&w->fake.calls[FAKE_SWEEP]), 1);
    w->one.boxes->swept_ms -= 61000;
    (void)list(w, &l);
    assert_int_equal(atomic_load(&w->fake.calls[FAKE_SWEEP]), 2);
}

static void more_boxes_than_handles_are_kept(void **state)
{
    struct world *w = *state;
    struct str first = world_create(w, &w->one, "n-first").row.id;

    for (int i = 0; i < CACHE_MAX + 10; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "n%d", i);
        world_create(w, &w->one, name);
    }
    assert_int_equal(atomic_load(&w->fake.handles), CACHE_MAX);
    assert_str(world_found(w, &w->one, (struct box_want){.name = S("n-first")}), first);
    assert_int_equal(atomic_load(&w->fake.handles), CACHE_MAX);
}

/* A life with a failure at its n-th step: whatever fails, it is told, nothing is left
 * behind, and the same life succeeds afterwards. */
static int live_and_die(struct world *w, struct err *e)
{
    struct box_view view = {0};
    struct box_want want = {.make_default = true};
    struct list_of l = {0};
    struct str id = STR_EMPTY;
    struct str name;
    bool reused;

    if (create(w, "x", true, &view, &reused, e) < 0 ||
        boxes_select(w->one.boxes, &w->ctx, &w->one.scope, &(struct box_want){.name = S("x")},
                     &view, e) < 0 ||
        world_find(w, &w->one, want, &id, e) < 0 ||
        boxes_each(w->one.boxes, &w->ctx, &w->one.scope, add_view, &l, e) < 0) {
        return -1;
    }
    return delete_box(w, S("x"), &name, e);
}

static void a_failure_at_any_step_leaves_nothing(void **state)
{
    static const enum err_kind kinds[] = {ERR_UNREACHABLE, ERR_LIMIT, ERR_SYSTEM};
    struct world *w = *state;
    int failed = 0;

    for (size_t k = 0; k < COUNTOF(kinds); k++) {
        w->fake.failure = kinds[k];
        for (int n = 1; n < 20; n++) {
            struct err e = {0};

            atomic_store(&w->fake.until_failure, n);
            failed += live_and_die(w, &e) < 0;
            atomic_store(&w->fake.until_failure, 0);
            assert_ok(live_and_die(w, &e), &e);
            assert_int_equal(fake_living(&w->fake), 0);
            assert_int_equal(world_rows(&w->one), 0);
            assert_int_equal(atomic_load(&w->fake.handles), 0);
        }
    }
    assert_true(failed > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(names_are_checked),
        TEST(a_new_box_is_complete),
        TEST(a_name_is_made_up),
        TEST(only_the_first_is_selected),
        TEST(a_box_made_by_itself_gives_way_to_one_made_to_order),
        TEST(a_taken_name_is_refused_or_reused),
        TEST(a_box_that_does_not_answer_is_not_reused),
        TEST(bad_orders_leave_nothing),
        TEST(the_number_of_boxes_is_limited),
        TEST(delete_leaves_nothing),
        TEST(who_wants_to_know_hears_of_an_end),
        TEST(output_that_is_kept_too_late_goes),
        TEST(a_box_that_died_can_be_deleted),
        TEST(a_box_that_cannot_be_destroyed_stays),
        TEST(select_holds_for_this_and_the_next_process),
        TEST(a_dead_box_cannot_be_selected),
        TEST(the_list_shows_what_lives),
        TEST(a_box_that_does_not_answer_is_listed),
        TEST(a_cancelled_list_stops),
        TEST(a_broken_connection_ends_no_box),
        TEST(the_backend_knows_best_why_a_box_ended),
        TEST(leftovers_are_swept_at_most_once_a_minute),
        TEST(more_boxes_than_handles_are_kept),
        TEST(a_failure_at_any_step_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
