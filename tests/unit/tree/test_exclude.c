#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "test.h"
#include "tree/exclude.h"
#include "tree/glob.h"

static bool out(enum exclude_style style, const char *lines, const char *path, bool is_dir)
{
    struct arena a;
    struct err e;
    arena_init(&a, 1 << 20);
    struct exclude *x = exclude_new(&a, style);
    assert_ok(exclude_add_text(x, STR_EMPTY, str_from(lines), &e), &e);
    bool is = exclude_match(x, str_from(path), is_dir);
    arena_fini(&a);
    return is;
}

struct row {
    const char *lines, *path; /* a path with a '/' at its end is a folder */
    bool out;
};

static void check_rows(enum exclude_style style, const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s", rows[i].path);
        size_t len = strlen(path);
        bool is_dir = path[len - 1] == '/';
        path[is_dir ? len - 1 : len] = '\0';
        if (out(style, rows[i].lines, path, is_dir) != rows[i].out) {
            fail_msg("\"%s\" on \"%s\" is not %d", rows[i].lines, rows[i].path, rows[i].out);
        }
    }
}

static void git_rules(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"build", "build/", true},
        {"build", "a/build", true},
        {"/build", "build", true},
        {"/build", "a/build", false},
        {"build/", "build/", true},
        {"build/", "build", false},
        {"build/", "a/b/build/", true},
        {"a/build", "a/build", true},
        {"a/build", "x/a/build", false},
        {"*.o", "a/b.o", true},
        {"a/*.o", "a/b/c.o", false},
        {"a/**/c", "a/c", true},
        {"a/**/c", "a/x/y/c", true},
        {"**/c", "c", true},
        {"**/c", "a/b/c", true},
        {"a/**", "a/", false},
        {"a/**", "a/b/c", true},
        {"a**/b", "a/b", true},
        {"x*a**/b", "xxa/y/b", false},
        {"*.log\n!keep.log", "keep.log", false},
        {"!keep.log\n*.log", "keep.log", true},
        {"# note\n\n \t#x", "x", false},
        {"\\#x", "#x", true},
        {"\\!x", "!x", true},
        {"x  ", "x", true},
        {"x\\ ", "x ", true},
        {"x\r", "x", true},
        {"[a-c]x", "bx", true},
        {"[!a-c]x", "bx", false},
        {"[^a-c]x", "dx", true},
        {"[]]x", "]x", true},
        {"[[:digit:]]", "7", true},
        {"[[:nonsense:]]", "7", false},
        {"[a", "[a", false},
        {"x\\", "x\\", false},
        {"a[/]b", "a/b", false},
        {"a?b", "a/b", false},
        {"/", "a", false},
        {"\xef\xbb\xbf*.a", "x.a", true},
    };
    check_rows(EXCLUDE_GIT, rows, sizeof rows / sizeof *rows);
}

/* What remote-sandbox-mcp does with these, found out by running it. */
static void legacy_rules(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"node_modules/*", "node_modules/", true},
        {"node_modules/*", "pkg/node_modules/", false},
        {".git/*", "sub/.git/", false},
        {".git/*", ".git/config", true},
        {"__pycache__/*", "pkg/__pycache__/", false},
        {"*.pyc", "a/b/c.pyc", true},
        {"build/", "build/", true},
        {"build/", "a/build/", false},
        {"/build", "a/build", true},
        {"./build", "a/build", true},
        {"build", "a/build/x", true},
        {"a*z", "ab/cz", true},
        {"a?b", "a/b", true},
        {"a\\b", "a/b", true},
        {"*.log\n!keep.log", "keep.log", false},
        {"!x\nx", "x", true},
        {"[!a]", "b", true},
        {"[a", "[a", true},
        {"[]-]", "-", true},
        {"[z-a]", "z", false},
        {"  x  ", "x", true},
    };
    check_rows(EXCLUDE_LEGACY, rows, sizeof rows / sizeof *rows);
}

static void defaults_hold_at_every_depth_in_git_style_only(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1 << 20);
    struct exclude *git = exclude_new(&a, EXCLUDE_GIT);
    struct exclude *legacy = exclude_new(&a, EXCLUDE_LEGACY);
    exclude_add_defaults(git);
    exclude_add_defaults(legacy);
    assert_true(exclude_match(git, S("a/node_modules"), true));
    assert_true(exclude_match(git, S(".git"), true));
    assert_false(exclude_match(git, S(".git"), false));
    assert_true(exclude_match(git, S("a/x.pyc"), false));
    assert_false(exclude_match(legacy, S("a/node_modules"), true));
    assert_true(exclude_match(legacy, S("node_modules"), true));
    assert_false(exclude_match(legacy, S(""), true));
    arena_fini(&a);
}

