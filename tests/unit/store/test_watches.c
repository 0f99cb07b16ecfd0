#include "base/buf.h"
#include "base/clock.h"
#include "state.h"
#include "store/watches.h"

static const struct watch_order plain = {
    .owner = {"", 0},
    .box_id = {"ssh:gpu1", 8},
    .box_name = {"gpu1", 4},
    .run_id = {"run-7", 5},
    .name = {"train", 5},
    .session = {"train-001", 9},
    .log_file = {"/home/u/.codex_logs/train-001.log", 33},
    .cwd = {"/home/u/p", 9},
    .launch_command = {"python train.py", 15},
    .resume_command = {"python train.py --resume", 24},
    .resume_plan = {"{\"a\":1}", 7},
    .metadata = {"{}", 2},
    .checkpoint_path = {"ck.json", 7},
    .checkpoint_format = {"json", 4},
    .checkpoint_command = {"cat ck", 6},
    .webhook_url = {"http://127.0.0.1/x", 18},
    .event_command = {"true", 4},
    .interval_s = 60,
    .max_log_lines = 80,
    .alert_after_failures = 2,
    .resume_delay_s = 300,
    .max_resume_attempts = 4,
    .auto_resume = true,
    .notify_local = true,
};

static int64_t add(struct place *p, const char *owner)
{
    struct watch_order order = plain;
    int64_t id = 0;
    struct err e;

    order.owner = str_from(owner);
    assert_ok(store_add_watch(p->store, &order, S("r1"), &id, &e), &e);
    return id;
}

static struct watch_row get(struct place *p, int64_t id)
{
    struct watch_row row = {0};
    struct err e;

    assert_ok(store_get_watch(p->store, &p->arena, NULL, id, &row, &e), &e);
    return row;
}

static void a_watch_comes_back_as_it_was(void **state)
{
    struct place *p = *state;
    struct watch_row row = get(p, add(p, "key:a"));

    assert_str(row.order.owner, S("key:a"));
    assert_str(row.order.box_id, plain.box_id);
    assert_str(row.order.box_name, plain.box_name);
    assert_str(row.order.run_id, plain.run_id);
    assert_str(row.order.name, plain.name);
    assert_str(row.order.session, plain.session);
    assert_str(row.order.log_file, plain.log_file);
    assert_str(row.order.cwd, plain.cwd);
    assert_str(row.order.launch_command, plain.launch_command);
    assert_str(row.order.resume_command, plain.resume_command);
    assert_str(row.order.resume_plan, plain.resume_plan);
    assert_str(row.order.metadata, plain.metadata);
    assert_str(row.order.checkpoint_path, plain.checkpoint_path);
    assert_str(row.order.checkpoint_format, plain.checkpoint_format);
    assert_str(row.order.checkpoint_command, plain.checkpoint_command);
    assert_str(row.order.webhook_url, plain.webhook_url);
    assert_str(row.order.event_command, plain.event_command);
    assert_int_equal(row.order.interval_s, 60);
    assert_int_equal(row.order.max_log_lines, 80);
    assert_int_equal(row.order.alert_after_failures, 2);
    assert_int_equal(row.order.resume_delay_s, 300);
    assert_int_equal(row.order.max_resume_attempts, 4);
    assert_true(row.order.auto_resume && row.order.notify_local);
    assert_str(row.words.task_run, S("r1"));
    assert_int_equal(row.memory.status, WATCH_ACTIVE);
    assert_int_equal(row.memory.state, STATE_NEW);
    assert_false(row.memory.has_exit_code);
    assert_int_equal(row.memory.next_check_s, 0);
    assert_true(row.created_s > 0);
}

static void others_do_not_see_it(void **state)
{
    struct place *p = *state;
    int64_t id = add(p, "key:a");
    struct str other = S("key:b");
    struct watch_row row;
    struct err e;

    assert_int_equal(store_get_watch(p->store, &p->arena, &other, id, &row, &e), -1);
    assert_int_equal(e.kind, ERR_NOT_FOUND);
    assert_int_equal(store_cancel_watch(p->store, other, id, &e), 0);
    assert_int_equal(get(p, id).memory.status, WATCH_ACTIVE);
}

