/* Names of packages, and what people give instead. */
#include "core/package.h"
#include "test.h"

static void names_extras_and_versions_are_accepted(void **state)
{
    static const struct {
        const char *given, *want;
    } rows[] = {
        {"requests", "requests"},
        {"  Flask_Login ", "Flask_Login"},
        {"zope.interface", "zope.interface"},
        {"a", "a"},
        {"numpy==1.26.4", "numpy==1.26.4"},
        {"numpy == 1.26.*", "numpy==1.26.*"},
        {"pandas >= 2 , < 3", "pandas>=2,<3"},
        {"x~=1.4", "x~=1.4"},
        {"x===1.0+local.1", "x===1.0+local.1"},
        {"x!=1!2.0", "x!=1!2.0"},
        {"requests [socks, security]>=2.0", "requests[socks,security]>=2.0"},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        struct arena a own_arena = {0};
        struct str out;
        struct err e = {0};

        arena_init(&a, 1 << 16);
        assert_ok(package_check(&a, str_from(rows[i].given), &out, &e), &e);
        assert_str(out, str_from(rows[i].want));
    }
}

static void all_else_is_refused_with_its_sentence(void **state)
{
    static const struct {
        const char *given, *word;
    } rows[] = {
        {"", "is empty"},
        {"  ", "is empty"},
        {"-r x", "is an option"},
        {"--index-url=http://h", "is an option"},
        {"http://h/x", "is an address"},
        {"x@1", "is an address"},
        {"x @ git+https://h/x", "is an address"},
        {"./x", "is a path"},
        {".x", "is a path"},
        {"~/x", "is a path"},
        {"a/b", "is a path"},
        {"a\\b", "is a path"},
        {"x.whl", "is a path"},
        {"x-1.tar.gz", "is a path"},
        {"x-1.zip", "is a path"},
        {"x; os_name=='nt'", "has a marker"},
        {"_x", "does not begin"},
        {"x-", "does not begin"},
        {"x-==1", "does not begin"},
        {"\xc3\xa9", "does not begin"},
        {"$(id)", "does not begin"},
        {"x y", "no version"},
        {"x\ny", "no version"},
        {"x=1", "no version"},
        {"x==", "no version"},
        {"x==1,", "no version"},
        {"x==1 2", "no version"},
        {"x==$(id)", "no version"},
        {"x==1'", "no version"},
        {"x>=1]", "no version"},
        {"x[", "extras"},
        {"x[]", "extras"},
        {"x[a,]", "extras"},
        {"x[-r]", "extras"},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        struct arena a own_arena = {0};
        struct str out;
        struct err e = {0};

        arena_init(&a, 1 << 16);
        assert_fails(package_check(&a, str_from(rows[i].given), &out, &e), &e, ERR_INVALID,
                     rows[i].word);
        assert_non_null(strstr(e.msg, "numpy==1.26.4"));
    }
}

static void what_is_too_long_is_refused(void **state)
{
    struct arena a own_arena = {0};
    struct err e = {0};
    struct str out;
    char name[PACKAGE_MAX + 2];

    (void)state;
    arena_init(&a, 1 << 16);
    memset(name, 'x', sizeof(name));
    assert_ok(package_check(&a, (struct str){name, PACKAGE_MAX}, &out, &e), &e);
    assert_fails(package_check(&a, (struct str){name, PACKAGE_MAX + 1}, &out, &e), &e, ERR_INVALID,
                 "too long");
    name[3] = '\0';
    assert_fails(package_check(&a, (struct str){name, 8}, &out, &e), &e, ERR_INVALID, "xxx?xxxx");
}

static void names_are_spelled_as_an_index_does(void **state)
{
    struct arena a own_arena = {0};

    (void)state;
    arena_init(&a, 1 << 16);
    assert_str(package_name(&a, S("Zope.Interface")), S("zope-interface"));
    assert_str(package_name(&a, S("a-_.B")), S("a-b"));
    assert_str(package_name(&a, S("x1")), S("x1"));
    assert_str(package_name(&a, S("x-")), STR_EMPTY);
    assert_str(package_name(&a, S("x/y")), STR_EMPTY);
    assert_str(package_name(&a, STR_EMPTY), STR_EMPTY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_extras_and_versions_are_accepted),
        cmocka_unit_test(all_else_is_refused_with_its_sentence),
        cmocka_unit_test(what_is_too_long_is_refused),
        cmocka_unit_test(names_are_spelled_as_an_index_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
