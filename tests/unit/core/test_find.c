#include "world.h"

#define DEFAULT ((struct box_want){.make_default = true})
#define ID(s)   ((struct box_want){.id = (s)})
#define NAME(s) ((struct box_want){.name = S(s)})

static void the_default_box_is_named_after_its_folder(void **state)
{
    static const struct {
        const char *folder, *begins;
    } cases[] = {
        {"/home/me/anybox", "default-anybox-"},
        {"/home/me/my project", "default-my-project-"},
        {"/", "default-root-"},
        {"/x/\xc3\xa4.b_c", "default---.b_c-"},
        {"/x/abcdefghijklmnopqrstuvwxyz0123456789", "default-abcdefghijklmnopqrstuvwx-"},
    };
    char one[DEFAULT_NAME_SIZE];
    char two[DEFAULT_NAME_SIZE];
    struct err e;

    (void)state;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        struct str name = name_default(str_from(cases[i].folder), one);

        assert_true(str_starts(name, str_from(cases[i].begins)));
        assert_int_equal(name.len, strlen(cases[i].begins) + 6);
        assert_ok(boxes_check_name(name, &e), &e);
    }
    assert_false(str_eq(name_default(S("/a/x"), one), name_default(S("/b/x"), two)));
    assert_true(str_eq(name_default(S("/a/x"), one), name_default(S("/a/x"), two)));
}

static void the_first_command_makes_a_box_by_itself(void **state)
{
    struct world *w = *state;
    bool made = false;
    struct box_want want = {.make_default = true, .made = &made};
    struct str id = world_found(w, &w->one, want);
    char name[DEFAULT_NAME_SIZE];

    assert_true(made);
    assert_int_equal(id.len, 32);
    assert_str(world_row(w, &w->one, id).name, name_default(w->one.scope.folder, name));
    assert_int_equal(world_row(w, &w->one, id).state, ROW_LIVE);
    made = false;
    assert_str(world_found(w, &w->one, want), id);
    assert_false(made);
    assert_int_equal(fake_living(&w->fake), 1);
}

static void another_backend_is_not_replaced_by_this_machine(void **state)
{
    struct world *w = *state;
    struct box_want want = {.make_default = true};
    struct str id;
    struct err e;

    w->config.elsewhere = S("OPENSANDBOX_SERVER");
    assert_fails(world_find(w, &w->one, want, &id, &e), &e, ERR_NOT_FOUND, "(OPENSANDBOX_SERVER)");
    w->config.elsewhere = STR_EMPTY;
    w->config.hosts_problem = S("REMOTE_PORT: port must be a number");
    assert_fails(world_find(w, &w->one, want, &id, &e), &e, ERR_INVALID,
                 "Sandbox configuration error: REMOTE_PORT");
    w->config.hosts_problem = STR_EMPTY;
    w->config.n_hosts = 1;
    assert_fails(world_find(w, &w->one, want, &id, &e), &e, ERR_UNSUPPORTED, "without SSH");
    assert_int_equal(fake_living(&w->fake), 0);
}

/* Neither the database nor the provider is asked: the state folder can even be away. */
static void a_known_box_costs_nothing_to_find(void **state)
{
    struct world *w = *state;
    struct str id = world_found(w, &w->one, DEFAULT);
    struct box_row row = world_row(w, &w->one, id);
    int before = fake_calls(&w->fake);
    struct err e;

    assert_ok(fd_remove_tree(AT_FDCWD, w->state, &e), &e);
    assert_str(world_found(w, &w->one, DEFAULT), id);
    assert_str(world_found(w, &w->one, (struct box_want){0}), id);
    assert_str(world_found(w, &w->one, ID(id)), id);
    assert_str(world_found(w, &w->one, ID(str_head(id, 12))), id);
    assert_str(world_found(w, &w->one, (struct box_want){.name = row.name}), id);
    assert_str(world_found(w, &w->one, (struct box_want){.id = id, .name = row.name}), id);
    assert_int_equal(fake_calls(&w->fake), before);
    assert_int_equal(access(w->state, F_OK), -1);
}

static void a_selected_box_costs_nothing_to_find(void **state)
{
    struct world *w = *state;
    struct str id = world_create(w, &w->one, "x").row.id;
    int before = fake_calls(&w->fake);
    struct err e;

    assert_ok(fd_remove_tree(AT_FDCWD, w->state, &e), &e);
    assert_str(world_found(w, &w->one, DEFAULT), id);
    assert_int_equal(fake_calls(&w->fake), before);
    assert_int_equal(access(w->state, F_OK), -1);
}

