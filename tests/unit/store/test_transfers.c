#include "base/buf.h"
#include "state.h"
#include "store/transfers.h"

static const struct transfer_proc starter = {10, 100, {"boot-1", 6}};
static const struct transfer_proc worker = {11, 110, {"boot-1", 6}};
static const struct transfer_proc other = {11, 111, {"boot-1", 6}}; /* the same pid, later */

static int64_t add(struct place *p, const char *owner)
{
    const struct transfer_row row = {
        .owner = str_from(owner),
        .down = true,
        .box_id = S("ssh:gpu1"),
        .box_name = S("gpu1"),
        .local = S("/home/me/a \xff\n b"),
        .remote = S("proj"),
        .options = S("1:D,"),
        .proc = starter,
        .lease_ms = 77,
        .progress = {.files_total = 3, .bytes_total = 400, .unchanged = 5},
    };
    int64_t id = 0;
    struct err e;

    assert_ok(store_add_transfer(p->store, &row, S("/state/transfers"), &id, &e), &e);
    return id;
}

static struct transfer_row get(struct place *p, int64_t id)
{
    struct transfer_row row = {0};
    struct err e;

    assert_ok(store_any_transfer(p->store, &p->arena, id, &row, &e), &e);
    return row;
}

static void a_row_comes_back_as_it_was(void **state)
{
    struct place *p = *state;
    struct transfer_row row;
    struct err e;
    int64_t id = add(p, "key:a");

    assert_int_equal(id, 1);
    assert_ok(store_get_transfer(p->store, &p->arena, S("key:a"), id, &row, &e), &e);
    assert_str(row.owner, S("key:a"));
    assert_true(row.down);
    assert_str(row.box_id, S("ssh:gpu1"));
    assert_str(row.box_name, S("gpu1"));
    assert_str(row.local, S("/home/me/a \xff\n b"));
    assert_str(row.remote, S("proj"));
    assert_str(row.options, S("1:D,"));
    assert_int_equal(row.state, TRANSFER_QUEUED);
    assert_int_equal(row.proc.pid, 10);
    assert_int_equal(row.proc.start, 100);
    assert_str(row.proc.boot, S("boot-1"));
    assert_int_equal(row.lease_ms, 77);
    assert_str(row.log_file, S("/state/transfers/transfer-1.log"));
    assert_str(row.progress.phase, S("queued"));
    assert_int_equal(row.progress.files_total, 3);
    assert_int_equal(row.progress.bytes_total, 400);
    assert_int_equal(row.progress.unchanged, 5);
    assert_true(row.created_ms > 0 && row.updated_ms == row.created_ms);
    assert_int_equal(row.started_ms + row.finished_ms, 0);
}

static void others_do_not_see_it(void **state)
{
    struct place *p = *state;
    struct transfer_row row;
    struct err e;
    int64_t id = add(p, "key:a");

    assert_fails(store_get_transfer(p->store, &p->arena, S("key:b"), id, &row, &e), &e,
                 ERR_NOT_FOUND, "no transfer with the task_id 1");
    assert_int_equal(store_cancel_transfer(p->store, S("key:b"), id, &e), 0);
    assert_int_equal(get(p, id).state, TRANSFER_QUEUED);
    assert_fails(store_any_transfer(p->store, &p->arena, 99, &row, &e), &e, ERR_NOT_FOUND, "99");
}

static void one_worker_takes_a_row(void **state)
{
    struct place *p = *state;
    struct transfer_row row;
    struct err e;
    int64_t id = add(p, "");

    assert_int_equal(store_transfer_spawned(p->store, id, &worker, 80, &e), 1);
    assert_int_equal(get(p, id).proc.pid, 11);
    assert_int_equal(get(p, id).state, TRANSFER_QUEUED);
    assert_int_equal(store_claim_transfer(p->store, id, &worker, 90, &e), 1);
    assert_int_equal(store_claim_transfer(p->store, id, &other, 90, &e), 0);
    assert_int_equal(store_transfer_spawned(p->store, id, &other, 95, &e), 0);
    row = get(p, id);
    assert_int_equal(row.state, TRANSFER_RUNNING);
    assert_int_equal(row.proc.start, 110);
    assert_int_equal(row.lease_ms, 90);
    assert_true(row.started_ms > 0);
}