static void a_list_of_a_folder_binds_below_it(void **state)
{
    (void)state;
    struct arena a;
    struct err e;
    arena_init(&a, 1 << 20);
    struct exclude *x = exclude_new(&a, EXCLUDE_GIT);
    assert_ok(exclude_add(x, S("lib"), S("/tmp"), &e), &e);
    assert_ok(exclude_add(x, S("lib"), S("*.o"), &e), &e);
    assert_ok(exclude_add(x, S("lib/b"), S("!k.o"), &e), &e);
    assert_true(exclude_match(x, S("lib/tmp"), true));
    assert_false(exclude_match(x, S("tmp"), true));
    assert_false(exclude_match(x, S("library/x.o"), false));
    assert_false(exclude_match(x, S("lib"), true));
    assert_true(exclude_match(x, S("lib/k.o"), false));
    assert_int_equal(exclude_ask(x, S("lib/b/k.o"), false), EXCLUDE_KEPT);
    assert_int_equal(exclude_ask(x, S("y"), false), EXCLUDE_UNSAID);
    arena_fini(&a);
}

static void too_much_is_refused(void **state)
{
    (void)state;
    struct arena a;
    struct err e;
    static char line[GLOB_MAX];
    arena_init(&a, 64 << 20);
    struct exclude *x = exclude_new(&a, EXCLUDE_GIT);
    memset(line, 'x', sizeof line);
    assert_fails(exclude_add(x, STR_EMPTY, (struct str){line, sizeof line}, &e), &e, ERR_INVALID,
                 "4096 bytes");
    for (int i = 0; i < EXCLUDES_MAX; i++) {
        assert_ok(exclude_add(x, STR_EMPTY, S("x"), &e), &e);
    }
    assert_fails(exclude_add(x, STR_EMPTY, S("x"), &e), &e, ERR_LIMIT, "10000");
    exclude_add_defaults(x);
    assert_true(exclude_match(x, S("x"), false));
    arena_fini(&a);
}

/* With backtracking these would not end in a lifetime. */
static void hostile_patterns_end_soon(void **state)
{
    (void)state;
    static const char *const parts[] = {"*a", "**/", "a*?", "**/a*"};
    static char text[4096];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char pattern[GLOB_MAX];
        size_t n = 0;
        struct arena a;
        arena_init(&a, 8 << 20);
        while (n + 8 < 2000) {
            n += (size_t)snprintf(pattern + n, sizeof pattern - n, "%s", parts[i]);
        }
        pattern[n++] = 'b';
        memset(text, 'a', sizeof text);
        for (size_t k = 3; k < sizeof text; k += 7) {
            text[k] = '/';
        }
        struct glob *g = glob_new(&a, GLOB_GIT, (struct str){pattern, n});
        assert_false(glob_match(g, (struct str){text, sizeof text - 2}));
        arena_fini(&a);
    }
}

/* ---- the same answers as git -------------------------------------------------- */

static uint32_t seed = 20261115;

