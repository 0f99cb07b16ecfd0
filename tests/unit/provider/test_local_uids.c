#include "provider/local/uids.h"
#include "test.h"

static void test_subuids(void **state)
{
    (void)state;
    struct str text = S("# comment\n"
                        "anna:100000:1000\n"
                        "annabel:200000:65536\n"
                        "anna:300000:65536\n"
                        "1007:400000:131072\n"
                        "bad:x:65536\nbad:1\nbad:4294910000:65536\n");
    uint32_t first = 0;
    uint32_t count = 0;
    assert_true(uids_parse_sub(text, S("anna"), 5, &first, &count));
    assert_int_equal(first, 300000); /* the first one is too small */
    assert_int_equal(count, 65536);
    assert_true(uids_parse_sub(text, S("whoever"), 1007, &first, &count));
    assert_int_equal(first, 400000);
    assert_int_equal(count, 131072);
    assert_true(uids_parse_sub(text, STR_EMPTY, 1007, &first, &count));
    assert_false(uids_parse_sub(text, S("ann"), 5, &first, &count));
    assert_false(uids_parse_sub(text, S("bad"), 5, &first, &count));
    assert_false(uids_parse_sub(STR_EMPTY, S("anna"), 5, &first, &count));
    assert_false(uids_parse_sub(S(":1:65536\n"), STR_EMPTY, 5, &first, &count));
}

static void test_maps(void **state)
{
    (void)state;
    assert_true(uids_parse_map(S("         0          0 4294967295\n"), UID_FIRST, 100));
    assert_false(uids_parse_map(S("         0     100000      65536\n"), UID_FIRST, 100));
    assert_true(uids_parse_map(S("0 1000 1\n1 100000 65536\n"), 1, 65536));
    assert_false(uids_parse_map(S("0 1000 1\n1 100000 65536\n"), 0, 65536));
    assert_false(uids_parse_map(S("nonsense\n\n 1 2\n"), 0, 1));
    assert_false(uids_parse_map(STR_EMPTY, 0, 1));
}

static void test_the_end_of_all_ranges(void **state)
{
    (void)state;
    assert_int_equal(uids_parse_end(S("a:100000:65536\nb:300000:10\nc:165536:65536\n")), 300010);
    assert_int_equal(uids_parse_end(S("a:x:1\n\nb:5\nc:7:8")), 15);
    assert_int_equal(uids_parse_end(S("a:4294967295:4294967295\n")), UINT32_MAX);
    assert_int_equal(uids_parse_end(STR_EMPTY), 0);
}

static void test_capabilities(void **state)
{
    (void)state;
    assert_int_equal(uids_parse_caps(S("CapPrm:\t0000000000000001\n"
                                       "CapEff:\t000001fffeffffff\nCapBnd:\t0\n")),
                     0x1fffeffffffull);
    assert_int_equal(uids_parse_caps(S("CapEff:\t00000000xx\n")), 0);
    assert_int_equal(uids_parse_caps(S("CapEff:\t00000000000000000000001\n")), 0);
    assert_int_equal(uids_parse_caps(S("Name:\tx\n")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_subuids),
        cmocka_unit_test(test_maps),
        cmocka_unit_test(test_the_end_of_all_ranges),
        cmocka_unit_test(test_capabilities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
