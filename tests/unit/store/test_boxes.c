#include <sys/wait.h>

#include "state.h"

static struct box_row get(struct place *p, struct str id)
{
    struct box_row row = {0};
    struct err e;

    assert_ok(store_box_by_id(p->store, &p->arena, STR_EMPTY, id, &row, &e), &e);
    return row;
}

static void a_row_comes_back_as_it_was(void **state)
{
    struct place *p = *state;
    struct box_row row = place_row(p, 1, "one");
    struct box_row got;
    struct err e;

    row.owner = S("key-1");
    row.image = S("debian:12");
    row.expires_ms = 77;
    assert_ok(store_add_box(p->store, &row, 0, &e), &e);
    assert_ok(store_box_by_id(p->store, &p->arena, S("key-1"), row.id, &got, &e), &e);
    assert_str(got.id, row.id);
    assert_str(got.owner, S("key-1"));
    assert_str(got.name, S("one"));
    assert_str(got.provider, S("local"));
    assert_str(got.ref, S("ref-1"));
    assert_str(got.image, S("debian:12"));
    assert_int_equal(got.state, ROW_STARTING);
    assert_int_equal(got.created_ms, 1001);
    assert_int_equal(got.expires_ms, 77);
    assert_int_equal(got.starter_pid, 42);
    assert_int_equal(got.starter_start, 4242);
    assert_fails(store_box_by_id(p->store, &p->arena, STR_EMPTY, row.id, &got, &e), &e,
                 ERR_NOT_FOUND, "no such sandbox");
}

static void a_name_is_taken_until_its_box_has_ended(void **state)
{
    struct place *p = *state;
    struct str first = place_add(p, 1, "x");
    struct box_row second = place_row(p, 2, "x");
    struct box_row other = place_row(p, 3, "x");
    struct box_row got;
    struct err e;

    assert_fails(store_add_box(p->store, &second, 0, &e), &e, ERR_EXISTS, "\"x\" is taken");
    other.owner = S("somebody");
    assert_ok(store_add_box(p->store, &other, 0, &e), &e);
    assert_ok(store_box_live(p->store, first, S("r"), 5, &e), &e);
    assert_int_equal(get(p, first).state, ROW_LIVE);
    assert_str(get(p, first).ref, S("r"));
    assert_int_equal(get(p, first).expires_ms, 5);
    assert_fails(store_add_box(p->store, &second, 0, &e), &e, ERR_EXISTS, "\"x\" is taken");

    assert_ok(store_box_ended(p->store, first, S("30 min idle"), &e), &e);
    assert_ok(store_box_ended(p->store, first, S("worse known"), &e), &e);
    assert_str(get(p, first).ended, S("30 min idle"));
    assert_true(get(p, first).ended_ms > 0);
    assert_ok(store_box_by_name(p->store, &p->arena, STR_EMPTY, S("x"), &got, &e), &e);
    assert_str(got.id, first);

    assert_ok(store_add_box(p->store, &second, 0, &e), &e);
    assert_ok(store_box_by_name(p->store, &p->arena, STR_EMPTY, S("x"), &got, &e), &e);
    assert_str(got.id, second.id);
    assert_fails(store_box_by_name(p->store, &p->arena, STR_EMPTY, S("y"), &got, &e), &e,
                 ERR_NOT_FOUND, "no such sandbox");
}

static void the_latest_of_the_ended_is_found_by_name(void **state)
{
    struct place *p = *state;
    struct box_row got;
    struct err e;

    for (int i = 1; i <= 3; i++) {
        struct str id = place_add(p, i, "x");

        assert_ok(store_box_ended(p->store, id, S("so"), &e), &e);
        usleep(2000);
    }
    assert_ok(store_box_by_name(p->store, &p->arena, STR_EMPTY, S("x"), &got, &e), &e);
    assert_int_equal(got.created_ms, 1003);
}