static uint32_t below(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

static const char *const names[] = {"a",   "b",  "ab", "ba", "a-b", "x.c",
                                    "[a]", "a*", "#a", "!b", "a b"};
#define NAMES (sizeof names / sizeof *names)

struct item {
    char path[64];
    bool is_dir;
};

static size_t make_items(int root, struct item *items, size_t max)
{
    size_t n = 0;
    while (n < max) {
        struct item *it = &items[n];
        size_t depth = 1 + below(3);
        it->path[0] = '\0';
        for (size_t d = 0; d < depth; d++) {
            if (d > 0) {
                (void)mkdirat(root, it->path, 0755);
                strcat(it->path, "/");
            }
            strcat(it->path, names[below(NAMES)]);
        }
        struct stat is;
        it->is_dir = below(2) == 0;
        if (it->is_dir) {
            (void)mkdirat(root, it->path, 0755);
        } else {
            int fd = openat(root, it->path, O_CREAT | O_WRONLY, 0644);
            if (fd >= 0) {
                close(fd);
            }
        }
        if (fstatat(root, it->path, &is, 0) == 0) {
            it->is_dir = S_ISDIR(is.st_mode);
            n++;
        }
    }
    return n;
}

static void random_line(char *to, size_t cap)
{
    static const char *const bits[] = {"a",   "b",     "ab",          "*",    "?",   "/",  "**",
                                       "**/", "/**",   "[ab]",        "[!a]", "\\*", ".c", "x",
                                       "-",   "[a-b]", "[[:alpha:]]", "\\a",  " ",   "[",  "]",
                                       "a/b", "!",     "#",           "\\"};
    size_t n = 1 + below(5);
    size_t len = 0;
    to[0] = '\0';
    if (below(4) == 0) {
        len += (size_t)snprintf(to, cap, "%s", below(2) ? "!" : "/");
    }
    for (size_t i = 0; i < n; i++) {
        len += (size_t)snprintf(to + len, cap - len, "%s", bits[below(sizeof bits / sizeof *bits)]);
    }
    if (below(5) == 0) {
        (void)snprintf(to + len, cap - len, "/");
    }
}

/* As the walk asks: from the top down. */
static bool ours(const struct exclude *x, const struct item *it)
{
    struct str path = str_from(it->path);
    for (size_t i = 0; i < path.len; i++) {
        if (path.p[i] == '/' && exclude_match(x, str_head(path, i), true)) {
            return true;
        }
    }
    return exclude_match(x, path, it->is_dir);
}

static void ask_git(const char *root, const struct item *items, size_t n, bool *is_out)
{
    char command[512];
    char line[256];
    snprintf(command, sizeof command, "%s/paths", root);
    FILE *f = fopen(command, "w");
    assert_non_null(f);
    for (size_t i = 0; i < n; i++) {
        fwrite(items[i].path, 1, strlen(items[i].path) + 1, f);
    }
    fclose(f);
    snprintf(
        command, sizeof command,
        "cd %s/tree && HOME=%s GIT_CONFIG_NOSYSTEM=1 git check-ignore --no-index -z -n -v --stdin "
        "<../paths",
        root, root);
    f = popen(command, "r");
    assert_non_null(f);
    memset(is_out, 0, n * sizeof *is_out);
    /* Four fields each: list, line, pattern, path. */
    for (size_t i = 0; i < n; i++) {
        char pattern[256] = "";
        for (int field = 0; field < 4; field++) {
            size_t len = 0;
            int c;
            for (c = fgetc(f); c > 0 && len + 1 < sizeof line; c = fgetc(f)) {
                line[len++] = (char)c;
            }
            line[len] = '\0';
            assert_int_equal(c, 0);
            if (field == 2) {
                memcpy(pattern, line, len + 1);
            }
        }
        assert_string_equal(line, items[i].path);
        is_out[i] = pattern[0] != '\0' && pattern[0] != '!';
    }
    (void)pclose(f);
}

static void answers_as_git_does(void **state)
{
    (void)state;
    char root[] = "/tmp/anybox-exclude-XXXXXX";
    char command[256];
    static struct item items[150];
    static bool is_out[150];
    struct err e;
    assert_non_null(mkdtemp(root));
    snprintf(command, sizeof command, "git init -q %s/tree", root);
    if (system(command) != 0) {
        assert_ok(fd_remove_tree(AT_FDCWD, root, &e), &e);
        skip();
    }
    snprintf(command, sizeof command, "%s/tree", root);
    int dir = open(command, O_RDONLY | O_DIRECTORY);
    assert_true(dir >= 0);
    assert_int_equal(mkdirat(dir, "a", 0755), 0);
    size_t n = make_items(dir, items, 150);
    for (int round = 0; round < 150; round++) {
        char text[2048];
        char nested[128];
        size_t len = 0;
        struct arena a;
        arena_init(&a, 1 << 20);
        struct exclude *x = exclude_new(&a, EXCLUDE_GIT);
        for (size_t i = 1 + below(4); i > 0; i--) {
            char line[128];
            random_line(line, sizeof line);
            len += (size_t)snprintf(text + len, sizeof text - len, "%s\n", line);
        }
        random_line(nested, sizeof nested);
        assert_ok(exclude_add_text(x, STR_EMPTY, (struct str){text, len}, &e), &e);
        assert_ok(exclude_add_text(x, S("a"), str_from(nested), &e), &e);
        assert_ok(fd_replace_file(dir, ".gitignore", (struct str){text, len}, 0644, &e), &e);
        assert_ok(fd_replace_file(dir, "a/.gitignore", str_from(nested), 0644, &e), &e);
        ask_git(root, items, n, is_out);
        for (size_t i = 0; i < n; i++) {
            if (ours(x, &items[i]) != is_out[i]) {
                fail_msg("git says %d to \"%s\" (folder: %d) for\n%s(in a: %s)", is_out[i],
                         items[i].path, items[i].is_dir, text, nested);
            }
        }
        arena_fini(&a);
    }
    close(dir);
    assert_ok(fd_remove_tree(AT_FDCWD, root, &e), &e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(git_rules),
        cmocka_unit_test(legacy_rules),
        cmocka_unit_test(defaults_hold_at_every_depth_in_git_style_only),
        cmocka_unit_test(a_list_of_a_folder_binds_below_it),
        cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(hostile_patterns_end_soon),
        cmocka_unit_test(answers_as_git_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
