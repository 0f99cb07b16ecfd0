#include "provider/opensandbox/gate.h"
#include "test.h"

static int rewrite(struct str said, struct buf *out, struct gate_found *found, struct err *e)
{
    const struct str ours[] = {S("X-EXECD-ACCESS-TOKEN: secret"), S("Route: r")};
    const struct gate far = {
        .host = S("far:8080"), .prefix = S("/x/proxy/80"), .headers = ours, .n_headers = 2};
    buf_clear(out);
    return gate_head(said, &far, out, found, e);
}

#define OURS "X-EXECD-ACCESS-TOKEN: secret\r\nRoute: r\r\n"

static void the_head_is_written_anew(void **state)
{
    struct str said = S("POST /a?b=../c HTTP/1.1\r\nhost: me:1\r\nAccept: */*\r\nConnection: "
                        "keep-alive\r\nx-execd-access-token: mine\r\nContent-Length: 2\r\n\r\nhi");
    struct gate_found found;
    struct buf out own_buf = {0};
    struct err e;
    (void)state;
    buf_init(&out, 4096);
    assert_int_equal(rewrite(said, &out, &found, &e), 1);
    assert_str(buf_str(&out),
               S("POST /x/proxy/80/a?b=../c HTTP/1.1\r\nAccept: */*\r\nContent-Length: 2\r\n"
                 "Host: far:8080\r\nX-Forwarded-Host: me:1\r\n" OURS "Connection: close\r\n\r\n"));
    assert_int_equal(found.used, said.len - 2);
    assert_false(found.is_change);
    /* However it is cut, it is not whole before its end. */
    for (size_t n = 0; n < found.used; n++) {
        assert_int_equal(rewrite(str_head(said, n), &out, &found, &e), 0);
    }
}

static void another_protocol_is_asked_for(void **state)
{
    struct gate_found found;
    struct buf out own_buf = {0};
    struct err e;
    (void)state;
    buf_init(&out, 4096);
    assert_int_equal(
        rewrite(S("GET / HTTP/1.1\nUPGRADE: websocket\nConnection: Upgrade\n\n"), &out, &found, &e),
        1);
    assert_true(found.is_change);
    assert_str(buf_str(&out), S("GET /x/proxy/80/ HTTP/1.1\r\nUPGRADE: websocket\r\nHost: far:8080"
                                "\r\n" OURS "Connection: Upgrade\r\n\r\n"));
}

static void what_is_no_request_to_this_port_is_refused(void **state)
{
    static const char *const heads[] = {
        "\x16\x03\x01",
        "SSH-2.0-x\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\n",
        "GET http://a/ HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1 \r\n\r\n",
        "GET /a\tb HTTP/1.1\r\n\r\n",
        "GET /a#b HTTP/1.1\r\n\r\n",
        "GET /.. HTTP/1.1\r\n\r\n",
        "GET /a/../b HTTP/1.1\r\n\r\n",
        "GET /a/%2e%2E/b HTTP/1.1\r\n\r\n",
        "GET /a%2f..%2Fb HTTP/1.1\r\n\r\n",
        "GET /%252e%252e/b HTTP/1.1\r\n\r\n",
        "GET /%25252e./b HTTP/1.1\r\n\r\n",
        "GET /a\\..\\b HTTP/1.1\r\n\r\n",
        "GET /a/..;x/b HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\nA: b\r\n folded: x\r\n\r\n",
        "GET / HTTP/1.1\r\n: x\r\n\r\n",
        "GET / HTTP/1.1\r\nA: b\rC: d\r\n\r\n",
    };
    (void)state;
    for (size_t i = 0; i < COUNTOF(heads); i++) {
        struct gate_found found;
        struct buf out own_buf = {0};
        struct err e = {0};

        buf_init(&out, 4096);
        assert_int_equal(rewrite(str_from(heads[i]), &out, &found, &e), -1);
        assert_int_equal(e.kind, ERR_INVALID);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_head_is_written_anew),
        cmocka_unit_test(another_protocol_is_asked_for),
        cmocka_unit_test(what_is_no_request_to_this_port_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
