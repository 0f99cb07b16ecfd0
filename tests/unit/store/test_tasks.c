#include "state.h"

static struct task_row row_of(struct place *p, int n, const char *box, const char *name)
{
    return (struct task_row){
        .id = arena_printf(&p->arena, "%016x", n),
        .box_id = str_from(box),
        .name = str_from(name),
        .command = S("echo"),
        .state = S("starting"),
        .exit_code = -1,
        .created_ms = 1000 + n,
    };
}

static struct str add(struct place *p, int n, const char *box, const char *name)
{
    struct task_row row = row_of(p, n, box, name);
    struct err e;

    assert_ok(store_add_task(p->store, &row, &e), &e);
    return row.id;
}

static struct task_row get(struct place *p, struct str id)
{
    struct task_row row = {0};
    struct err e;

    assert_ok(store_task_by_id(p->store, &p->arena, STR_EMPTY, id, &row, &e), &e);
    return row;
}

static void a_row_comes_back_as_it_was(void **state)
{
    struct place *p = *state;
    struct task_row row = row_of(p, 1, "b", "n");
    struct task_row got;
    struct err e;

    row.owner = S("key:x");
    assert_ok(store_add_task(p->store, &row, &e), &e);
    assert_ok(store_task_by_id(p->store, &p->arena, S("key:x"), row.id, &got, &e), &e);
    assert_str(got.box_id, S("b"));
    assert_str(got.name, S("n"));
    assert_str(got.command, S("echo"));
    assert_str(got.state, S("starting"));
    assert_int_equal(got.exit_code, -1);
    assert_int_equal(got.created_ms, 1001);
    assert_fails(store_task_by_id(p->store, &p->arena, STR_EMPTY, row.id, &got, &e), &e,
                 ERR_NOT_FOUND, "no such task");
}

static void an_end_that_is_known_stays(void **state)
{
    struct place *p = *state;
    struct str id = add(p, 1, "b", "n");
    struct err e;

    assert_ok(store_task_begun(p->store, id, S("/l"), S("/d"), &e), &e);
    assert_str(get(p, id).state, S("running"));
    assert_str(get(p, id).log, S("/l"));
    struct task_row end = {.id = id, .state = S("exited"), .exit_code = 3, .ended_ms = 5};
    assert_ok(store_task_seen(p->store, &end, &e), &e);
    struct task_row other = {.id = id, .state = S("interrupted"), .exit_code = -1, .ended_ms = 9};
    assert_ok(store_task_seen(p->store, &other, &e), &e);
    assert_ok(store_task_begun(p->store, id, S("/x"), S("/y"), &e), &e);
    assert_str(get(p, id).state, S("exited"));
    assert_int_equal(get(p, id).exit_code, 3);
    assert_int_equal(get(p, id).ended_ms, 5);
    assert_str(get(p, id).log, S("/l"));
}

static void the_latest_is_found_by_name_and_log(void **state)
{
    struct place *p = *state;
    struct str old = add(p, 1, "b", "n");
    struct str here = add(p, 2, "b", "n");
    struct str there = add(p, 3, "c", "n");
    struct task_row got;
    struct err e;

    assert_ok(store_task_begun(p->store, old, S("/l1"), S("/d"), &e), &e);
    assert_ok(store_task_begun(p->store, here, S("/l2"), S("/d"), &e), &e);
    struct {
        const char *box, *name, *log;
        struct str want;
    } rows[] = {{"b", "n", "", here},      {"", "n", "", there},       {"b", "n", "/l1", old},
                {"", "", "/l2", here},     {"b", "", "/l1", old},      {"c", "", "/l1", STR_EMPTY},
                {"b", "m", "", STR_EMPTY}, {"", "n", "/no", STR_EMPTY}};
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        int rc = store_task_by_name(p->store, &p->arena, STR_EMPTY, str_from(rows[i].box),
                                    str_from(rows[i].name), str_from(rows[i].log), &got, &e);

        assert_int_equal(rc, rows[i].want.len > 0 ? 0 : -1);
        if (rc == 0) {
            assert_str(got.id, rows[i].want);
        }
    }
}

struct told {
    struct str ids[8];
    size_t n;
};

static int tell(void *arg, const struct task_row *row, struct err *e)
{
    struct told *t = arg;

    (void)e;
    t->ids[t->n++] = row->id;
    return 0;
}

static void the_latest_are_listed_first_and_old_ones_forgotten(void **state)
{
    struct place *p = *state;
    struct str one = add(p, 1, "b", "x");
    struct str two = add(p, 2, "c", "y");
    struct str three = add(p, 3, "b", "z");
    struct told t = {0};
    struct err e;

    assert_ok(store_each_task(p->store, &p->arena, STR_EMPTY, STR_EMPTY, 2, tell, &t, &e), &e);
    assert_int_equal(t.n, 2);
    assert_str(t.ids[0], three);
    assert_str(t.ids[1], two);
    t = (struct told){0};
    assert_ok(store_each_task(p->store, &p->arena, STR_EMPTY, S("b"), 9, tell, &t, &e), &e);
    assert_int_equal(t.n, 2);
    assert_str(t.ids[1], one);
    assert_ok(store_prune_tasks(p->store, 1003, &e), &e);
    assert_ok(store_drop_task(p->store, S("never there"), &e), &e);
    t = (struct told){0};
    assert_ok(store_each_task(p->store, &p->arena, STR_EMPTY, STR_EMPTY, 9, tell, &t, &e), &e);
    assert_int_equal(t.n, 1);
    assert_ok(store_drop_task(p->store, three, &e), &e);
    t = (struct told){0};
    assert_ok(store_each_task(p->store, &p->arena, S("other"), STR_EMPTY, 9, tell, &t, &e), &e);
    assert_int_equal(t.n, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, place_set_up, place_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_row_comes_back_as_it_was),
        TEST(an_end_that_is_known_stays),
        TEST(the_latest_is_found_by_name_and_log),
        TEST(the_latest_are_listed_first_and_old_ones_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
