#include "agent/proto.h"
#include "agent/request.h"
#include "test.h"

struct fixture {
    struct arena arena;
    struct buf bytes;
};

static int set_up(void **state)
{
    struct fixture *x = calloc(1, sizeof(*x));

    arena_init(&x->arena, 16 << 20);
    buf_init(&x->bytes, 16 << 20);
    *state = x;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *x = *state;

    arena_fini(&x->arena);
    buf_fini(&x->bytes);
    free(x);
    return 0;
}

static int parse(struct fixture *x, struct request *out, struct err *e)
{
    struct frame f;

    assert_int_equal(wire_parse(buf_str(&x->bytes), &f, e), x->bytes.len);
    return request_parse(f, &x->arena, out, e);
}

static void write_exec(struct fixture *x, struct str argv0, struct str cwd, struct str env)
{
    const struct str argv[] = {argv0, S("-c"), S("true")};
    struct wire_out w;

    buf_clear(&x->bytes);
    w = wire_begin(&x->bytes, FRAME_EXEC);
    wire_str(&w, S("id1"));
    wire_list(&w, argv, 3);
    wire_str(&w, cwd);
    wire_list(&w, &env, 1);
    wire_u8(&w, 1);
    wire_u64(&w, 5000);
    wire_u32(&w, 200);
    assert_true(wire_end(&w));
}

static void exec_is_decoded(void **state)
{
    struct fixture *x = *state;
    struct request r;
    struct err e;

    write_exec(x, S("bash"), S("~/src"), S("A=b=c"));
    assert_ok(parse(x, &r, &e), &e);
    assert_int_equal(r.type, FRAME_EXEC);
    assert_str(r.id, S("id1"));
    assert_int_equal(r.n_argv, 3);
    assert_str(r.argv[2], S("true"));
    assert_str(r.cwd, S("~/src"));
    assert_int_equal(r.n_env, 1);
    assert_str(r.env[0], S("A=b=c"));
    assert_true(r.with_input);
    assert_int_equal(r.timeout_ms, 5000);
    assert_int_equal(r.grace_ms, 200);
}

static void exec_that_cannot_run_is_invalid(void **state)
{
    struct fixture *x = *state;
    struct request r;
    struct err e;

    write_exec(x, STR_EMPTY, S("/"), S("A=b"));
    assert_fails(parse(x, &r, &e), &e, ERR_INVALID, "argv is empty");
    write_exec(x, S("a\0b"), S("/"), S("A=b"));
    assert_fails(parse(x, &r, &e), &e, ERR_INVALID, "NUL");
    write_exec(x, S("a"), S("/\0"), S("A=b"));
    assert_fails(parse(x, &r, &e), &e, ERR_INVALID, "cwd");
    write_exec(x, S("a"), S("/"), S("novalue"));
    assert_fails(parse(x, &r, &e), &e, ERR_INVALID, "NAME=value");
    write_exec(x, S("a"), S("/"), S("=x"));
    assert_fails(parse(x, &r, &e), &e, ERR_INVALID, "NAME=value");
}

static void file_requests_are_decoded(void **state)
{
    struct fixture *x = *state;
    struct wire_out w = wire_begin(&x->bytes, FRAME_WRITE);
    struct request r;
    struct err e;

    wire_str(&w, S("a/b"));
    wire_u32(&w, 0640);
    wire_u8(&w, WRITE_PARENTS | WRITE_NEW);
    assert_true(wire_end(&w));
    assert_ok(parse(x, &r, &e), &e);
    assert_true(request_is_file(r.type));
    assert_str(r.path, S("a/b"));
    assert_int_equal(r.mode, 0640);
    assert_int_equal(r.flags, WRITE_PARENTS | WRITE_NEW);

    buf_clear(&x->bytes);
    w = wire_begin(&x->bytes, FRAME_MKDIR);
    wire_str(&w, STR_EMPTY);
    assert_true(wire_end(&w));
    assert_fails(parse(x, &r, &e), &e, ERR_INVALID, "empty");
}

static void a_port_is_a_port(void **state)
{
    static const uint32_t given[] = {1, 65535, 0, 65536, 65536 + 80};
    struct fixture *x = *state;
    struct request r;
    struct err e;

    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
        buf_clear(&x->bytes);
        struct wire_out w = wire_begin(&x->bytes, FRAME_TCP);
        wire_u32(&w, given[i]);
        assert_true(wire_end(&w));
        if (i < 2) {
            assert_ok(parse(x, &r, &e), &e);
            assert_int_equal(r.port, given[i]);
        } else {
            assert_fails(parse(x, &r, &e), &e, ERR_INVALID, "65535");
        }
    }
}

