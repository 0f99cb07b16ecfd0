/* Whole trees over the agent's protocol, against agents that lie, are old or go away. What an
 * honest one does is in boxinit/test_trees.c. */
#include <semaphore.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fake_agent.h"
#include "test.h"
#include "tree/entry.h"

struct fixture {
    struct fake_agent fake;
    struct arena arena;
    struct ctx ctx;
    struct box *box;
    struct buf got;
    struct tree_facts facts;
    int (*lane)(struct box *b, unsigned i); /* NULL: there is none */
    struct err e;
};

static int setup(void **state)
{
    struct fixture *fx = calloc(1, sizeof *fx);
    fake_init(&fx->fake);
    arena_init(&fx->arena, 16u << 20);
    fx->ctx = (struct ctx){.arena = &fx->arena};
    fx->box = &fx->fake.agent.box;
    buf_init(&fx->got, 1u << 20);
    fake_hello(&fx->fake, 0);
    *state = fx;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fx = *state;
    fake_fini(&fx->fake);
    arena_fini(&fx->arena);
    buf_fini(&fx->got);
    free(fx);
    return 0;
}

/* ---- what the box says ------------------------------------------------------------------------- */

static void say(struct fixture *fx, struct buf *frames)
{
    fake_raw(&fx->fake, 0, buf_str(frames));
    buf_fini(frames);
}

static void say_is(struct fixture *fx, bool exists, uint8_t type, struct str real)
{
    struct buf b;
    buf_init(&b, 1u << 20);
    struct wire_out w = wire_begin(&b, FRAME_TREE_IS);
    wire_u8(&w, exists);
    wire_u8(&w, type);
    wire_str(&w, real);
    wire_str(&w, S("/home/user"));
    wire_u8(&w, 0);
    assert_true(wire_end(&w));
    say(fx, &b);
}

static void say_block(struct fixture *fx, struct str block)
{
    struct buf b;
    buf_init(&b, 1u << 20);
    struct wire_out w = wire_begin(&b, FRAME_TREE_BLOCK);
    wire_u32(&w, 0);
    wire_str(&w, block);
    assert_true(wire_end(&w));
    say(fx, &b);
}

static void say_end(struct fixture *fx, uint64_t unreadable, struct str first)
{
    struct buf b;
    buf_init(&b, 1u << 20);
    struct wire_out w = wire_begin(&b, FRAME_TREE_END);
    wire_u64(&w, unreadable);
    wire_str(&w, first);
    assert_true(wire_end(&w));
    say(fx, &b);
}

/* ---- what is heard of it ------------------------------------------------------------------------- */

static int got_entry(void *arg, const struct tree_entry *entry, struct err *e)
{
    struct fixture *fx = arg;
    (void)e;
    buf_addf(&fx->got, "[%.*s]", STR_ARG(entry->path));
    return 0;
}

static int got_data(void *arg, struct str bytes, struct err *e)
{
    (void)e;
    buf_add(&((struct fixture *)arg)->got, bytes);
    return 0;
}

static int got_done(void *arg, bool ok, struct str why, struct err *e)
{
    (void)e;
    buf_addf(&((struct fixture *)arg)->got, "<%d%.*s>", ok, STR_ARG(why));
    return 0;
}

static int list(struct fixture *fx)
{
    struct tree_req req = {.root = S("d")};
    return trees_over_agent.list(fx->box, &fx->ctx, &req, got_entry, fx, &fx->facts, &fx->e);
}

static int get(struct fixture *fx)
{
    struct tree_sink to = {.entry = got_entry, .data = got_data, .done = got_done, .arg = fx};
    const struct str paths[] = {S("a"), S("b")};
    return trees_over_agent.get(fx->box, &fx->ctx, S("d"), paths, 2, &to, &fx->e);
}

/* A path of one letter, a size, no time. */
#define ENTRY(path, size) "\x80\x00\x01" path size "\x00"

static void a_listing_with_signs_of_life(void **state)
{
    struct fixture *fx = *state;
    say_block(fx, STR_EMPTY);
    say_is(fx, true, ENTRY_DIR, S("/workspace/d"));
    say_block(fx, STR_EMPTY);
    say_block(fx, S("\x88\x00\x00\x00" ENTRY("a", "\x05") ENTRY("b", "\x05")));
    say_end(fx, 3, S("x\x1b[31m\ny: no"));
    assert_ok(list(fx), &fx->e);
    assert_str(buf_str(&fx->got), S("[][a][b]"));
    assert_str(fx->facts.real, S("/workspace/d"));
    assert_int_equal(fx->facts.unreadable, 3);
    assert_null(memchr(fx->facts.first_unreadable.p, '\x1b', fx->facts.first_unreadable.len));
    assert_null(memchr(fx->facts.first_unreadable.p, '\n', fx->facts.first_unreadable.len));
}

