/* test_caps.c - what clients say that they can be asked. */
#include <string.h>

#include "json/js.h"
#include "mcp/caps.h"
#include "test.h"

static unsigned read_text(const char *text, enum revision rev)
{
    struct err e;
    json_t *v own_json = js_parse(text, strlen(text), &e);

    assert_non_null(v);
    return caps_read(v, rev);
}

static void every_way_to_say_it_is_understood(void **state)
{
    static const struct {
        const char *text;
        unsigned can;
    } cases[] = {
        {"{}", 0},
        {"[]", 0},
        {"7", 0},
        {"{\"elicitation\":{}}", CAN_FORM},
        {"{\"elicitation\":{\"form\":{}}}", CAN_FORM},
        {"{\"elicitation\":{\"url\":{}}}", CAN_URL},
        {"{\"elicitation\":{\"form\":{},\"url\":{}}}", CAN_FORM | CAN_URL},
        {"{\"elicitation\":{\"unknown\":1}}", CAN_FORM},
        {"{\"elicitation\":true}", 0},
        {"{\"elicitation\":null}", 0},
        {"{\"sampling\":{},\"roots\":{\"listChanged\":true}}", CAN_SAMPLE | CAN_ROOTS},
        {"{\"sampling\":[],\"roots\":1,\"experimental\":{}}", 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        assert_int_equal(read_text(cases[i].text, REV_2025_11_25), cases[i].can);
        assert_int_equal(read_text(cases[i].text, REV_2026_07_28), cases[i].can);
    }
    assert_int_equal(caps_read(NULL, REV_2025_11_25), 0);
}

static void a_revision_has_only_what_it_had(void **state)
{
    static const char all[] = "{\"elicitation\":{\"form\":{},\"url\":{}},\"sampling\":{}}";

    (void)state;
    assert_int_equal(read_text(all, REV_2024_11_05), CAN_SAMPLE);
    assert_int_equal(read_text(all, REV_2025_03_26), CAN_SAMPLE);
    assert_int_equal(read_text(all, REV_2025_06_18), CAN_SAMPLE | CAN_FORM);
    assert_int_equal(read_text(all, REV_2025_11_25), CAN_SAMPLE | CAN_FORM | CAN_URL);
}

static void what_is_missing_is_told_as_a_client_would_say_it(void **state)
{
    static const unsigned sets[] = {0, CAN_FORM, CAN_SAMPLE, CAN_FORM | CAN_SAMPLE | CAN_ROOTS,
                                    CAN_URL};

    (void)state;
    for (size_t i = 0; i < COUNTOF(sets); i++) {
        struct buf text own_buf = {.max = 256};

        caps_add(&text, sets[i]);
        assert_int_equal(read_text(text.p, REV_2026_07_28), sets[i]);
    }
}

int main(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(every_way_to_say_it_is_understood),
        cmocka_unit_test(a_revision_has_only_what_it_had),
        cmocka_unit_test(what_is_missing_is_told_as_a_client_would_say_it),
    };

    return cmocka_run_group_tests(all, NULL, NULL);
}