static void a_short_id_is_enough_where_it_is_unique(void **state)
{
    struct place *p = *state;
    struct box_row twin = place_row(p, 2, "twin");
    struct box_row got;
    struct err e;

    place_add(p, 1, "one");
    place_add(p, 2, "two");
    assert_ok(store_box_by_id(p->store, &p->arena, STR_EMPTY, S("000000000001"), &got, &e), &e);
    assert_str(got.name, S("one"));
    assert_fails(store_box_by_id(p->store, &p->arena, STR_EMPTY, S("00000000000"), &got, &e), &e,
                 ERR_NOT_FOUND, "no such");
    assert_fails(store_box_by_id(p->store, &p->arena, STR_EMPTY, S("0000000000010"), &got, &e), &e,
                 ERR_NOT_FOUND, "no such");
    assert_fails(store_box_by_id(p->store, &p->arena, STR_EMPTY, S("00000000000%"), &got, &e), &e,
                 ERR_NOT_FOUND, "no such");
    twin.id = S("00000000000200000000000000000fff");
    assert_ok(store_add_box(p->store, &twin, 0, &e), &e);
    assert_fails(store_box_by_id(p->store, &p->arena, STR_EMPTY, S("000000000002"), &got, &e), &e,
                 ERR_INVALID, "several");
    assert_str(get(p, twin.id).name, S("twin"));
}

static void a_ref_finds_the_box_that_uses_it_now(void **state)
{
    struct place *p = *state;
    struct str old = place_add(p, 1, "old");
    struct str now = place_add(p, 2, "now");
    struct box_row got;
    struct err e;

    assert_ok(store_box_live(p->store, old, S("same"), 0, &e), &e);
    assert_ok(store_box_live(p->store, now, S("same"), 0, &e), &e);
    assert_ok(store_box_ended(p->store, now, S("so"), &e), &e);
    assert_ok(store_box_by_ref(p->store, &p->arena, STR_EMPTY, S("local"), S("same"), &got, &e),
              &e);
    assert_str(got.id, old);
    assert_fails(store_box_by_ref(p->store, &p->arena, STR_EMPTY, S("docker"), S("same"), &got, &e),
                 &e, ERR_NOT_FOUND, "no such");
}

static void the_limit_counts_what_has_not_ended(void **state)
{
    struct place *p = *state;
    struct box_row third = place_row(p, 3, "three");
    struct box_row taken = place_row(p, 4, "one");
    struct str one = place_add(p, 1, "one");
    struct box_row got;
    struct err e;

    place_add(p, 2, "two");
    assert_fails(store_add_box(p->store, &third, 2, &e), &e, ERR_LIMIT, "already 2 sandboxes");
    assert_fails(store_box_by_id(p->store, &p->arena, STR_EMPTY, third.id, &got, &e), &e,
                 ERR_NOT_FOUND, "no such");
    assert_fails(store_add_box(p->store, &taken, 2, &e), &e, ERR_EXISTS, "taken");
    assert_ok(store_box_ended(p->store, one, S("so"), &e), &e);
    assert_ok(store_add_box(p->store, &third, 2, &e), &e);
}

static void a_dropped_row_cannot_become_live(void **state)
{
    struct place *p = *state;
    struct str id = place_add(p, 1, "one");
    struct err e;

    assert_ok(store_drop_box(p->store, id, &e), &e);
    assert_ok(store_drop_box(p->store, id, &e), &e);
    assert_fails(store_box_live(p->store, id, S("r"), 0, &e), &e, ERR_NOT_FOUND, "taken out");
}

struct seen {
    char order[2048];
    int n, stop_at;
};

static int see(void *arg, const struct box_row *row, struct err *e)
{
    struct seen *s = arg;
    size_t len = strlen(s->order);

    s->n++;
    (void)snprintf(s->order + len, sizeof(s->order) - len, "%.*s ", STR_ARG(row->name));
    return s->n == s->stop_at ? err_set(e, ERR_CANCELLED, "stop") : 0;
}

static void boxes_are_listed_in_order_of_creation(void **state)
{
    struct place *p = *state;
    struct seen live = {0};
    struct seen all = {0};
    struct seen few = {.stop_at = 2};
    struct str b;
    struct err e;
    int64_t n = 0;

    place_add(p, 3, "a");
    b = place_add(p, 1, "b");
    place_add(p, 2, "c");
    assert_ok(store_box_ended(p->store, b, S("so"), &e), &e);
    assert_ok(store_each_box(p->store, &p->arena, STR_EMPTY, false, see, &live, &e), &e);
    assert_string_equal(live.order, "a c ");
    assert_ok(store_each_box(p->store, &p->arena, STR_EMPTY, true, see, &all, &e), &e);
    assert_string_equal(all.order, "a b c ");
    assert_fails(store_each_box(p->store, &p->arena, STR_EMPTY, true, see, &few, &e), &e,
                 ERR_CANCELLED, "stop");
    assert_string_equal(few.order, "a b ");
    assert_ok(store_count_boxes(p->store, STR_EMPTY, &n, &e), &e);
    assert_int_equal(n, 2);
}

