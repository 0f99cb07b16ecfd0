/* Signed texts, and the private file that their key is in. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "core/private.h"
#include "core/token.h"
#include "test.h"

struct fixture {
    char dir[64];
    struct arena arena;
    struct tokens *tokens;
};

static int set_up(void **state)
{
    struct fixture *fx = calloc(1, sizeof(*fx));

    (void)snprintf(fx->dir, sizeof(fx->dir), "/tmp/test-token-XXXXXX");
    assert_non_null(mkdtemp(fx->dir));
    arena_init(&fx->arena, 8u << 20);
    fx->tokens = tokens_new(str_from(fx->dir));
    *state = fx;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fx = *state;
    struct err e;

    tokens_free(fx->tokens);
    arena_fini(&fx->arena);
    assert_ok(fd_remove_tree(AT_FDCWD, fx->dir, &e), &e);
    free(fx);
    return 0;
}

static struct str make(struct fixture *fx, enum token_kind kind, struct str payload, int64_t in_ms)
{
    struct buf text own_buf = {0};
    struct err e;

    buf_init(&text, TOKEN_TEXT_MAX);
    assert_ok(token_make(fx->tokens, kind, payload, clock_wall_ms() + in_ms, &text, &e), &e);
    assert_false(text.cut);
    return arena_str(&fx->arena, buf_str(&text));
}

static const char *key_path(struct fixture *fx)
{
    return arena_printf(&fx->arena, "%s/token_key", fx->dir).p;
}

static void what_was_signed_comes_back(void **state)
{
    struct fixture *fx = *state;
    struct str payload = S("box\0/tmp/\xff"), got;
    struct str text = make(fx, TOKEN_FILE, payload, 60000);
    struct err e;

    assert_ok(token_read(fx->tokens, TOKEN_FILE, text, &fx->arena, &got, &e), &e);
    assert_str(got, payload);
    for (size_t i = 0; i < text.len; i++) {
        assert_true(text.p[i] > ' ' && text.p[i] < 0x7f && strchr("+/=", text.p[i]) == NULL);
    }
    assert_int_equal(make(fx, TOKEN_SESSION, STR_EMPTY, 1000).len, 28);
}

static void the_largest_payload_fits_and_no_larger_one(void **state)
{
    struct fixture *fx = *state;
    static char payload[TOKEN_PAYLOAD_MAX + 1];
    struct buf text own_buf = {0};
    struct str got;
    struct err e;

    memset(payload, 'x', sizeof(payload));
    got = make(fx, TOKEN_REQUEST, (struct str){payload, TOKEN_PAYLOAD_MAX}, 60000);
    assert_ok(token_read(fx->tokens, TOKEN_REQUEST, got, &fx->arena, &got, &e), &e);
    assert_int_equal(got.len, TOKEN_PAYLOAD_MAX);
    buf_init(&text, TOKEN_TEXT_MAX);
    assert_fails(token_make(fx->tokens, TOKEN_REQUEST, (struct str){payload, sizeof(payload)},
                            clock_wall_ms() + 1000, &text, &e),
                 &e, ERR_LIMIT, "2049");
}

static void no_changed_text_is_good(void **state)
{
    struct fixture *fx = *state;
    struct str text = make(fx, TOKEN_SESSION, S("2025-11-25"), 60000), got;
    struct err e;

    for (size_t i = 0; i < text.len; i++) {
        char changed[128];

        memcpy(changed, text.p, text.len);
        changed[i] = changed[i] == 'A' ? 'B' : 'A';
        assert_fails(token_read(fx->tokens, TOKEN_SESSION, (struct str){changed, text.len},
                                &fx->arena, &got, &e),
                     &e, ERR_DENIED, "signed");
    }
    for (size_t n = 0; n < text.len; n++) {
        assert_true(token_read(fx->tokens, TOKEN_SESSION, str_head(text, n), &fx->arena, &got, &e) <
                    0);
    }
    assert_fails(token_read(fx->tokens, TOKEN_SESSION,
                            arena_printf(&fx->arena, "%.*sAAAA", STR_ARG(text)), &fx->arena, &got,
                            &e),
                 &e, ERR_DENIED, "signed");
}

static void one_kind_is_not_another(void **state)
{
    struct fixture *fx = *state;
    struct str text = make(fx, TOKEN_FILE, S("x"), 60000), got;
    struct err e;

    assert_fails(token_read(fx->tokens, TOKEN_SESSION, text, &fx->arena, &got, &e), &e, ERR_DENIED,
                 "signed");
}

static void an_expired_text_says_so(void **state)
{
    struct fixture *fx = *state;
    struct str got;
    struct err e;

    assert_fails(token_read(fx->tokens, TOKEN_FILE, make(fx, TOKEN_FILE, S("x"), -2000), &fx->arena,
                            &got, &e),
                 &e, ERR_GONE, "expired");
    assert_fails(token_read(fx->tokens, TOKEN_FILE,
                            make(fx, TOKEN_FILE, S("x"), -clock_wall_ms() - 5), &fx->arena, &got,
                            &e),
                 &e, ERR_GONE, "expired");
    /* A time that no text can hold is the last one that it can. */
    assert_ok(token_read(fx->tokens, TOKEN_FILE, make(fx, TOKEN_FILE, S("x"), INT64_MAX / 2),
                         &fx->arena, &got, &e),
              &e);
}