static void paths_that_lead_out_or_back_are_refused(void **state)
{
    struct fixture *fx = *state;
    say_is(fx, true, ENTRY_DIR, S("/workspace/d"));
    say_block(fx, S(ENTRY("b", "\x05") ENTRY("a", "\x05")));
    fake_add(&fx->fake, 0, FAKE_LISTEN);
    assert_fails(list(fx), &fx->e, ERR_PROTOCOL, "path");
}

static void facts_that_cannot_be_right_are_refused(void **state)
{
    struct fixture *fx = *state;
    say_is(fx, true, 9, S("/x"));
    fake_add(&fx->fake, 0, FAKE_LISTEN);
    fake_hello(&fx->fake, 1);
    assert_fails(list(fx), &fx->e, ERR_PROTOCOL, "what a tree is");
}

static void just_what_was_asked_for_is_taken(void **state)
{
    struct fixture *fx = *state;
    say_block(fx, S(ENTRY("a", "\x02") "\x01\x02hi\x03"));
    say_block(fx, S(ENTRY("b", "\x00") "\x04\x05"
                                       "go\x07"
                                       "ne"));
    say_end(fx, 0, STR_EMPTY);
    assert_ok(get(fx), &fx->e);
    assert_str(str_head(buf_str(&fx->got), 13), S("[a]hi<1>[b]<0"));
    assert_null(memchr(fx->got.p, '\x07', fx->got.len));
}

static void another_file_is_refused(void **state)
{
    struct fixture *fx = *state;
    say_block(fx, S(ENTRY("a", "\x02") "\x01\x02hi\x03" ENTRY("c", "\x00") "\x03"));
    fake_add(&fx->fake, 0, FAKE_LISTEN);
    assert_fails(get(fx), &fx->e, ERR_PROTOCOL, "not asked for");
    assert_null(strstr(fx->got.p, "[c]"));
}

static void more_than_it_announced_is_refused(void **state)
{
    struct fixture *fx = *state;
    say_block(fx, S(ENTRY("a", "\x02") "\x01\x03hi!\x03"));
    fake_add(&fx->fake, 0, FAKE_LISTEN);
    assert_fails(get(fx), &fx->e, ERR_PROTOCOL, "length");
}

static void fewer_files_are_refused(void **state)
{
    struct fixture *fx = *state;
    say_block(fx, S(ENTRY("a", "\x00") "\x03"));
    say_end(fx, 0, STR_EMPTY);
    fake_add(&fx->fake, 0, FAKE_LISTEN);
    assert_fails(get(fx), &fx->e, ERR_PROTOCOL, "fewer");
}

/* ---- a large file in parts ------------------------------------------------------------------- */

#define SIZE       ((uint64_t)PART_FILE_MIN)
#define RANGE      ((uint64_t)2 << 20)
#define RANGES     (SIZE / RANGE)
#define SIZE_BYTES "\x80\x80\x80\x10"
#define PARTS      "\x05"
#define DONE       "\x03"

static int no_lane(struct box *b, unsigned i)
{
    (void)b, (void)i;
    return AGENT_LANE_NONE;
}

static int got_hole(void *arg, uint64_t n, struct err *e)
{
    (void)e;
    buf_addf(&((struct fixture *)arg)->got, "(%llu)", (unsigned long long)n);
    return 0;
}

static int got_at(void *arg, uint64_t offset, struct err *e)
{
    (void)e;
    buf_addf(&((struct fixture *)arg)->got, "@%llu:", (unsigned long long)offset);
    return 0;
}

static void say_file(struct fixture *fx, uint64_t size, uint64_t mtime_ns)
{
    struct buf b;
    buf_init(&b, 1u << 20);
    struct wire_out w = wire_begin(&b, FRAME_TREE_FILE);
    wire_u64(&w, size);
    wire_u64(&w, mtime_ns);
    assert_true(wire_end(&w));
    fake_hello(&fx->fake, 1);
    fake_raw(&fx->fake, 1, buf_str(&b));
    buf_fini(&b);
}

static void add_piece(struct buf *b, uint64_t at, struct str bytes)
{
    struct wire_out w = wire_begin(b, FRAME_TREE_PIECE);
    wire_u64(&w, at);
    wire_u32(&w, 0);
    wire_str(&w, bytes);
    assert_true(wire_end(&w));
}

/* Says it when so many ranges were asked for. */
static void answer(struct fixture *fx, size_t wants, struct buf *pieces)
{
    for (size_t i = 0; i < wants; i++) {
        fake_hear(&fx->fake, 1, FRAME_TREE_WANT);
    }
    fake_raw(&fx->fake, 1, buf_str(pieces));
    buf_clear(pieces);
}

