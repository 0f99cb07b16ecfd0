/* Whole trees over the agent's protocol, against agents that lie, are old or go away. What an
 * honest one does is in boxinit/test_trees.c. */
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
        T(a_no_in_the_middle_of_a_put),
        T(an_old_agent_is_named),
        T(bad_roots_are_not_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
