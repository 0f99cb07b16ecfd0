#include "provider/provider.h"
#include "test.h"

/* A provider that has nothing but what it must have. */
struct bare {
    struct provider provider;
    struct box box;
    int released;
    enum err_kind fail_with;
};

static int bare_exec(struct box *b, const struct ctx *ctx, const struct exec_req *req,
                     const struct sink *output, struct exec_result *out, struct err *e)
{
    (void)ctx, (void)req, (void)output, (void)out;
    struct bare *bare = CONTAINER_OF(b, struct bare, box);
    return err_set(e, bare->fail_with, "it happened");
}

static void bare_release(struct box *b)
{
    CONTAINER_OF(b, struct bare, box)->released++;
}

static const struct provider_ops bare_ops = {
    .type = "bare",
    .exec = bare_exec,
    .release = bare_release,
};

static void bare_init(struct bare *b)
{
    *b = (struct bare){.provider = {.ops = &bare_ops, .name = S("mine")}};
    b->box.provider = &b->provider;
    b->box.ref = S("0123456789abcdef0123456789abcdef");
    atomic_init(&b->box.refs, 1);
}

static void test_missing_groups(void **state)
{
    (void)state;
    struct bare b;
    bare_init(&b);
    struct ctx ctx = {0};
    struct err e;
    struct usage usage;
    struct file_info file;
    const struct box_spec spec = {0};

    assert_null(provider_create(&b.provider, &ctx, &spec, &e));
    assert_int_equal(e.kind, ERR_UNSUPPORTED);
    assert_non_null(strstr(e.msg, "\"mine\" (bare) cannot make sandboxes"));
    assert_fails(box_destroy(&b.box, &ctx, &e), &e, ERR_UNSUPPORTED, "delete");
    assert_fails(box_extend(&b.box, &ctx, 1, &e), &e, ERR_UNSUPPORTED, "lifetime");
    assert_fails(box_task_kill(&b.box, &ctx, S("t"), 0, &e), &e, ERR_UNSUPPORTED, "stop");
    assert_fails(box_task_state(&b.box, &ctx, S("t"), NULL, NULL, &e), &e, ERR_UNSUPPORTED,
                 "state");
    assert_fails(box_file_stat(&b.box, &ctx, S("f"), &file, &e), &e, ERR_UNSUPPORTED, "files");
    assert_fails(box_file_mkdir(&b.box, &ctx, S("f"), &e), &e, ERR_UNSUPPORTED, "files");
    assert_fails(box_usage(&b.box, &ctx, &usage, &e), &e, ERR_UNSUPPORTED, "measure");
    assert_fails(provider_doctor(&b.provider, &ctx, NULL, NULL, &e), &e, ERR_UNSUPPORTED,
                 "examine");
    assert_int_equal(provider_sweep(&b.provider, &ctx, &e), 0);
}

static void test_box_is_named_where_it_helps(void **state)
{
    (void)state;
    struct bare b;
    bare_init(&b);
    struct ctx ctx = {0};
    struct err e;
    const struct exec_req req = {0};
    struct exec_result result;

    b.fail_with = ERR_GONE;
    assert_fails(box_exec(&b.box, &ctx, &req, NULL, &result, &e), &e, ERR_GONE, "");
    assert_string_equal(e.msg, "sandbox 0123456789ab: it happened");
    b.fail_with = ERR_NOT_FOUND;
    assert_fails(box_exec(&b.box, &ctx, &req, NULL, &result, &e), &e, ERR_NOT_FOUND, "");
    assert_string_equal(e.msg, "it happened");
}

static void test_references(void **state)
{
    (void)state;
    struct bare b;
    bare_init(&b);
    assert_ptr_equal(box_ref(&b.box), &b.box);
    box_unref(&b.box);
    assert_int_equal(b.released, 0);
    box_unref(&b.box);
    assert_int_equal(b.released, 1);
    box_unref(NULL);
}

static void test_registry(void **state)
{
    (void)state;
    assert_null(provider_type(S("nothing")));
    assert_null(provider_type(STR_EMPTY));
    for (size_t i = 0; provider_types[i] != NULL; i++) {
        assert_ptr_equal(provider_type(str_from(provider_types[i]->type)), provider_types[i]);
        if (i > 0) {
            assert_true(strcmp(provider_types[i - 1]->type, provider_types[i]->type) < 0);
        }
    }
#if HAVE_LOCAL
    assert_non_null(provider_type(S("local")));
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_groups),
        cmocka_unit_test(test_box_is_named_where_it_helps),
        cmocka_unit_test(test_references),
        cmocka_unit_test(test_registry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