static void a_step_stores_all_of_it(void **state)
{
    struct place *p = *state;
    struct watch_row seen = get(p, add(p, "")), row;
    const struct watch_memory memory = {
        .status = WATCH_ACTIVE,
        .state = STATE_INTERRUPTED,
        .has_exit_code = true,
        .exit_code = -3,
        .failures = 4,
        .alert_sent = true,
        .interrupted_s = 5,
        .resume_due_s = 6,
        .resume_attempts = 7,
        .resume_failures = 8,
        .resume_uncertain = true,
        .last_checked_s = 9,
        .next_check_s = 10,
    };
    const struct watch_words words = {S("r2"), S("r3"), S("sum"), S("err"), S("tail"), S("check")};
    struct new_event events[2] = {
        {.type = S("interrupted"), .summary = S("s1"), .payload = S("{}"), .owes = {true}},
        {.type = S("resume_started"), .summary = S("s2"), .payload = S("{}")},
    };
    struct err e;

    assert_int_equal(store_step_watch(p->store, &seen, &memory, &words, events, 2, &e), 1);
    row = get(p, seen.id);
    assert_int_equal(row.revision, seen.revision + 1);
    assert_int_equal(row.memory.state, STATE_INTERRUPTED);
    assert_true(row.memory.has_exit_code && row.memory.alert_sent && row.memory.resume_uncertain);
    assert_int_equal(row.memory.exit_code, -3);
    assert_int_equal(row.memory.failures, 4);
    assert_int_equal(row.memory.interrupted_s, 5);
    assert_int_equal(row.memory.resume_due_s, 6);
    assert_int_equal(row.memory.resume_attempts, 7);
    assert_int_equal(row.memory.resume_failures, 8);
    assert_int_equal(row.memory.last_checked_s, 9);
    assert_int_equal(row.memory.next_check_s, 10);
    assert_str(row.words.task_run, S("r2"));
    assert_str(row.words.next_run, S("r3"));
    assert_str(row.words.summary, S("sum"));
    assert_str(row.words.error, S("err"));
    assert_str(row.words.log_tail, S("tail"));
    assert_str(row.words.checkpoint_text, S("check"));
    assert_true(row.last_event_s > 0 && row.checkpoint_s > 0);
    assert_true(events[1].id > events[0].id);
}

static int count_event(void *arg, const struct watch_event_row *row, struct err *e)
{
    (void)row;
    (void)e;
    ++*(int *)arg;
    return 0;
}

static int events_of(struct place *p, const char *owner, int64_t watch_id)
{
    struct str who = str_from(owner);
    struct err e;
    int n = 0;

    assert_ok(store_each_event(p->store, &who, watch_id, 20000, count_event, &n, &e), &e);
    return n;
}

static int step(struct place *p, const struct watch_row *seen, struct new_event *event)
{
    struct watch_memory memory = seen->memory;
    struct err e;

    memory.next_check_s = clock_wall_ms() / 1000 + 1000;
    return store_step_watch(p->store, seen, &memory, &seen->words, event, event != NULL, &e);
}

static void of_two_who_looked_one_comes_too_late(void **state)
{
    struct place *p = *state;
    struct watch_row seen = get(p, add(p, ""));
    struct new_event event = {.type = S("interrupted"), .payload = S("{}"), .owes = {true, true}};

    assert_int_equal(step(p, &seen, &event), 1);
    assert_int_equal(step(p, &seen, &event), 0);
    assert_int_equal(events_of(p, "", seen.id), 1);
}

static void a_cancelled_watch_takes_no_step(void **state)
{
    struct place *p = *state;
    struct watch_row seen = get(p, add(p, ""));
    struct err e;

    assert_int_equal(store_cancel_watch(p->store, S(""), seen.id, &e), 1);
    assert_int_equal(store_cancel_watch(p->store, S(""), seen.id, &e), 0);
    assert_int_equal(step(p, &seen, NULL), 0);
    seen = get(p, seen.id);
    assert_int_equal(seen.memory.status, WATCH_CANCELLED);
    assert_int_equal(step(p, &seen, NULL), 0); /* what is over stays over */
}

static int note_id(void *arg, const struct watch_row *row, struct err *e)
{
    struct buf *ids = arg;

    (void)e;
    buf_addf(ids, "%lld ", (long long)row->id);
    return 0;
}