static const struct transfer_progress half = {
    .phase = {"uploading", 9},
    .path = {"src/a\xff.c", 8},
    .is_file = true,
    .dirs = 1,
    .files = 2,
    .files_total = 3,
    .unchanged = 4,
    .bytes = 5,
    .bytes_total = 6,
    .deleted_files = 7,
    .deleted_dirs = 8,
    .failed = 9,
    .note = {"x: no", 5},
    .rate = 10,
    .used_ms = 11,
};

static void check_half(const struct transfer_progress *got)
{
    assert_str(got->path, half.path);
    assert_true(got->is_file);
    assert_int_equal(got->dirs, 1);
    assert_int_equal(got->files, 2);
    assert_int_equal(got->files_total, 3);
    assert_int_equal(got->unchanged, 4);
    assert_int_equal(got->bytes, 5);
    assert_int_equal(got->bytes_total, 6);
    assert_int_equal(got->deleted_files, 7);
    assert_int_equal(got->deleted_dirs, 8);
    assert_int_equal(got->failed, 9);
    assert_str(got->note, half.note);
    assert_int_equal(got->rate, 10);
    assert_int_equal(got->used_ms, 11);
}

static void only_its_worker_tells_how_far_it_is(void **state)
{
    struct place *p = *state;
    struct transfer_row row;
    struct err e;
    int64_t id = add(p, "");

    assert_int_equal(store_transfer_progress(p->store, id, &starter, &half, 1, &e), 0);
    assert_int_equal(store_claim_transfer(p->store, id, &worker, 90, &e), 1);
    assert_int_equal(store_transfer_progress(p->store, id, &other, &half, 1, &e), 0);
    assert_int_equal(store_transfer_progress(p->store, id, &worker, &half, 123, &e), 1);
    row = get(p, id);
    assert_str(row.progress.phase, S("uploading"));
    check_half(&row.progress);
    assert_int_equal(row.lease_ms, 123);
    assert_int_equal(
        store_end_transfer(p->store, id, &other, TRANSFER_COMPLETED, &half, STR_EMPTY, &e), 0);
    assert_int_equal(
        store_end_transfer(p->store, id, &worker, TRANSFER_FAILED, &half, S("disk full"), &e), 1);
    row = get(p, id);
    assert_int_equal(row.state, TRANSFER_FAILED);
    assert_str(row.error, S("disk full"));
    assert_true(row.finished_ms > 0);
    assert_int_equal(store_transfer_progress(p->store, id, &worker, &half, 1, &e), 0);
}

static void what_was_cancelled_stays_so(void **state)
{
    struct place *p = *state;
    struct transfer_row row;
    struct err e;
    int64_t queued = add(p, "");
    int64_t running = add(p, "");

    assert_int_equal(store_cancel_transfer(p->store, STR_EMPTY, queued, &e), 1);
    assert_int_equal(store_cancel_transfer(p->store, STR_EMPTY, queued, &e), 0);
    assert_int_equal(store_claim_transfer(p->store, queued, &worker, 90, &e), 0);
    assert_int_equal(store_fail_transfer(p->store, queued, S("no"), &e), 0);

    assert_int_equal(store_claim_transfer(p->store, running, &worker, 90, &e), 1);
    assert_int_equal(store_cancel_transfer(p->store, STR_EMPTY, running, &e), 1);
    assert_int_equal(store_transfer_progress(p->store, running, &worker, &half, 1, &e), 0);
    assert_int_equal(
        store_end_transfer(p->store, running, &worker, TRANSFER_COMPLETED, &half, S("x"), &e), 1);
    row = get(p, running);
    assert_int_equal(row.state, TRANSFER_CANCELLED);
    assert_str(row.error, STR_EMPTY);
    check_half(&row.progress);
}

