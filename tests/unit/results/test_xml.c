/* test_xml.c - what is read of XML, and what ends the reading. */
#include "results/xml.h"
#include "test.h"

static void elements_attributes_and_text(void **state)
{
    struct arena arena own_arena = {0};
    struct xml x = xml_begin(
        S("<?xml version='1.0'?><!-- <no> --><!DOCTYPE a [x]>\n"
          "<a b=\"1 &amp; 2 > 1\" c = 'd'>t &lt;&#65;&#x1F600;&no;&#0;<![CDATA[<&amp;]]><e/></a>"));
    struct xml_event e;

    (void)state;
    arena_init(&arena, 1 << 20);
    e = xml_next(&x);
    assert_int_equal(e.kind, XML_TEXT);
    e = xml_next(&x);
    assert_int_equal(e.kind, XML_OPEN);
    assert_str(e.name, S("a"));
    assert_str(xml_attribute(&arena, &e, S("b")), S("1 & 2 > 1"));
    assert_str(xml_attribute(&arena, &e, S("c")), S("d"));
    assert_int_equal(xml_attribute(&arena, &e, S("d")).len, 0);
    e = xml_next(&x);
    assert_int_equal(e.kind, XML_TEXT);
    assert_str(xml_text(&arena, &e), S("t <A\xf0\x9f\x98\x80&no;&#0;"));
    e = xml_next(&x);
    assert_str(xml_text(&arena, &e), S("<&amp;"));
    e = xml_next(&x);
    assert_int_equal(e.kind, XML_OPEN);
    assert_str(e.name, S("e"));
    e = xml_next(&x);
    assert_int_equal(e.kind, XML_CLOSE);
    assert_str(e.name, S("e"));
    e = xml_next(&x);
    assert_int_equal(e.kind, XML_CLOSE);
    assert_str(e.name, S("a"));
    assert_int_equal(xml_next(&x).kind, XML_END);
    assert_int_equal(xml_next(&x).kind, XML_END);
}

static void what_is_cut_off_ends(void **state)
{
    static const char *const texts[] = {"<a b=\"", "<",          "<a",  "</",
                                        "<!--",    "<![CDATA[x", "< >", "<a b=c d"};

    (void)state;
    for (size_t i = 0; i < COUNTOF(texts); i++) {
        struct xml x = xml_begin(str_from(texts[i]));
        int n = 0;

        while (xml_next(&x).kind != XML_END) {
            assert_true(++n < 4);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_attributes_and_text),
        cmocka_unit_test(what_is_cut_off_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