static int get_in_parts(struct fixture *fx)
{
    struct tree_sink to = {.entry = got_entry,
                           .data = got_data,
                           .hole = got_hole,
                           .at = got_at,
                           .done = got_done,
                           .arg = fx};
    const struct str paths[] = {S("a")};
    fx->fake.agent.lane = fx->lane != NULL ? fx->lane : no_lane;
    say_block(fx, S(ENTRY("a", SIZE_BYTES) PARTS DONE));
    say_end(fx, 0, STR_EMPTY);
    fake_add(&fx->fake, 0, FAKE_LISTEN);
    fake_add(&fx->fake, 1, FAKE_LISTEN);
    return trees_over_agent.get(fx->box, &fx->ctx, S("d"), paths, 1, &to, &fx->e);
}

static void parts_are_put_where_they_were_asked_for(void **state)
{
    struct fixture *fx = *state;
    struct frame f;
    struct buf pieces own_buf = {0};
    buf_init(&pieces, 1u << 20);
    say_file(fx, SIZE, 0);
    add_piece(&pieces, 5, S("hi"));
    /* Three ranges are asked for ahead. */
    for (uint64_t n = 1; n <= RANGES; n++) {
        add_piece(&pieces, n * RANGE, STR_EMPTY);
        if (n % 3 == 0 || n == RANGES) {
            answer(fx, n % 3 == 0 ? 3 : n % 3, &pieces);
        }
    }
    assert_ok(get_in_parts(fx), &fx->e);
    assert_true(str_starts(buf_str(&fx->got), S("[a]@0:(5)@5:hi@7:(2097145)@2097152:(2097152)@")));
    assert_true(str_ends(buf_str(&fx->got), S("(2097152)<1>")));
    fake_join(&fx->fake);
    assert_true(fake_heard(&fx->fake, 1, FRAME_TREE_WANT, RANGES - 1, &f));
    assert_false(fake_heard(&fx->fake, 1, FRAME_TREE_WANT, RANGES, &f));
}

static struct fixture *lent; /* whose second connection is the lane */
static sem_t is_lost;

static int one_lane(struct box *b, unsigned i)
{
    return i == 0 ? lent->fake.agent.connect(b, &lent->ctx, &lent->e) : AGENT_LANE_NONE;
}

/* It ends, and waits until that was noticed. */
static void end_lane(void *arg)
{
    char ignored[4096];
    int fd = *(int *)arg;
    (void)shutdown(fd, SHUT_WR);
    while (read(fd, ignored, sizeof ignored) > 0) {
    }
    (void)sem_post(&is_lost);
}

static void wait_for_end(void *arg)
{
    while (sem_wait(arg) < 0) {
    }
}

static void say_file_on(struct fixture *fx, size_t connection)
{
    struct buf b own_buf = {0};
    buf_init(&b, 1u << 20);
    struct wire_out w = wire_begin(&b, FRAME_TREE_FILE);
    wire_u64(&w, SIZE);
    wire_u64(&w, 0);
    assert_true(wire_end(&w));
    fake_hello(&fx->fake, connection);
    fake_raw(&fx->fake, connection, buf_str(&b));
}

