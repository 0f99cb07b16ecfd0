/* test_resource.c - which row has an address. */
#include "test.h"
#include "tools/resource.h"

static const struct resource rows[] = {
    {.uri = "box://all"},
    {.uri = "box://{id}/files/{name}"},
    {.uri = "box://{id}"},
    {.uri = "x{a}-{b}.{c}{d}"},
    {.uri = "five/{a}/{b}/{c}/{d}/{e}"},
    {.uri = "rest://{id}/{+path}"},
    {.uri = "log://{id}/all{?lines,task}"},
};

/* In place of the program's own table. */
const struct resource *const resources[] = {&rows[0], &rows[1], &rows[2], &rows[3],
                                            &rows[4], &rows[5], &rows[6], NULL};

static void an_address_finds_its_row_and_what_the_names_stand_for(void **state)
{
    static const struct {
        const char *uri;
        int row; /* -1: none */
        const char *values[RESOURCE_VALUES];
    } cases[] = {
        {"box://all", 0, {NULL}},
        {"box://1", 2, {"1"}},
        {"box://all/files/a", 1, {"all", "a"}},
        {"box://1/files/a%2Fb", 1, {"1", "a%2Fb"}},
        {"box://1/files/{name}", 1, {"1", "{name}"}},
        {"box://", -1, {NULL}},
        {"box:///files/a", -1, {NULL}},
        {"box://1/files/", -1, {NULL}},
        {"box://1/files/a/b", -1, {NULL}},
        {"box://1/", -1, {NULL}},
        {"BOX://1", -1, {NULL}},
        {"", -1, {NULL}},
        {"x1-2.3", -1, {NULL}}, /* nothing is left for the last name */
        {"five/1/2/3/4/5", -1, {NULL}},
        {"rest://1/a/b?c", 5, {"1", "a/b?c"}},
        {"rest://1/a", 5, {"1", "a"}},
        {"rest://1/", -1, {NULL}},
        {"log://1/all", 6, {"1", ""}},
        {"log://1/all?", 6, {"1", ""}},
        {"log://1/all?lines=2&task=a/b", 6, {"1", "lines=2&task=a/b"}},
        {"log://1/allx", -1, {NULL}},
        {"log://1?x/all", -1, {NULL}},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        struct str values[RESOURCE_VALUES] = {{0}};
        const struct resource *r = resource_find(str_from(cases[i].uri), values);

        assert_ptr_equal(r, cases[i].row < 0 ? NULL : &rows[cases[i].row]);
        for (size_t v = 0; r != NULL && v < RESOURCE_VALUES && cases[i].values[v] != NULL; v++) {
            assert_str(values[v], str_from(cases[i].values[v]));
        }
    }
}

static void a_template_has_names(void **state)
{
    (void)state;
    assert_false(resource_is_template(&rows[0]));
    assert_true(resource_is_template(&rows[1]));
}

static void an_address_of_a_file_is_escaped(void **state)
{
    struct arena arena own_arena = {0};
    struct str uri;

    (void)state;
    arena_init(&arena, 1 << 20);
    uri = resource_file_uri(&arena, S("host:a b"), S("/w/a ?#%.md"));
    assert_str(uri, S("sandbox://host%3Aa%20b/files/w/a%20%3F%23%25.md"));
}

int main(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(an_address_finds_its_row_and_what_the_names_stand_for),
        cmocka_unit_test(a_template_has_names),
        cmocka_unit_test(an_address_of_a_file_is_escaped),
    };

    return cmocka_run_group_tests(all, NULL, NULL);
}