static int drop_it(void *arg, const struct box_row *row, struct err *e)
{
    return store_drop_box(arg, row->id, e);
}

static void rows_may_go_while_they_are_listed(void **state)
{
    struct place *p = *state;
    struct err e;
    int64_t n = -1;

    for (int i = 1; i <= 450; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "n%d", i);
        place_add(p, i, arena_cstr(&p->arena, str_from(name)));
    }
    assert_ok(store_each_box(p->store, &p->arena, STR_EMPTY, false, drop_it, p->store, &e), &e);
    assert_ok(store_count_boxes(p->store, STR_EMPTY, &n, &e), &e);
    assert_int_equal(n, 0);
}

static void old_rows_are_pruned(void **state)
{
    struct place *p = *state;
    struct str gone = place_add(p, 1, "gone");
    struct str kept = place_add(p, 2, "kept");
    struct box_row got;
    struct str selected;
    struct err e;

    assert_ok(store_box_ended(p->store, gone, S("so"), &e), &e);
    assert_ok(store_set_selected(p->store, STR_EMPTY, S("/f"), gone, &e), &e);
    assert_ok(store_prune(p->store, clock_wall_ms() - 1000, &e), &e);
    (void)get(p, gone);
    assert_ok(store_prune(p->store, clock_wall_ms() + 1000, &e), &e);
    assert_fails(store_box_by_id(p->store, &p->arena, STR_EMPTY, gone, &got, &e), &e, ERR_NOT_FOUND,
                 "no such");
    assert_str(get(p, kept).name, S("kept"));
    assert_ok(store_get_selected(p->store, &p->arena, STR_EMPTY, S("/f"), &selected, &e), &e);
    assert_str(selected, S(""));
}

static void the_selection_is_kept_by_owner_and_folder(void **state)
{
    struct place *p = *state;
    struct str id = S("unset");
    struct err e;

    assert_ok(store_get_selected(p->store, &p->arena, STR_EMPTY, S("/f"), &id, &e), &e);
    assert_str(id, S(""));
    assert_ok(store_set_selected(p->store, STR_EMPTY, S("/f"), S("a"), &e), &e);
    assert_ok(store_set_selected(p->store, STR_EMPTY, S("/g"), S("b"), &e), &e);
    assert_ok(store_set_selected(p->store, STR_EMPTY, S("/f"), S("c"), &e), &e);
    assert_ok(store_get_selected(p->store, &p->arena, STR_EMPTY, S("/f"), &id, &e), &e);
    assert_str(id, S("c"));
    assert_ok(store_get_selected(p->store, &p->arena, S("o"), S("/f"), &id, &e), &e);
    assert_str(id, S(""));
    assert_ok(store_set_selected(p->store, STR_EMPTY, S("/f"), STR_EMPTY, &e), &e);
    assert_ok(store_get_selected(p->store, &p->arena, STR_EMPTY, S("/f"), &id, &e), &e);
    assert_str(id, S(""));
    assert_ok(store_get_selected(p->store, &p->arena, STR_EMPTY, S("/g"), &id, &e), &e);
    assert_str(id, S("b"));
}

static int tick(void *arg)
{
    (*(long *)arg)++;
    return 0;
}

static int ignore(void *arg, const struct box_row *row, struct err *e)
{
    (void)arg;
    (void)row;
    (void)e;
    return 0;
}

/* Everything that is asked of boxes, once, for the box `n` that is added to it; how many
 * steps SQLite took. */