/* A connection is lost when all of a range has come and only its end was not told. */
static void what_has_come_is_not_asked_for_again(void **state)
{
    static const unsigned asked[] = {0, 1, 2, 5, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    struct fixture *fx = *state;
    struct buf pieces own_buf = {0};
    struct fake_step *step;
    buf_init(&pieces, 1u << 20);
    lent = fx;
    assert_int_equal(sem_init(&is_lost, 0, 0), 0);
    say_file_on(fx, 1);
    say_file_on(fx, 2);
    for (int i = 0; i < 3; i++) {
        fake_hear(&fx->fake, 1, FRAME_TREE_WANT);
        fake_hear(&fx->fake, 2, FRAME_TREE_WANT);
    }
    add_piece(&pieces, 4 * RANGE - 1, S("x"));
    fake_raw(&fx->fake, 2, buf_str(&pieces));
    buf_clear(&pieces);
    step = fake_add(&fx->fake, 2, FAKE_CALL);
    step->call = end_lane;
    step->arg = &fx->fake.connections[2].fd;
    step = fake_add(&fx->fake, 1, FAKE_CALL);
    step->call = wait_for_end;
    step->arg = &is_lost;
    for (size_t i = 0; i < COUNTOF(asked); i++) {
        add_piece(&pieces, (asked[i] + 1) * RANGE, STR_EMPTY);
        if (i % 3 == 2) {
            answer(fx, i == 2 ? 0 : 3, &pieces);
        }
    }
    fx->lane = one_lane;
    assert_ok(get_in_parts(fx), &fx->e);
    assert_true(str_ends(buf_str(&fx->got), S("<1>")));
    fake_join(&fx->fake);
    (void)sem_destroy(&is_lost);
}

static void parts_that_were_not_asked_for_are_refused(void **state)
{
    const struct {
        uint64_t at;
        struct str bytes;
    } lies[] = {
        {2u << 20, S("x")},      {(2u << 20) - 1, S("xy")}, {UINT64_MAX, S("x")},
        {(2u << 20) - 1, S("")}, {4u << 20, S("")},
    };
    for (size_t i = 0; i < COUNTOF(lies); i++) {
        struct fixture *fx = *state;
        struct buf pieces own_buf = {0};
        buf_init(&pieces, 1u << 20);
        say_file(fx, SIZE, 0);
        add_piece(&pieces, lies[i].at, lies[i].bytes);
        answer(fx, 1, &pieces);
        assert_fails(get_in_parts(fx), &fx->e, ERR_PROTOCOL, "not asked for");
        assert_str(buf_str(&fx->got), S("[a]"));
        teardown(state);
        setup(state);
    }
}

static void parts_of_another_file_are_not_taken(void **state)
{
    struct fixture *fx = *state;
    say_file(fx, SIZE, 1);
    assert_ok(get_in_parts(fx), &fx->e);
    assert_str(buf_str(&fx->got), S("[a]<0it changed while it was read>"));
}

static void no_parts_come_unasked(void **state)
{
    struct fixture *fx = *state;
    say_block(fx, S(ENTRY("a", SIZE_BYTES) PARTS DONE));
    fake_add(&fx->fake, 0, FAKE_LISTEN);
    assert_fails(get(fx), &fx->e, ERR_PROTOCOL, "in parts");
}

static int endless_next(void *arg, struct tree_entry *out, struct err *e)
{
    static char name[32];
    (void)e;
    snprintf(name, sizeof name, "%08u", ++*(unsigned *)arg);
    *out = (struct tree_entry){.path = str_from(name), .type = TREE_DIR};
    return 1;
}

static void a_no_in_the_middle_of_a_put(void **state)
{
    struct fixture *fx = *state;
    unsigned n = 0;
    struct put_result out;
    struct tree_source from = {.next = endless_next, .arg = &n};
    struct buf b;
    fake_hear(&fx->fake, 0, FRAME_TREE_GIVE);
    buf_init(&b, 1u << 20);
    struct wire_out w = wire_begin(&b, FRAME_PUT_IS);
    for (uint64_t i = 1; i <= 5; i++) {
        wire_u64(&w, i);
    }
    wire_str(&w, S("x: why"));
    assert_true(wire_end(&w));
    say(fx, &b);
    fake_fail(&fx->fake, 0, ERR_LIMIT, "no space left");
    fake_add(&fx->fake, 0, FAKE_LISTEN);
    assert_fails(trees_over_agent.put(fx->box, &fx->ctx, S("d"), &from, &out, &fx->e), &fx->e,
                 ERR_LIMIT, "no space");
    assert_int_equal(out.files, 2);
    assert_int_equal(out.skipped, 5);
    assert_str(out.first_skipped, S("x: why"));
}

static void an_old_agent_is_named(void **state)
{
    struct fixture *fx = *state;
    fake_fini(&fx->fake);
    fake_init(&fx->fake);
    fake_hello_of(&fx->fake, 0, 1, 1);
    fake_fail(&fx->fake, 0, ERR_PROTOCOL, "unknown request 30; this agent speaks version 1");
    assert_fails(list(fx), &fx->e, ERR_UNSUPPORTED, "older anybox");
}

static void bad_roots_are_not_sent(void **state)
{
    struct fixture *fx = *state;
    struct tree_req req = {.root = S("a\0b")};
    assert_fails(trees_over_agent.list(fx->box, &fx->ctx, &req, got_entry, fx, &fx->facts, &fx->e),
                 &fx->e, ERR_INVALID, "NUL");
    assert_int_equal(fx->fake.n_opened, 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_listing_with_signs_of_life),
        T(paths_that_lead_out_or_back_are_refused),
        T(facts_that_cannot_be_right_are_refused),
        T(just_what_was_asked_for_is_taken),
        T(another_file_is_refused),
        T(more_than_it_announced_is_refused),
        T(fewer_files_are_refused),
        T(parts_are_put_where_they_were_asked_for),
        T(what_has_come_is_not_asked_for_again),
        T(parts_that_were_not_asked_for_are_refused),
        T(parts_of_another_file_are_not_taken),
        T(no_parts_come_unasked),
        T(a_no_in_the_middle_of_a_put),
        T(an_old_agent_is_named),
        T(bad_roots_are_not_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
