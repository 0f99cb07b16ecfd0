#include "boxinit/child.h"
#include "test.h"

static void free_list(char **items)
{
    for (size_t i = 0; items[i] != NULL; i++) {
        free(items[i]);
    }
    free(items);
}

/* The parts that child_get_order() leaves to exec. */
static void free_order(struct child_order *o)
{
    union {
        const char *const *in;
        char **out;
    } files = {.in = o->files};
    union {
        const char *in;
        char *out;
    } cwd = {.in = o->cwd};

    free(cwd.out);
    free_list(files.out);
    free_list(o->argv);
    free_list(o->env);
}

static void an_order_comes_back(void **state)
{
    char texts[][8] = {"sh", "", "=.", "a\nb", "A=1", "E="};
    char *argv[] = {texts[0], texts[1], texts[2], texts[3], NULL};
    char *env[] = {texts[4], texts[5], NULL};
    const char *files[] = {"/usr/bin/sh", "/bin/sh", NULL};
    struct child_order in = {argv, env, files, "/workspace", true};
    struct child_order out = {0};
    struct buf b own_buf = {0};

    (void)state;
    buf_init(&b, 1000);
    child_put_order(&b, &in);
    assert_true(child_get_order(buf_str(&b), &out));
    assert_true(out.with_input);
    assert_string_equal(out.cwd, "/workspace");
    for (int i = 0; i < 4; i++) {
        assert_string_equal(out.argv[i], argv[i]);
    }
    assert_null(out.argv[4]);
    assert_string_equal(out.env[1], "E=");
    assert_null(out.env[2]);
    assert_string_equal(out.files[1], "/bin/sh");
    assert_null(out.files[2]);
    free_order(&out);
}

static void a_cut_order_is_refused(void **state)
{
    char program[] = "true";
    char *argv[] = {program, NULL};
    char *env[] = {NULL};
    const char *files[] = {"/bin/true", NULL};
    struct child_order in = {argv, env, files, "/", false};
    struct buf b own_buf = {0};

    (void)state;
    buf_init(&b, 1000);
    child_put_order(&b, &in);
    for (size_t n = 0; n < b.len; n++) {
        struct child_order out = {0};
        bool ok = child_get_order((struct str){b.p, n}, &out);

        assert_false(ok);
        if (out.files != NULL) {
            free_order(&out);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_order_comes_back),
        cmocka_unit_test(a_cut_order_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
