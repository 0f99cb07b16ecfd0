/* What people type, and how we say things to them. */
#include <unistd.h>

#include "cli.h"
#include "test.h"

struct typed {
    struct str image;
    int64_t memory, pids, timeout_ms, cpus;
    bool json;
    struct cli_env env;
};

/* Parses the words behind a command's name; the sentence about a mistake is in `said`. */
static int parse(struct typed *t, struct cli *cli, int *status, struct buf *said,
                 const char *const *words)
{
    const struct opt opts[] = {
        {"--image", OPT_TEXT, &t->image},  {"--memory", OPT_SIZE, &t->memory},
        {"--pids", OPT_INTEGER, &t->pids}, {"--timeout", OPT_SECONDS, &t->timeout_ms},
        {"--cpus", OPT_CPUS, &t->cpus},    {"--json", OPT_FLAG, &t->json},
        {"--env", OPT_ENV, &t->env},
    };
    /* What was parsed points into the words: they hold until the next call. */
    static char text[32][64];
    char *argv[32] = {text[0]};
    int argc = 1;
    int fds[2];

    for (; words[argc - 1] != NULL; argc++) {
        (void)snprintf(text[argc], sizeof(text[argc]), "%s", words[argc - 1]);
        argv[argc] = text[argc];
    }
    assert_int_equal(pipe(fds), 0);
    int old = dup(STDERR_FILENO);
    assert_int_equal(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
    (void)close(fds[1]);
    int at = cli_options(cli, opts, COUNTOF(opts), argc, argv, status);
    (void)fflush(stderr);
    assert_int_equal(dup2(old, STDERR_FILENO), STDERR_FILENO);
    (void)close(old);
    buf_init(said, 4096);
    ssize_t n = read(fds[0], buf_room(said, 4000), 4000);
    assert_true(n >= 0);
    said->len = (size_t)n;
    buf_addc(said, '\0');
    (void)close(fds[0]);
    return at;
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void options_end_at_the_first_other_word(void **state)
{
    struct typed t = {0};
    struct cli cli = {0};
    struct buf said own_buf = {0};
    int status = -1;

    (void)state;
    int at = parse(&t, &cli, &status, &said,
                   WORDS("--memory", "512m", "--json", "python3", "-c", "--memory"));
    assert_int_equal(at, 4);
    assert_int_equal(t.memory, 512 << 20);
    assert_true(t.json);
    assert_int_equal(said.len, 1);
}

static void two_dashes_end_options(void **state)
{
    struct typed t = {0};
    struct cli cli = {0};
    struct buf said own_buf = {0};
    int status = -1;

    (void)state;
    assert_int_equal(parse(&t, &cli, &status, &said, WORDS("--json", "--", "--json")), 3);
    buf_fini(&said);
    assert_int_equal(parse(&t, &cli, &status, &said, WORDS("--json")), 2);
}

static void values_may_follow_an_equals_sign(void **state)
{
    struct typed t = {0};
    struct cli cli = {0};
    struct buf said own_buf = {0};
    int status = -1;

    (void)state;
    int at = parse(&t, &cli, &status, &said,
                   WORDS("--image=a=b", "--timeout=1.5", "--cpus=0.25", "--env=A=1", "--env",
                         "B=", "--toolset=all", "--config", "x.toml"));
    assert_int_equal(at, 10);
    assert_str(t.image, S("a=b"));
    assert_int_equal(t.timeout_ms, 1500);
    assert_int_equal(t.cpus, 250);
    assert_int_equal(t.env.n, 2);
    assert_str(t.env.items[0], S("A=1"));
    assert_str(t.env.items[1], S("B="));
    assert_str(cli.flags.toolset, S("all"));
    assert_str(cli.flags.config_file, S("x.toml"));
}

static void what_is_wrong_is_said_in_a_sentence(void **state)
{
    static const struct {
        const char *words[3];
        const char *mentions;
    } rows[] = {
        {{"--memry", "1"}, "did you mean --memory?"},
        {{"--frobnicate"}, "there is no option --frobnicate"},
        {{"-x"}, "there is no option -x"},
        {{"--memory"}, "--memory needs a value"},
        {{"--memory", "lots"}, "lots"},
        {{"--json=1"}, "--json takes no value"},
        {{"--pids", "0"}, "--pids"},
        {{"--pids", "99999999999"}, "--pids"},
        {{"--timeout", "0"}, "0.001"},
        {{"--timeout", "-3"}, "0.001"},
        {{"--timeout", "nan"}, "--timeout"},
        {{"--cpus", "2000"}, "1024"},
        {{"--env", "novalue"}, "KEY=VALUE"},
        {{"--env", "=x"}, "KEY=VALUE"},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        struct typed t = {0};
        struct cli cli = {0};
        struct buf said own_buf = {0};
        int status = -1;

        assert_int_equal(parse(&t, &cli, &status, &said, rows[i].words), -1);
        assert_int_equal(status, EXIT_USAGE);
        if (strstr(said.p, rows[i].mentions) == NULL) {
            fail_msg("%s: \"%s\" does not mention \"%s\"", rows[i].words[0], said.p,
                     rows[i].mentions);
        }
        assert_non_null(strstr(said.p, "Try: anybox help"));
    }
}

static void too_many_variables_are_refused(void **state)
{
    struct typed t = {.env.n = CLI_ENV_MAX};
    struct cli cli = {0};
    struct buf said own_buf = {0};
    int status = -1;

    (void)state;
    assert_int_equal(parse(&t, &cli, &status, &said, WORDS("--env", "A=1")), -1);
    assert_non_null(strstr(said.p, "at most 256"));
}

static void spans_and_sizes_read_well(void **state)
{
    struct arena a own_arena = {0};

    (void)state;
    arena_init(&a, 1 << 20);
    assert_str(cli_span(&a, -5), S("0s"));
    assert_str(cli_span(&a, 59), S("59s"));
    assert_str(cli_span(&a, 60), S("1m"));
    assert_str(cli_span(&a, 7200), S("2h"));
    assert_str(cli_span(&a, 47 * 3600), S("47h"));
    assert_str(cli_span(&a, 48 * 3600), S("2d"));
    assert_str(cli_size(&a, 512), S("512 B"));
    assert_str(cli_size(&a, 512 << 20), S("512 MiB"));
    assert_str(cli_size(&a, 3ll << 29), S("1.5 GiB"));
}

static void text_of_a_box_stays_on_its_line(void **state)
{
    struct buf b own_buf = {0};

    (void)state;
    buf_init(&b, 1024);
    cli_plain(&b, S("a\033[31mb\nc\td\033]52;c;x\a"));
    assert_str(buf_str(&b), S("ab c d"));
    buf_clear(&b);
    cli_cell(&b, S("\xc3\xa9t\xc3\xa9"), 5);
    assert_str(buf_str(&b), S("\xc3\xa9t\xc3\xa9  "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_end_at_the_first_other_word),
        cmocka_unit_test(two_dashes_end_options),
        cmocka_unit_test(values_may_follow_an_equals_sign),
        cmocka_unit_test(what_is_wrong_is_said_in_a_sentence),
        cmocka_unit_test(too_many_variables_are_refused),
        cmocka_unit_test(spans_and_sizes_read_well),
        cmocka_unit_test(text_of_a_box_stays_on_its_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