static void another_process_reads_it_after_a_restart(void **state)
{
    struct fixture *fx = *state;
    struct str text = make(fx, TOKEN_SESSION, S("x"), 60000), got;
    struct stat st;
    struct err e;

    assert_int_equal(stat(key_path(fx), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_size, 32);
    tokens_free(fx->tokens);
    fx->tokens = tokens_new(str_from(fx->dir));
    assert_ok(token_read(fx->tokens, TOKEN_SESSION, text, &fx->arena, &got, &e), &e);
}

static void another_folder_does_not(void **state)
{
    struct fixture *fx = *state;
    struct str text = make(fx, TOKEN_SESSION, S("x"), 60000), got;
    struct err e;

    assert_int_equal(unlink(key_path(fx)), 0);
    tokens_free(fx->tokens);
    fx->tokens = tokens_new(str_from(fx->dir));
    assert_fails(token_read(fx->tokens, TOKEN_SESSION, text, &fx->arena, &got, &e), &e, ERR_DENIED,
                 "signed");
}

static void a_key_that_others_can_read_is_refused(void **state)
{
    struct fixture *fx = *state;
    struct str text = make(fx, TOKEN_SESSION, S("x"), 60000), got;
    struct err e;

    assert_int_equal(chmod(key_path(fx), 0640), 0);
    tokens_free(fx->tokens);
    fx->tokens = tokens_new(str_from(fx->dir));
    assert_fails(token_read(fx->tokens, TOKEN_SESSION, text, &fx->arena, &got, &e), &e, ERR_DENIED,
                 "chmod");
    /* The refusal is no verdict for ever. */
    assert_int_equal(chmod(key_path(fx), 0600), 0);
    assert_ok(token_read(fx->tokens, TOKEN_SESSION, text, &fx->arena, &got, &e), &e);
}

static void a_damaged_key_is_told(void **state)
{
    struct fixture *fx = *state;
    struct str got;
    struct err e;

    (void)make(fx, TOKEN_SESSION, S("x"), 60000);
    assert_int_equal(truncate(key_path(fx), 31), 0);
    tokens_free(fx->tokens);
    fx->tokens = tokens_new(str_from(fx->dir));
    assert_fails(token_read(fx->tokens, TOKEN_SESSION, S("x"), &fx->arena, &got, &e), &e,
                 ERR_INVALID, "damaged");
    assert_int_equal(unlink(key_path(fx)), 0);
    assert_int_equal(symlink("/etc/hostname", key_path(fx)), 0);
    assert_true(token_read(fx->tokens, TOKEN_SESSION, S("x"), &fx->arena, &got, &e) < 0);
}

struct racer {
    struct fixture *fx;
    pthread_t thread;
    char text[64];
};

static void *race(void *arg)
{
    struct racer *r = arg;
    struct tokens *own = tokens_new(str_from(r->fx->dir));
    struct buf text own_buf = {0};
    struct err e;

    buf_init(&text, sizeof(r->text) - 1);
    if (token_make(own, TOKEN_SESSION, S("race"), clock_wall_ms() + 60000, &text, &e) == 0) {
        memcpy(r->text, text.p, text.len);
    }
    tokens_free(own);
    return NULL;
}

/* Each has the key of its own, as separate processes would. */
static void many_that_begin_at_once_agree_on_one_key(void **state)
{
    struct fixture *fx = *state;
    struct racer racers[16];

    for (int round = 0; round < 10; round++) {
        (void)unlink(key_path(fx));
        tokens_free(fx->tokens);
        fx->tokens = tokens_new(str_from(fx->dir));
        for (size_t i = 0; i < COUNTOF(racers); i++) {
            racers[i] = (struct racer){.fx = fx};
            assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
        }
        for (size_t i = 0; i < COUNTOF(racers); i++) {
            (void)pthread_join(racers[i].thread, NULL);
        }
        for (size_t i = 0; i < COUNTOF(racers); i++) {
            struct str got;
            struct err e;

            assert_ok(token_read(fx->tokens, TOKEN_SESSION, str_from(racers[i].text), &fx->arena,
                                 &got, &e),
                      &e);
        }
    }
}

static void a_folder_that_others_can_write_is_refused(void **state)
{
    struct fixture *fx = *state;
    struct err e;

    assert_int_equal(chmod(fx->dir, 0720), 0);
    assert_fails(private_open(str_from(fx->dir), &e), &e, ERR_DENIED, "chmod");
    assert_int_equal(chmod(fx->dir, 0755), 0);
    int dir own_fd = private_open(str_from(fx->dir), &e);
    assert_true(dir >= 0);
}

static void private_files_are_made_once(void **state)
{
    struct fixture *fx = *state;
    struct str got;
    struct err e;
    int dir own_fd = private_open(str_from(fx->dir), &e);

    assert_true(dir >= 0);
    assert_fails(private_read(dir, "x", 100, &fx->arena, &got, &e), &e, ERR_NOT_FOUND, "x");
    assert_ok(private_make(dir, "x", S("one"), &e), &e);
    assert_fails(private_make(dir, "x", S("two"), &e), &e, ERR_EXISTS, "x");
    assert_ok(private_read(dir, "x", 3, &fx->arena, &got, &e), &e);
    assert_str(got, S("one"));
    assert_fails(private_read(dir, "x", 2, &fx->arena, &got, &e), &e, ERR_LIMIT, "2 bytes");
    assert_int_equal(unlinkat(dir, "x", 0), 0);
    assert_int_equal(mkfifoat(dir, "x", 0600), 0);
    assert_fails(private_read(dir, "x", 2, &fx->arena, &got, &e), &e, ERR_INVALID, "not a file");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_was_signed_comes_back),
        TEST(the_largest_payload_fits_and_no_larger_one),
        TEST(no_changed_text_is_good),
        TEST(one_kind_is_not_another),
        TEST(an_expired_text_says_so),
        TEST(another_process_reads_it_after_a_restart),
        TEST(another_folder_does_not),
        TEST(a_key_that_others_can_read_is_refused),
        TEST(a_damaged_key_is_told),
        TEST(many_that_begin_at_once_agree_on_one_key),
        TEST(a_folder_that_others_can_write_is_refused),
        TEST(private_files_are_made_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