static void due_ones_come_with_the_longest_overdue_first(void **state)
{
    struct place *p = *state;
    struct watch_row a = get(p, add(p, "")), b = get(p, add(p, "x")), c = get(p, add(p, ""));
    struct watch_memory memory = {.next_check_s = 500, .last_checked_s = 400};
    struct buf ids own_buf = {0};
    struct err e;

    buf_init(&ids, 100);
    assert_int_equal(store_step_watch(p->store, &a, &memory, &a.words, NULL, 0, &e), 1);
    memory.next_check_s = 300;
    memory.last_checked_s = 200;
    assert_int_equal(store_step_watch(p->store, &b, &memory, &b.words, NULL, 0, &e), 1);
    memory.next_check_s = 9000;
    memory.last_checked_s = 8000; /* later than now: the clock was set back */
    assert_int_equal(store_step_watch(p->store, &c, &memory, &c.words, NULL, 0, &e), 1);
    assert_ok(store_due_watches(p->store, 499, 10, note_id, &ids, &e), &e);
    assert_str(buf_str(&ids), S("2 3 "));
    buf_clear(&ids);
    assert_ok(store_due_watches(p->store, 8500, 1, note_id, &ids, &e), &e);
    assert_str(buf_str(&ids), S("2 "));
}

static int note_watch(void *arg, const struct watch_row *row, struct err *e)
{
    assert_int_equal(row->order.metadata.len, 60000);
    assert_str(row->order.cwd, plain.cwd);
    return note_id(arg, row, e);
}

/* Texts of watches are long, so no more than a page of them is in memory. */
static void many_are_told_in_order_over_all_pages(void **state)
{
    struct place *p = *state;
    struct watch_order order = plain;
    struct buf long_text own_buf = {0}, ids own_buf = {0}, want own_buf = {0};
    struct err e;
    int64_t id;

    buf_init(&long_text, 60000);
    for (size_t i = 0; i < 60000; i++) {
        buf_addc(&long_text, 'x');
    }
    order.metadata = buf_str(&long_text);
    buf_init(&ids, 4096);
    buf_init(&want, 4096);
    for (int i = 0; i < 3 * STORE_PAGE; i++) {
        assert_ok(store_add_watch(p->store, &order, S("r"), &id, &e), &e);
    }
    for (int i = 3 * STORE_PAGE; i > STORE_PAGE - 2; i--) {
        buf_addf(&want, "%d ", i);
    }
    assert_ok(store_each_watch(p->store, NULL, -1, 2 * STORE_PAGE + 2, note_watch, &ids, &e), &e);
    assert_str(buf_str(&ids), buf_str(&want));
    buf_clear(&ids);
    buf_clear(&want);
    for (int i = 1; i <= 3 * STORE_PAGE; i++) {
        buf_addf(&want, "%d ", i);
    }
    assert_ok(store_due_watches(p->store, 100, 1000, note_watch, &ids, &e), &e);
    assert_str(buf_str(&ids), buf_str(&want));
}

static int note_event(void *arg, const struct watch_event_row *row, struct err *e)
{
    (void)e;
    buf_addf(arg, "%lld ", (long long)row->id);
    return 0;
}

static void events_are_told_over_all_pages(void **state)
{
    struct place *p = *state;
    struct buf ids own_buf = {0}, want own_buf = {0};
    struct str owner = S("");
    int64_t id = add(p, "");
    struct err e;

    buf_init(&ids, 4096);
    buf_init(&want, 4096);
    for (int i = 0; i < 2 * STORE_PAGE + 1; i++) {
        struct watch_row seen = get(p, id);
        struct new_event event = {.type = S("x"), .payload = S("{}")};

        assert_int_equal(step(p, &seen, &event), 1);
    }
    for (int i = 2 * STORE_PAGE + 1; i > 0; i--) {
        buf_addf(&want, "%d ", i);
    }
    assert_ok(store_each_event(p->store, &owner, 0, 1000, note_event, &ids, &e), &e);
    assert_str(buf_str(&ids), buf_str(&want));
    buf_clear(&ids);
    assert_ok(store_each_event(p->store, NULL, id, 1000, note_event, &ids, &e), &e);
    assert_str(buf_str(&ids), buf_str(&want));
}

static int take_delivery(void *arg, const struct delivery_row *row, struct err *e)
{
    struct buf *seen = arg;

    (void)e;
    buf_addf(seen, "%lld:%d:%lld:%.*s ", (long long)row->event.id, (int)row->kind,
             (long long)row->tries, STR_ARG(row->url));
    return 0;
}