static void a_box_is_found_by_all_its_names(void **state)
{
    struct world *w = *state;
    struct process two;
    struct str id = world_create(w, &w->one, "gpu-1").row.id;
    struct str ref = arena_printf(&w->arena, "local:%.*s", STR_ARG(id));

    world_create(w, &w->one, "other");
    process_start(w, &two, "/elsewhere"); /* knows nothing yet */
    assert_str(world_found(w, &two, ID(id)), id);
    process_stop(&two);
    process_start(w, &two, "/elsewhere");
    assert_str(world_found(w, &two, ID(str_head(id, 12))), id);
    assert_str(world_found(w, &two, ID(ref)), id);
    process_stop(&two);
    process_start(w, &two, "/elsewhere");
    assert_str(world_found(w, &two, NAME("gpu-1")), id);
    /* The two arguments are forgiving: people mix them up. */
    assert_str(world_found(w, &two, ID(S("gpu-1"))), id);
    assert_str(world_found(w, &two, (struct box_want){.name = id}), id);
    assert_str(world_found(w, &two, (struct box_want){.id = id, .name = S("gpu-1")}), id);
    process_stop(&two);
}

static void a_prefix_is_not_a_name(void **state)
{
    struct world *w = *state;
    struct str id;
    struct err e;

    id = world_create(w, &w->one, "gpu-1").row.id;
    assert_fails(world_find(w, &w->one, NAME("gpu"), &id, &e), &e, ERR_NOT_FOUND,
                 "no sandbox \"gpu\"; existing: gpu-1");
    assert_fails(world_find(w, &w->one, ID(str_head(id, 11)), &id, &e), &e, ERR_NOT_FOUND,
                 "; existing: gpu-1");
}

static void two_names_that_disagree_are_refused(void **state)
{
    struct world *w = *state;
    struct str a = world_create(w, &w->one, "a").row.id;
    struct str id;
    struct err e;

    world_create(w, &w->one, "b");
    assert_fails(world_find(w, &w->one, (struct box_want){.id = a, .name = S("b")}, &id, &e), &e,
                 ERR_INVALID, "two different sandboxes");
}

static void an_unknown_name_lists_what_exists(void **state)
{
    struct world *w = *state;
    struct str id;
    struct err e;

    assert_fails(world_find(w, &w->one, NAME("x"), &id, &e), &e, ERR_NOT_FOUND,
                 "no sandbox \"x\"; there is none at all: call create_sandbox to make one");
    world_create(w, &w->one, "a");
    world_create(w, &w->one, "b");
    assert_fails(world_find(w, &w->one, NAME("x"), &id, &e), &e, ERR_NOT_FOUND,
                 "no sandbox \"x\"; existing: a, b");
    for (int i = 0; i < 11; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "n%d", i);
        world_create(w, &w->one, name);
    }
    assert_fails(world_find(w, &w->one, NAME("x"), &id, &e), &e, ERR_NOT_FOUND,
                 "existing: a, b, n0, n1, n2, n3, n4, n5, n6, n7 and 3 more");
}

static void a_named_box_that_ended_says_why(void **state)
{
    struct world *w = *state;
    struct process two;
    struct str a = world_create(w, &w->one, "a").row.id;
    struct str id;
    struct err e;

    fake_end(&w->fake, a, "30 min idle");
    process_start(w, &two, "/elsewhere");
    assert_fails(world_find(w, &two, NAME("a"), &id, &e), &e, ERR_GONE,
                 "sandbox \"a\" has ended: 30 min idle; call create_sandbox to make a new one");
    assert_fails(world_find(w, &two, ID(a), &id, &e), &e, ERR_GONE, "30 min idle");
    assert_int_equal(world_row(w, &two, a).state, ROW_ENDED);
    process_stop(&two);
}

/* The files in it are gone: that must not pass unnoticed, nor be told for ever. */
static void a_selected_box_that_ended_is_told_once(void **state)
{
    struct world *w = *state;
    struct str a = world_create(w, &w->one, "a").row.id;
    struct str id;
    struct err e;

    fake_end(&w->fake, a, "it was out of memory");
    boxes_lost(w->one.boxes, &w->ctx, a, STR_EMPTY);
    assert_fails(world_find(w, &w->one, DEFAULT, &id, &e), &e, ERR_GONE,
                 "sandbox \"a\" has ended: it was out of memory");
    assert_false(str_eq(world_found(w, &w->one, DEFAULT), a));
}

