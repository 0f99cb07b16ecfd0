/* The lines that people paste must survive any path. */
#include "demo.h"
#include "test.h"

static void mentions(const char *path, const char *line)
{
    struct buf text own_buf = {0};

    buf_init(&text, 1 << 16);
    demo_clients(&text, str_from(path));
    if (strstr(text.p, line) == NULL) {
        fail_msg("not there: %s\nin: %s", line, text.p);
    }
}

static void plain_paths_are_not_quoted(void **state)
{
    (void)state;
    mentions("/usr/bin/anybox", "claude mcp add anybox -- /usr/bin/anybox\n");
    mentions("/usr/bin/anybox", "codex mcp add anybox -- /usr/bin/anybox\n");
    mentions("/usr/bin/anybox", "command = \"/usr/bin/anybox\"\n");
    mentions("/usr/bin/anybox",
             "{\"mcpServers\": {\"anybox\": {\"command\": \"/usr/bin/anybox\"}}}\n");
    mentions("/usr/bin/anybox", "code --add-mcp '{\"name\":\"anybox\",\"command\":\"/usr/bin/"
                                "anybox\"}'\n");
}

static void odd_paths_are_quoted_for_the_shell_and_for_json(void **state)
{
    (void)state;
    mentions("/my dir/any'box", "claude mcp add anybox -- '/my dir/any'\\''box'\n");
    mentions("/a\"b\\c", "command = \"/a\\\"b\\\\c\"\n");
    mentions("/a;rm -rf $HOME", "-- '/a;rm -rf $HOME'\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_paths_are_not_quoted),
        cmocka_unit_test(odd_paths_are_quoted_for_the_shell_and_for_json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