static void a_dead_one_is_queued_again_once(void **state)
{
    struct place *p = *state;
    struct transfer_row seen;
    struct err e;
    int64_t id = add(p, "");

    assert_int_equal(store_claim_transfer(p->store, id, &worker, 90, &e), 1);
    assert_int_equal(store_transfer_progress(p->store, id, &worker, &half, 1, &e), 1);
    seen = get(p, id);
    assert_int_equal(store_requeue_transfer(p->store, &seen, &starter, 200, &e), 1);
    assert_int_equal(store_requeue_transfer(p->store, &seen, &starter, 200, &e), 0);
    assert_int_equal(get(p, id).state, TRANSFER_QUEUED);
    assert_int_equal(get(p, id).progress.files, 0);
    /* The old worker, should it live after all, changes nothing any more. */
    assert_int_equal(store_transfer_progress(p->store, id, &worker, &half, 1, &e), 0);
    assert_int_equal(store_claim_transfer(p->store, id, &other, 90, &e), 1);
    assert_int_equal(
        store_end_transfer(p->store, id, &worker, TRANSFER_COMPLETED, &half, STR_EMPTY, &e), 0);
    assert_int_equal(get(p, id).state, TRANSFER_RUNNING);
}

static void those_with_a_lease_are_counted(void **state)
{
    struct place *p = *state;
    int64_t n = -1;
    struct err e;

    add(p, "");
    add(p, "key:a");
    add(p, "");
    assert_int_equal(store_cancel_transfer(p->store, STR_EMPTY, 3, &e), 1);
    assert_ok(store_count_transfers(p->store, S("boot-1"), 76, &n, &e), &e);
    assert_int_equal(n, 2);
    assert_ok(store_count_transfers(p->store, S("boot-1"), 77, &n, &e), &e);
    assert_int_equal(n, 0);
    assert_ok(store_count_transfers(p->store, S("boot-2"), 0, &n, &e), &e);
    assert_int_equal(n, 0);
}

static int collect(void *arg, const struct transfer_row *row, struct err *e)
{
    struct buf *text = arg;

    (void)e;
    buf_addf(text, "%lld ", (long long)row->id);
    return 0;
}

static void told(void *arg, struct str log_file)
{
    struct buf *text = arg;

    buf_addf(text, "%.*s ", STR_ARG(log_file));
}

static void old_ones_are_removed(void **state)
{
    struct place *p = *state;
    struct buf text own_buf = {0};
    struct err e;

    buf_init(&text, 1000);
    for (int i = 0; i < 6; i++) {
        add(p, "");
    }
    for (int64_t id = 1; id <= 4; id++) {
        assert_int_equal(store_cancel_transfer(p->store, STR_EMPTY, id, &e), 1);
    }
    assert_ok(store_each_transfer(p->store, &p->arena, STR_EMPTY, 3, collect, &text, &e), &e);
    assert_str(buf_str(&text), S("6 5 4 "));
    buf_clear(&text);
    assert_ok(store_prune_transfers(p->store, &p->arena, 1, 3, told, &text, &e), &e);
    assert_str(buf_str(&text), S("/state/transfers/transfer-1.log "));
    buf_clear(&text);
    assert_ok(store_prune_transfers(p->store, &p->arena, INT64_MAX, 3, told, &text, &e), &e);
    buf_clear(&text);
    assert_ok(store_each_transfer(p->store, &p->arena, STR_EMPTY, 9, collect, &text, &e), &e);
    assert_str(buf_str(&text), STR_EMPTY);
    assert_int_equal(add(p, ""), 7); /* numbers are not given again */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, place_set_up, place_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_row_comes_back_as_it_was),     TEST(others_do_not_see_it),
        TEST(one_worker_takes_a_row),         TEST(only_its_worker_tells_how_far_it_is),
        TEST(what_was_cancelled_stays_so),    TEST(a_dead_one_is_queued_again_once),
        TEST(those_with_a_lease_are_counted), TEST(old_ones_are_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