static void a_default_box_that_ended_is_made_again(void **state)
{
    struct world *w = *state;
    struct str first = world_found(w, &w->one, DEFAULT);
    struct process two;
    struct str second;
    struct str id;
    struct err e;

    fake_end(&w->fake, first, "30 min idle");
    boxes_lost(w->one.boxes, &w->ctx, first, STR_EMPTY);
    second = world_found(w, &w->one, DEFAULT);
    assert_false(str_eq(first, second));
    /* Also where nobody has noticed the end yet. */
    fake_end(&w->fake, second, "30 min idle");
    process_start(w, &two, "/home/me/my project");
    assert_false(str_eq(world_found(w, &two, DEFAULT), second));
    assert_str(world_row(w, &two, second).ended, S("30 min idle"));
    process_stop(&two);
    assert_fails(world_find(w, &w->one, ID(first), &id, &e), &e, ERR_GONE, "30 min idle");
}

static void the_only_box_is_used_without_being_selected(void **state)
{
    struct world *w = *state;
    struct process two;
    struct str a = world_create(w, &w->one, "a").row.id;

    process_start(w, &two, "/elsewhere");
    assert_str(world_found(w, &two, DEFAULT), a);
    process_stop(&two);
}

static void each_folder_has_its_own_default_box(void **state)
{
    struct world *w = *state;
    struct process two;
    struct str here = world_found(w, &w->one, DEFAULT);
    struct str there;
    struct str id;
    struct err e;

    process_start(w, &two, "/elsewhere");
    assert_fails(world_find(w, &two, (struct box_want){0}, &id, &e), &e, ERR_NOT_FOUND,
                 "no sandbox is selected");
    there = world_found(w, &two, DEFAULT);
    assert_false(str_eq(here, there));
    process_stop(&two);
    process_start(w, &two, "/home/me/my project");
    assert_str(world_found(w, &two, DEFAULT), here);
    process_stop(&two);
}

static void several_boxes_need_a_choice(void **state)
{
    struct world *w = *state;
    struct process two;
    struct str own;
    struct str id;
    struct err e;

    world_create(w, &w->one, "a");
    world_create(w, &w->one, "b");
    process_start(w, &two, "/elsewhere");
    assert_fails(world_find(w, &two, DEFAULT, &id, &e), &e, ERR_NOT_FOUND,
                 "no sandbox is selected: name one by sandbox_id or sandbox_name, or call "
                 "select_sandbox or create_sandbox; existing: a, b");
    process_stop(&two);
    /* The folder's default box is a choice. */
    process_start(w, &two, "/third");
    char name[DEFAULT_NAME_SIZE];
    own = world_create(w, &two, name_default(S("/third"), name).p).row.id;
    process_stop(&two);
    process_start(w, &two, "/third");
    assert_ok(store_set_selected(two.store, STR_EMPTY, S("/third"), STR_EMPTY, &e), &e);
    assert_str(world_found(w, &two, (struct box_want){0}), own);
    process_stop(&two);
}

static void nothing_is_made_unless_asked(void **state)
{
    struct world *w = *state;
    struct str id;
    struct err e;

    assert_fails(world_find(w, &w->one, (struct box_want){0}, &id, &e), &e, ERR_NOT_FOUND,
                 "there is no sandbox yet: call create_sandbox");
    assert_int_equal(fake_living(&w->fake), 0);
}

static void the_selection_seeds_the_next_process(void **state)
{
    struct world *w = *state;
    struct process two;
    struct str a = world_create(w, &w->one, "a").row.id;
    struct err e;

    world_create(w, &w->one, "b");
    process_start(w, &two, "/home/me/my project");
    assert_str(world_found(w, &two, DEFAULT), a);
    process_stop(&two);
    /* Unless it has ended. */
    assert_ok(store_box_ended(w->one.store, a, S("so"), &e), &e);
    process_start(w, &two, "/home/me/my project");
    assert_str(world_row(w, &two, world_found(w, &two, DEFAULT)).name, S("b"));
    process_stop(&two);
}

static void no_provider_is_told(void **state)
{
    struct world *w = *state;
    struct process two = {.store = store_new(str_from(w->state))};
    struct str id;
    struct err e;

    two.boxes = boxes_new_with(&w->config, two.store, NULL, 0, "built without");
    scope_init(&two.scope, STR_EMPTY, S("/x"));
    assert_fails(world_find(w, &two, DEFAULT, &id, &e), &e, ERR_UNSUPPORTED,
                 "no provider of sandboxes is available: built without");
    assert_int_equal(world_rows(&two), 0);
    process_stop(&two);
}

/* ---- several at once -------------------------------------------------------------------- */

struct racer {
    struct world *w;
    struct process process;
    struct arena arena;
    char id[64];
    struct err e;
    pthread_t thread;
};