static void a_delivery_is_owed_until_it_is_done_or_given_up(void **state)
{
    struct place *p = *state;
    struct watch_row seen = get(p, add(p, ""));
    struct new_event event = {.type = S("completed"),
                              .payload = S("{}"),
                              .owes = {[DELIVERY_FILE] = true, [DELIVERY_WEBHOOK] = true}};
    struct buf got own_buf = {0};
    struct err e;

    buf_init(&got, 1000);
    assert_int_equal(step(p, &seen, &event), 1);
    assert_ok(store_due_deliveries(p->store, &p->arena, 100, 10, take_delivery, &got, &e), &e);
    assert_str(buf_str(&got), S("1:0:0:http://127.0.0.1/x 1:2:0:http://127.0.0.1/x "));
    assert_ok(store_delivered(p->store, 1, &e), &e);
    assert_ok(store_not_delivered(p->store, 2, 200, S("refused"), &e), &e);
    buf_clear(&got);
    assert_ok(store_due_deliveries(p->store, &p->arena, 199, 10, take_delivery, &got, &e), &e);
    assert_int_equal(got.len, 0);
    assert_ok(store_due_deliveries(p->store, &p->arena, 200, 10, take_delivery, &got, &e), &e);
    assert_str(buf_str(&got), S("1:2:1:http://127.0.0.1/x "));
    assert_ok(store_not_delivered(p->store, 2, 0, S("refused"), &e), &e);
    buf_clear(&got);
    assert_ok(store_due_deliveries(p->store, &p->arena, 1ll << 40, 10, take_delivery, &got, &e),
              &e);
    assert_int_equal(got.len, 0);
}

static int count_delivery(void *arg, const struct delivery_row *row, struct err *e)
{
    (void)e;
    assert_true(row->event.payload.len > 0);
    ++*(int *)arg;
    return 0;
}

/* They are all in memory at once. */
static void long_deliveries_are_read_a_few_at_a_time(void **state)
{
    struct place *p = *state;
    int64_t id = add(p, "");
    struct buf payload own_buf = {0};
    struct err e;
    int n = 0;

    buf_init(&payload, 4u << 20);
    while (!payload.cut) {
        buf_add(&payload, S("0123456789abcdef"));
    }
    for (int i = 0; i < 7; i++) {
        struct watch_row seen = get(p, id);
        struct new_event event = {
            .type = S("x"), .payload = buf_str(&payload), .owes = {[DELIVERY_FILE] = true}};

        assert_int_equal(step(p, &seen, &event), 1);
    }
    assert_ok(store_due_deliveries(p->store, &p->arena, 100, 64, count_delivery, &n, &e), &e);
    assert_in_range(n, 4, 5);
}

static void the_next_time_is_the_earliest_of_all(void **state)
{
    struct place *p = *state;
    struct watch_row seen;
    struct watch_memory memory = {.next_check_s = 700};
    struct new_event event = {.type = S("x"), .payload = S("{}"), .owes = {true}};
    int64_t due = -1;
    struct err e;

    assert_ok(store_next_due(p->store, &due, &e), &e);
    assert_int_equal(due, 0);
    seen = get(p, add(p, ""));
    assert_ok(store_next_due(p->store, &due, &e), &e);
    assert_int_equal(due, 1); /* never looked at */
    assert_int_equal(store_step_watch(p->store, &seen, &memory, &seen.words, NULL, 0, &e), 1);
    assert_ok(store_next_due(p->store, &due, &e), &e);
    assert_int_equal(due, 700);
    seen = get(p, seen.id);
    memory.status = WATCH_COMPLETED;
    assert_int_equal(store_step_watch(p->store, &seen, &memory, &seen.words, &event, 1, &e), 1);
    assert_ok(store_next_due(p->store, &due, &e), &e);
    assert_int_equal(due, 1); /* its delivery */
    assert_ok(store_delivered(p->store, 1, &e), &e);
    assert_ok(store_next_due(p->store, &due, &e), &e);
    assert_int_equal(due, 0);
}