static void a_socket_has_a_path(void **state)
{
    struct fixture *x = *state;
    struct request r;
    struct err e;
    struct wire_out w = wire_begin(&x->bytes, FRAME_UNIX);

    wire_str(&w, S("~/.anybox/socket"));
    assert_true(wire_end(&w));
    assert_ok(parse(x, &r, &e), &e);
    assert_str(r.path, S("~/.anybox/socket"));
    assert_true(request_is_dial(r.type) && !request_is_file(r.type));
    buf_clear(&x->bytes);
    w = wire_begin(&x->bytes, FRAME_UNIX);
    wire_str(&w, STR_EMPTY);
    assert_true(wire_end(&w));
    assert_fails(parse(x, &r, &e), &e, ERR_INVALID, "empty");
    buf_clear(&x->bytes);
    w = wire_begin(&x->bytes, FRAME_UNIX);
    wire_str(&w, S("a\0b"));
    assert_true(wire_end(&w));
    assert_fails(parse(x, &r, &e), &e, ERR_INVALID, "NUL");
}

static void what_cannot_be_read_is_a_protocol_error(void **state)
{
    struct fixture *x = *state;
    struct wire_out w = wire_begin(&x->bytes, 200);
    struct request r;
    struct err e;

    assert_true(wire_end(&w));
    assert_fails(parse(x, &r, &e), &e, ERR_PROTOCOL, "unknown request 200");

    buf_clear(&x->bytes);
    w = wire_begin(&x->bytes, FRAME_USAGE);
    wire_u8(&w, 1);
    assert_true(wire_end(&w));
    assert_fails(parse(x, &r, &e), &e, ERR_PROTOCOL, "late");

    buf_clear(&x->bytes);
    w = wire_begin(&x->bytes, FRAME_ATTACH);
    wire_str(&w, S("id"));
    assert_true(wire_end(&w));
    assert_fails(parse(x, &r, &e), &e, ERR_PROTOCOL, "early");
}

static void too_much_is_refused(void **state)
{
    struct fixture *x = *state;
    char *big = calloc(1, DATA_MAX + 1);
    struct wire_out w = wire_begin(&x->bytes, FRAME_INPUT);
    struct request r;
    struct err e;

    wire_str(&w, (struct str){big, DATA_MAX + 1});
    assert_true(wire_end(&w));
    assert_fails(parse(x, &r, &e), &e, ERR_PROTOCOL, "at most");

    memset(big, 'a', DATA_MAX);
    buf_clear(&x->bytes);
    w = wire_begin(&x->bytes, FRAME_STATE);
    wire_str(&w, (struct str){big, ID_MAX + 1});
    assert_true(wire_end(&w));
    assert_fails(parse(x, &r, &e), &e, ERR_INVALID, "an id");

    buf_clear(&x->bytes);
    w = wire_begin(&x->bytes, FRAME_REMOVE);
    wire_str(&w, (struct str){big, PATH_MAX_BYTES});
    assert_true(wire_end(&w));
    assert_fails(parse(x, &r, &e), &e, ERR_INVALID, "a path");
    free(big);
}

static void write_list(struct fixture *x, struct str root, uint8_t flags, struct str digest)
{
    const struct str excludes[] = {S("*.o"), S("!x")};
    struct wire_out w;

    buf_clear(&x->bytes);
    w = wire_begin(&x->bytes, FRAME_TREE_LIST);
    wire_str(&w, root);
    wire_u8(&w, flags);
    wire_str(&w, digest);
    wire_list(&w, excludes, 2);
    assert_true(wire_end(&w));
}

static void trees_are_decoded(void **state)
{
    struct fixture *x = *state;
    struct request r;
    struct err e;
    struct wire_out w;
    char digest[32] = {1};

    write_list(x, S("src"), TREE_SUMS, (struct str){digest, 32});
    assert_ok(parse(x, &r, &e), &e);
    assert_true(request_is_file(r.type));
    assert_str(r.path, S("src"));
    assert_int_equal(r.flags, TREE_SUMS);
    assert_int_equal(r.digest.len, 32);
    assert_int_equal(r.n_excludes, 2);
    assert_str(r.excludes[1], S("!x"));
    write_list(x, S(""), 0, STR_EMPTY);
    assert_fails(parse(x, &r, &e), &e, ERR_INVALID, "empty");
    write_list(x, S("a"), 64, STR_EMPTY);
    assert_fails(parse(x, &r, &e), &e, ERR_PROTOCOL, "does not know");
    write_list(x, S("a"), 0, S("short"));
    assert_fails(parse(x, &r, &e), &e, ERR_PROTOCOL, "does not know");
    buf_clear(&x->bytes);
    w = wire_begin(&x->bytes, FRAME_TREE_GIVE);
    wire_u32(&w, (64u << 10) + 1);
    wire_str(&w, S("x"));
    assert_true(wire_end(&w));
    assert_fails(parse(x, &r, &e), &e, ERR_PROTOCOL, "at most");
}

int main(void)
{
#define WITH(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH(exec_is_decoded),
        WITH(exec_that_cannot_run_is_invalid),
        WITH(file_requests_are_decoded),
        WITH(trees_are_decoded),
        WITH(a_port_is_a_port),
        WITH(a_socket_has_a_path),
        WITH(what_cannot_be_read_is_a_protocol_error),
        WITH(too_much_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