static long steps_of_a_life(struct place *p, int n)
{
    struct box_row row = place_row(p, n, "one");
    struct box_row got;
    struct err e;
    int64_t count;
    long steps = 0;

    sqlite3_progress_handler(p->store->db, 1, tick, &steps);
    assert_ok(store_add_box(p->store, &row, 10, &e), &e);
    assert_ok(store_box_live(p->store, row.id, row.ref, 0, &e), &e);
    assert_ok(store_box_used(p->store, row.id, &e), &e);
    assert_ok(store_box_by_id(p->store, &p->arena, STR_EMPTY, row.id, &got, &e), &e);
    assert_ok(store_box_by_id(p->store, &p->arena, STR_EMPTY, str_head(row.id, 12), &got, &e), &e);
    assert_ok(store_box_by_name(p->store, &p->arena, STR_EMPTY, S("one"), &got, &e), &e);
    assert_ok(store_box_by_ref(p->store, &p->arena, STR_EMPTY, row.provider, row.ref, &got, &e),
              &e);
    assert_true(store_box_by_name(p->store, &p->arena, STR_EMPTY, S("nobody"), &got, &e) < 0);
    assert_ok(store_each_box(p->store, &p->arena, STR_EMPTY, false, ignore, NULL, &e), &e);
    assert_ok(store_count_boxes(p->store, STR_EMPTY, &count, &e), &e);
    assert_ok(store_prune(p->store, 5, &e), &e);
    assert_ok(store_box_ended(p->store, row.id, S("so"), &e), &e);
    assert_ok(store_box_by_name(p->store, &p->arena, STR_EMPTY, S("one"), &got, &e), &e);
    assert_ok(store_drop_box(p->store, row.id, &e), &e);
    sqlite3_progress_handler(p->store->db, 0, NULL, NULL);
    return steps;
}

static void the_rows_of_the_past_cost_nothing(void **state)
{
    struct place *p = *state;
    struct str keep = place_add(p, 1, "keep");
    struct err e;
    long few;
    long many;

    assert_ok(store_box_live(p->store, keep, S("k"), 0, &e), &e);
    few = steps_of_a_life(p, 2);
    assert_ok(
        db_run(p->store,
               "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 5000) "
               "INSERT INTO boxes SELECT NULL, printf('%032x', i + 1000), '', 'one', 'local', "
               "'r' || i, '', 2, 'so', i, i + 10, i, 0, 1, 1 FROM c",
               &e),
        &e);
    many = steps_of_a_life(p, 9999);
    if (many > few + 20) {
        fail_msg("%ld steps with 2 rows, %ld with 5,000", few, many);
    }
}

/* Child: tries to add "same" with an id of its own. Exit code 0: it was the one. */
static int add_in_child(struct place *p, int n)
{
    struct store *s = store_new(str_from(p->state));
    struct box_row row = place_row(p, n, "same");
    struct err e;
    int rc = store_add_box(s, &row, 0, &e);

    if (rc < 0 && e.kind != ERR_EXISTS) {
        (void)fprintf(stderr, "child: %s\n", e.msg);
        return 2;
    }
    store_free(s);
    return rc == 0 ? 0 : 1;
}

static void of_many_processes_one_gets_the_name(void **state)
{
    enum { N = 12 };
    struct place *p = *state;
    pid_t children[N];
    int winners = 0;

    /* Nobody has opened the database before: making, migrating and adding all race. */
    for (int i = 0; i < N; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            _exit(add_in_child(p, i + 1));
        }
    }
    for (int i = 0; i < N; i++) {
        int status;

        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status));
        assert_true(WEXITSTATUS(status) < 2);
        winners += WEXITSTATUS(status) == 0;
    }
    assert_int_equal(winners, 1);
}

static void two_connections_see_each_other(void **state)
{
    struct place *p = *state;
    struct store *other = store_new(str_from(p->state));
    struct box_row row = place_row(p, 2, "x");
    struct box_row got;
    struct str id = place_add(p, 1, "x");
    struct err e;

    assert_fails(store_add_box(other, &row, 0, &e), &e, ERR_EXISTS, "taken");
    assert_ok(store_box_ended(other, id, S("by the other"), &e), &e);
    assert_str(get(p, id).ended, S("by the other"));
    assert_ok(store_add_box(other, &row, 0, &e), &e);
    assert_ok(store_box_by_name(p->store, &p->arena, STR_EMPTY, S("x"), &got, &e), &e);
    assert_str(got.id, row.id);
    store_free(other);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, place_set_up, place_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_row_comes_back_as_it_was),
        TEST(a_name_is_taken_until_its_box_has_ended),
        TEST(the_latest_of_the_ended_is_found_by_name),
        TEST(a_short_id_is_enough_where_it_is_unique),
        TEST(a_ref_finds_the_box_that_uses_it_now),
        TEST(the_limit_counts_what_has_not_ended),
        TEST(a_dropped_row_cannot_become_live),
        TEST(boxes_are_listed_in_order_of_creation),
        TEST(rows_may_go_while_they_are_listed),
        TEST(old_rows_are_pruned),
        TEST(the_selection_is_kept_by_owner_and_folder),
        TEST(the_rows_of_the_past_cost_nothing),
        TEST(of_many_processes_one_gets_the_name),
        TEST(two_connections_see_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