static void counts_are_by_status_and_owner(void **state)
{
    struct place *p = *state;
    int64_t counts[WATCH_STATUSES];
    struct str who = S("");
    struct err e;

    add(p, "");
    add(p, "key:a");
    assert_int_equal(store_cancel_watch(p->store, S(""), add(p, ""), &e), 1);
    assert_ok(store_count_watches(p->store, &who, counts, &e), &e);
    assert_int_equal(counts[WATCH_ACTIVE], 1);
    assert_int_equal(counts[WATCH_CANCELLED], 1);
    assert_ok(store_count_watches(p->store, NULL, counts, &e), &e);
    assert_int_equal(counts[WATCH_ACTIVE], 2);
}

static void facts_of_the_watchdog_are_kept(void **state)
{
    struct place *p = *state;
    struct str value;
    int64_t set_s;
    struct err e;

    assert_ok(store_get_watchdog(p->store, &p->arena, S("heartbeat"), &value, &set_s, &e), &e);
    assert_int_equal(value.len + (size_t)set_s, 0);
    assert_ok(store_set_watchdog(p->store, S("heartbeat"), S("{1}"), &e), &e);
    assert_ok(store_set_watchdog(p->store, S("heartbeat"), S("{2}"), &e), &e);
    assert_ok(store_get_watchdog(p->store, &p->arena, S("heartbeat"), &value, &set_s, &e), &e);
    assert_str(value, S("{2}"));
    assert_true(set_s > 0);
}

static void note_gone(void *arg, int64_t id)
{
    *(int64_t *)arg += id;
}

static void old_events_go_but_not_those_that_are_owed(void **state)
{
    struct place *p = *state;
    struct watch_row seen = get(p, add(p, ""));
    int64_t gone = 0;
    struct err e;

    for (int i = 1; i <= 5; i++) {
        struct new_event event = {.type = S("x"), .payload = S("{}"), .owes = {i == 2}};

        assert_int_equal(step(p, &seen, &event), 1);
        seen = get(p, seen.id);
    }
    assert_ok(store_prune_watches(p->store, 0, 2, note_gone, &gone, &e), &e);
    assert_int_equal(gone, 1 + 3);
    assert_int_equal(events_of(p, "", 0), 3);
    assert_ok(store_delivered(p->store, 1, &e), &e);
    assert_ok(store_prune_watches(p->store, 0, 2, note_gone, &gone, &e), &e);
    assert_int_equal(gone, 1 + 3 + 2);
    assert_int_equal(store_cancel_watch(p->store, S(""), seen.id, &e), 1);
    assert_ok(store_prune_watches(p->store, INT64_MAX, 100, note_gone, &gone, &e), &e);
    assert_int_equal(events_of(p, "", 0), 0);
    assert_int_equal(store_get_watch(p->store, &p->arena, NULL, seen.id, &seen, &e), -1);
}

static void many_old_events_go_a_little_at_a_time(void **state)
{
    struct place *p = *state;
    int64_t gone = 0;
    struct err e;
    int calls = 1;

    (void)add(p, "");
    assert_ok(
        db_run(p->store,
               "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000) "
               "INSERT INTO watch_events (watch_id, owner, type, summary, payload, created_s) "
               "SELECT 1, '', 'x', '', '{}', i FROM n",
               &e),
        &e);
    int rc = store_prune_watches(p->store, 1001, 3000, note_gone, &gone, &e);

    assert_int_equal(rc, 1);
    assert_in_range(events_of(p, "", 0), 3001, 11999);
    for (; rc == 1; calls++) {
        rc = store_prune_watches(p->store, 1001, 3000, note_gone, &gone, &e);
    }
    assert_ok(rc, &e);
    assert_in_range(calls, 2, 10);
    assert_int_equal(events_of(p, "", 0), 3000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, place_set_up, place_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_watch_comes_back_as_it_was),
        TEST(others_do_not_see_it),
        TEST(a_step_stores_all_of_it),
        TEST(of_two_who_looked_one_comes_too_late),
        TEST(a_cancelled_watch_takes_no_step),
        TEST(due_ones_come_with_the_longest_overdue_first),
        TEST(many_are_told_in_order_over_all_pages),
        TEST(events_are_told_over_all_pages),
        TEST(a_delivery_is_owed_until_it_is_done_or_given_up),
        TEST(long_deliveries_are_read_a_few_at_a_time),
        TEST(the_next_time_is_the_earliest_of_all),
        TEST(counts_are_by_status_and_owner),
        TEST(facts_of_the_watchdog_are_kept),
        TEST(old_events_go_but_not_those_that_are_owed),
        TEST(many_old_events_go_a_little_at_a_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
