/* API keys: made, kept as hashes, found, taken back. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "serve/http/keys.h"
#include "test.h"

struct fixture {
    char dir[64];
    struct arena arena;
    struct config config;
};

static int set_up(void **state)
{
    struct fixture *fx = calloc(1, sizeof(*fx));

    (void)snprintf(fx->dir, sizeof(fx->dir), "/tmp/test-keys-XXXXXX");
    assert_non_null(mkdtemp(fx->dir));
    arena_init(&fx->arena, 32u << 20);
    fx->config.state_dir = str_from(fx->dir);
    *state = fx;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fx = *state;
    struct err e;

    arena_fini(&fx->arena);
    assert_ok(fd_remove_tree(AT_FDCWD, fx->dir, &e), &e);
    free(fx);
    return 0;
}

static struct str add(struct fixture *fx, const char *name)
{
    struct buf key own_buf = {0};
    struct err e;

    buf_init(&key, 200);
    assert_ok(keys_add(&fx->config, str_from(name), &key, &e), &e);
    return arena_str(&fx->arena, buf_str(&key));
}

static struct keys *open_keys(struct fixture *fx)
{
    struct err e = {0};
    struct keys *k = keys_open(&fx->config, &e);

    if (k == NULL) {
        fail_msg("%s", e.msg);
    }
    return k;
}

static const char *path(struct fixture *fx, const char *name)
{
    return arena_printf(&fx->arena, "%s/%s", fx->dir, name).p;
}

static void the_first_key_is_made_once(void **state)
{
    struct fixture *fx = *state;
    struct buf first own_buf = {0}, second own_buf = {0};
    struct keys *k = open_keys(fx);
    char name[KEY_NAME_MAX + 1];
    struct stat st;
    struct str file;
    bool made;
    struct err e;

    buf_init(&first, 200);
    buf_init(&second, 200);
    assert_int_equal(keys_count(k), 0);
    assert_false(keys_check(k, S("abx_anything"), name));
    assert_false(keys_check(k, S(""), name));
    assert_ok(keys_need_one(k, &first, &made, &e), &e);
    assert_true(made);
    assert_true(str_starts(buf_str(&first), S("abx_")));
    assert_int_equal(first.len, 36);
    assert_true(keys_check(k, buf_str(&first), name));
    assert_string_equal(name, "default");
    assert_ok(keys_need_one(k, &second, &made, &e), &e);
    assert_false(made);
    assert_int_equal(second.len, 0);
    keys_close(k);

    assert_int_equal(stat(path(fx, "http_keys"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_ok(fd_read_file(AT_FDCWD, path(fx, "http_keys"), 4096, &fx->arena, &file, &e), &e);
    assert_null(strstr(file.p, first.p + 4));
}

static void a_key_is_the_whole_key(void **state)
{
    struct fixture *fx = *state;
    struct str key = add(fx, "ci");
    struct keys *k = open_keys(fx);
    char name[KEY_NAME_MAX + 1] = "untouched";

    assert_false(keys_check(k, str_head(key, key.len - 1), name));
    assert_false(keys_check(k, arena_printf(&fx->arena, "%.*sx", STR_ARG(key)), name));
    assert_false(keys_check(k, str_skip(key, 4), name));
    assert_string_equal(name, "untouched");
    assert_true(keys_check(k, key, name));
    assert_string_equal(name, "ci");
    keys_close(k);
}

static void a_running_server_notices_changes(void **state)
{
    struct fixture *fx = *state;
    struct keys *k = open_keys(fx);
    struct str one = add(fx, "one"), two;
    char name[KEY_NAME_MAX + 1];
    struct err e;

    assert_true(keys_check(k, one, name));
    assert_true(keys_has(k, S("one")));
    assert_false(keys_has(k, S("two")));
    two = add(fx, "two");
    assert_true(keys_has(k, S("two")));
    assert_true(keys_check(k, two, name));
    assert_string_equal(name, "two");
    assert_ok(keys_remove(&fx->config, S("one"), &e), &e);
    assert_false(keys_has(k, S("one")));
    assert_false(keys_check(k, one, name));
    assert_true(keys_check(k, two, name));
    assert_int_equal(chmod(path(fx, "http_keys"), 0644), 0);
    assert_false(keys_check(k, two, name));
    assert_int_equal(chmod(path(fx, "http_keys"), 0600), 0);
    assert_true(keys_check(k, two, name));
    assert_int_equal(unlink(path(fx, "http_keys")), 0);
    assert_false(keys_check(k, two, name));
    keys_close(k);
}

static void names_are_unique_and_plain(void **state)
{
    struct fixture *fx = *state;
    static const char *const wrong[] = {
        "",
        "a b",
        "a:b",
        "a/b",
        "caf\xc3\xa9",
        "a\n",
        "x1234567890123456789012345678901234567890123456789012345678901234",
    };
    struct buf key own_buf = {0};
    struct err e;

    buf_init(&key, 200);
    (void)add(fx, "ci");
    assert_fails(keys_add(&fx->config, S("ci"), &key, &e), &e, ERR_EXISTS, "ci");
    (void)add(fx, "CI");
    for (size_t i = 0; i < COUNTOF(wrong); i++) {
        assert_fails(keys_add(&fx->config, str_from(wrong[i]), &key, &e), &e, ERR_INVALID, "name");
    }
    assert_int_equal(key.len, 0);
    assert_fails(keys_remove(&fx->config, S("nobody"), &e), &e, ERR_NOT_FOUND, "nobody");
}

static void lists_them_by_name(void **state)
{
    struct fixture *fx = *state;
    const struct key *all;
    size_t n = 0;
    struct err e;

    fx->config.http_keys = S("middle:0123456789abcdef");
    (void)add(fx, "z");
    (void)add(fx, "a");
    all = keys_list(&fx->config, &fx->arena, &n, &e);
    assert_non_null(all);
    assert_int_equal(n, 3);
    assert_string_equal(all[0].name, "a");
    assert_string_equal(all[1].name, "middle");
    assert_string_equal(all[2].name, "z");
    assert_true(all[1].configured);
    assert_false(all[0].configured);
    assert_true(all[0].created_ms > 0);
}

static void configured_keys_are_good_too(void **state)
{
    struct fixture *fx = *state;
    struct buf key own_buf = {0};
    struct keys *k;
    char name[KEY_NAME_MAX + 1];
    bool made;
    struct err e;

    buf_init(&key, 200);
    fx->config.http_keys = S("ops:0123456789abcdef==, 0123456789abcdeX");
    k = open_keys(fx);
    assert_true(keys_check(k, S("0123456789abcdef=="), name));
    assert_string_equal(name, "ops");
    assert_true(keys_check(k, S("0123456789abcdeX"), name));
    assert_string_equal(name, "config");
    assert_ok(keys_need_one(k, &key, &made, &e), &e);
    assert_false(made);
    keys_close(k);
    assert_fails(keys_add(&fx->config, S("ops"), &key, &e), &e, ERR_EXISTS, "ops");
    assert_fails(keys_remove(&fx->config, S("ops"), &e), &e, ERR_UNSUPPORTED, "configuration");
}

static void wrong_configured_keys_are_told_without_the_key(void **state)
{
    static const struct {
        const char *keys, *word;
    } wrong[] = {
        {"ops:tooshort", "16"},
        {"tooshort", "config"},
        {"a b:0123456789abcdef", "name"},
        {":0123456789abcdef", "name"},
        {"x:0123456789abcdef secret", "x"},
        {"x:0123456789abcdef,x:0123456789abcdeg", "two keys"},
    };
    struct fixture *fx = *state;
    struct err e;

    for (size_t i = 0; i < COUNTOF(wrong); i++) {
        fx->config.http_keys = str_from(wrong[i].keys);
        e.msg[0] = '\0';
        assert_null(keys_open(&fx->config, &e));
        if (strstr(e.msg, wrong[i].word) == NULL || strstr(e.msg, "tooshort") != NULL ||
            strstr(e.msg, "0123456789") != NULL) {
            fail_msg("%s: %s", wrong[i].keys, e.msg);
        }
    }
}

static void a_name_of_both_is_told_and_can_be_removed(void **state)
{
    struct fixture *fx = *state;
    struct err e;

    (void)add(fx, "ops");
    fx->config.http_keys = S("ops:0123456789abcdef");
    assert_null(keys_open(&fx->config, &e));
    assert_non_null(strstr(e.msg, "anybox key rm ops"));
    assert_ok(keys_remove(&fx->config, S("ops"), &e), &e);
    keys_close(open_keys(fx));
}

static void a_key_file_must_be_private(void **state)
{
    struct fixture *fx = *state;
    char name[KEY_NAME_MAX + 1];
    struct keys *k;
    struct err e;

    fx->config.http_key_file = str_from(path(fx, "extra"));
    assert_null(keys_open(&fx->config, &e));
    assert_int_equal(e.kind, ERR_NOT_FOUND);
    assert_ok(fd_replace_file(AT_FDCWD, path(fx, "extra"),
                              S("# ours\n\n a:0123456789abcdef \nb:0123456789abcdeg\n"), 0600, &e),
              &e);
    k = open_keys(fx);
    assert_true(keys_check(k, S("0123456789abcdeg"), name));
    assert_string_equal(name, "b");
    keys_close(k);
    assert_int_equal(chmod(path(fx, "extra"), 0604), 0);
    assert_null(keys_open(&fx->config, &e));
    assert_int_equal(e.kind, ERR_DENIED);
}

static void a_damaged_file_names_the_line(void **state)
{
    static const char *const wrong[] = {"ci\n", "ci abc 1\n", "ci  1\n", " \n", "a b c d\n"};
    struct fixture *fx = *state;
    struct err e;

    for (size_t i = 0; i < COUNTOF(wrong); i++) {
        (void)unlink(path(fx, "http_keys"));
        (void)add(fx, "good");
        int fd own_fd = open(path(fx, "http_keys"), O_WRONLY | O_APPEND | O_CLOEXEC);
        assert_ok(fd_write_all(fd, str_from(wrong[i]), &e), &e);
        assert_null(keys_open(&fx->config, &e));
        if (strstr(e.msg, "line 2") == NULL) {
            fail_msg("%s: %s", wrong[i], e.msg);
        }
    }
}

struct racer {
    struct fixture *fx;
    pthread_t thread;
    bool made, failed;
};

static void *race(void *arg)
{
    struct racer *r = arg;
    struct buf key own_buf = {0};
    struct err e;
    struct keys *k = keys_open(&r->fx->config, &e);

    buf_init(&key, 200);
    r->failed = k == NULL || keys_need_one(k, &key, &r->made, &e) < 0;
    keys_close(k);
    return NULL;
}

static void servers_that_start_at_once_make_one_key(void **state)
{
    struct fixture *fx = *state;
    struct racer racers[8];
    int made = 0;

    for (size_t i = 0; i < COUNTOF(racers); i++) {
        racers[i] = (struct racer){.fx = fx};
        assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
    }
    for (size_t i = 0; i < COUNTOF(racers); i++) {
        (void)pthread_join(racers[i].thread, NULL);
        assert_false(racers[i].failed);
        made += racers[i].made ? 1 : 0;
    }
    assert_int_equal(made, 1);
}

static void an_owner_is_named_after_its_key(void **state)
{
    char owner[KEY_OWNER_SIZE];
    char name[KEY_NAME_MAX + 1];

    (void)state;
    assert_string_equal(key_owner("ci", owner), "key:ci");
    memset(name, 'x', KEY_NAME_MAX);
    name[KEY_NAME_MAX] = '\0';
    assert_int_equal(strlen(key_owner(name, owner)), KEY_NAME_MAX + 4);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_first_key_is_made_once),
        TEST(a_key_is_the_whole_key),
        TEST(a_running_server_notices_changes),
        TEST(names_are_unique_and_plain),
        TEST(lists_them_by_name),
        TEST(configured_keys_are_good_too),
        TEST(wrong_configured_keys_are_told_without_the_key),
        TEST(a_name_of_both_is_told_and_can_be_removed),
        TEST(a_key_file_must_be_private),
        TEST(a_damaged_file_names_the_line),
        TEST(servers_that_start_at_once_make_one_key),
        TEST(an_owner_is_named_after_its_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
