#include "sync/danger.h"
#include "test.h"

static void what_runs_by_itself_is_known(void **state)
{
    const char *bad[] = {
        "/p/.git/hooks/pre-commit",
        ".git/config",
        "a/.git/config",
        "/p/.GIT/Config",
        ".git",
        "sub/.git/modules/x/hooks/y",
        "/home/a/.ssh/config",
        ".ssh/authorized_keys",
        ".bashrc",
        "/home/a/.zshrc",
        ".vscode/tasks.json",
        "p/.idea/workspace.xml",
        ".envrc",
        ".mcp.json",
        ".claude/settings.json",
        ".husky/pre-push",
        ".config/autostart/x.desktop",
    };
    const char *good[] = {
        "Makefile",
        "src/main.c",
        ".gitignore",
        ".github/workflows/x.yml",
        "config",
        "hooks/x",
        "git/config",
        ".git/HEAD",
        ".git/objects/ab/cd",
        ".ssh",
        ".vscode",
        "bashrc",
        ".vscode/x.md",
        "x.git/hooks/y",
        ".sshx/y",
        ".mcp.json.x",
        "",
        "/",
        ".config/other/x",
        "a.envrc",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (danger_of(str_from(bad[i])) == NULL) {
            fail_msg("%s was not known", bad[i]);
        }
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (danger_of(str_from(good[i])) != NULL) {
            fail_msg("%s was taken for dangerous", good[i]);
        }
    }
}

static void links_that_lead_out(void **state)
{
    (void)state;
    assert_true(danger_leads_out(S("a"), S("/etc/passwd")));
    assert_true(danger_leads_out(S("a"), S("..")));
    assert_true(danger_leads_out(S("a/b"), S("../../x")));
    assert_true(danger_leads_out(S("a/b"), S("x/../../../y")));
    assert_false(danger_leads_out(S("a"), S("b")));
    assert_false(danger_leads_out(S("a/b"), S("../c")));
    assert_false(danger_leads_out(S("a/b"), S("./x/../../c")));
    assert_false(danger_leads_out(S("a"), S("")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_runs_by_itself_is_known),
        cmocka_unit_test(links_that_lead_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