static void *race(void *arg)
{
    struct racer *r = arg;
    struct ctx ctx = {.arena = &r->arena};
    struct box_want want = {.make_default = true};
    struct str id = STR_EMPTY;
    struct box *b = boxes_find(r->process.boxes, &ctx, &r->process.scope, &want, &id, &r->e);

    (void)snprintf(r->id, sizeof(r->id), "%.*s", STR_ARG(id));
    box_unref(b);
    return NULL;
}

static void of_many_first_calls_one_makes_the_box(void **state)
{
    enum { N = 8 };
    struct world *w = *state;
    struct racer *racers = calloc(N, sizeof(*racers));
    struct err e;

    w->fake.create_ms = 60;
    for (int i = 0; i < N; i++) {
        racers[i].w = w;
        arena_init(&racers[i].arena, 16u << 20);
        process_start(w, &racers[i].process, "/same");
        assert_ok(thread_start(&racers[i].thread, "racer", race, &racers[i], &e), &e);
    }
    for (int i = 0; i < N; i++) {
        (void)pthread_join(racers[i].thread, NULL);
        if (racers[i].id[0] == '\0') {
            fail_msg("%s", racers[i].e.msg);
        }
        assert_string_equal(racers[i].id, racers[0].id);
    }
    for (int i = 0; i < N; i++) {
        process_stop(&racers[i].process);
        arena_fini(&racers[i].arena);
    }
    free(racers);
    assert_int_equal(fake_living(&w->fake), 1);
    assert_int_equal(atomic_load(&w->fake.calls[FAKE_CREATE]), 1);
}

/* A process died while it made the box, at the worst moment: the box is there. */
static void what_a_dead_process_began_is_taken_over(void **state)
{
    struct world *w = *state;
    struct box_spec spec = {.id = S("0123456789abcdef0123456789abcdef")};
    struct provider *p = fake_provider(&w->fake);
    char name[DEFAULT_NAME_SIZE];
    struct box_row row = {
        .id = spec.id,
        .name = name_default(w->one.scope.folder, name),
        .provider = S("local"),
        .ref = spec.id,
        .starter_pid = getpid(),
        .starter_start = proc_start_time(getpid()) - 1, /* an earlier one with our number */
    };
    struct err e;
    struct str id;

    box_unref(provider_create(p, &w->ctx, &spec, &e));
    p->ops->close(p);
    assert_ok(store_add_box(w->one.store, &row, 0, &e), &e);
    id = world_found(w, &w->one, DEFAULT);
    assert_false(str_eq(id, row.id));
    assert_int_equal(fake_living(&w->fake), 1);
    assert_int_equal(world_rows(&w->one), 1);
}

static void waiting_for_another_obeys_the_deadline(void **state)
{
    struct world *w = *state;
    char name[DEFAULT_NAME_SIZE];
    struct box_row row = {
        .id = S("0123456789abcdef0123456789abcdef"),
        .name = name_default(w->one.scope.folder, name),
        .provider = S("local"),
        .starter_pid = getpid(),
        .starter_start = proc_start_time(getpid()),
    };
    struct str id;
    struct err e;

    assert_ok(store_add_box(w->one.store, &row, 0, &e), &e);
    w->ctx.deadline_ms = clock_mono_ms() + 70;
    assert_fails(world_find(w, &w->one, DEFAULT, &id, &e), &e, ERR_TIMEOUT, "");
    w->ctx.deadline_ms = 0;
    assert_int_equal(world_row(w, &w->one, row.id).state, ROW_STARTING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_default_box_is_named_after_its_folder),
        TEST(the_first_command_makes_a_box_by_itself),
        TEST(another_backend_is_not_replaced_by_this_machine),
        TEST(a_known_box_costs_nothing_to_find),
        TEST(a_selected_box_costs_nothing_to_find),
        TEST(a_box_is_found_by_all_its_names),
        TEST(a_prefix_is_not_a_name),
        TEST(two_names_that_disagree_are_refused),
        TEST(an_unknown_name_lists_what_exists),
        TEST(a_named_box_that_ended_says_why),
        TEST(a_selected_box_that_ended_is_told_once),
        TEST(a_default_box_that_ended_is_made_again),
        TEST(the_only_box_is_used_without_being_selected),
        TEST(each_folder_has_its_own_default_box),
        TEST(several_boxes_need_a_choice),
        TEST(nothing_is_made_unless_asked),
        TEST(the_selection_seeds_the_next_process),
        TEST(no_provider_is_told),
        TEST(of_many_first_calls_one_makes_the_box),
        TEST(what_a_dead_process_began_is_taken_over),
        TEST(waiting_for_another_obeys_the_deadline),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
