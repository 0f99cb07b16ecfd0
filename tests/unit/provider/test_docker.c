#include "provider/docker/plain.h"
#include "test.h"

#define ID       "0123456789abcdef0123456789abcdef"
#define INSTANCE "ffffffffffffffffffffffffffffffff"

static struct value *parsed(struct arena *a, const char *text)
{
    struct err e;
    struct value *v = value_parse(a, str_from(text), &e);

    if (v == NULL) {
        fail_msg("%s: %s", text, e.msg);
    }
    return v;
}

static void json_is_read(void **state)
{
    struct arena a own_arena = {0};

    (void)state;
    arena_init(&a, 1u << 20);
    struct value *v = parsed(&a, " {\"a\":{\"b\":[1,-2.5e3,\"x\"]},\"t\":true,\"n\":null,"
                                 "\"s\":\"\\u00e9\\ud83c\\udf89\\n\\\"\",\"i\":9007199254740993,"
                                 "\"a.b\":\"dotted\"} ");
    assert_str(value_at(v, "a.b")->first->text, S("1"));
    assert_str(value_at(v, "a.b")->first->next->next->text, S("x"));
    assert_true(value_bool(v, "t") && !value_bool(v, "n") && !value_bool(v, "nothing.here"));
    assert_str(value_text(v, "s"), S("\xc3\xa9\xf0\x9f\x8e\x89\n\""));
    assert_int_equal(value_int(v, "i"), 9007199254740993ll);
    assert_str(value_member(v, S("a.b")), S("dotted"));
    assert_int_equal(value_text(v, "a").len, 0);
}

static void what_is_no_json_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "{",
        "[1,",
        "{\"a\"}",
        "{\"a\":}",
        "nul",
        "\"",
        "\"\\",
        "\"\\x\"",
        "\"\\u12\"",
        "[1] [2]",
        "{a:1}",
        "[1 2]",
        "\"\n\"",
        "]",
        "{\"a\":1,}",
        "\"\\ud800\\uZZZZ\"",
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(texts); i++) {
        struct arena a own_arena = {0};
        struct err e = {0};

        arena_init(&a, 1u << 20);
        assert_null(value_parse(&a, str_from(texts[i]), &e));
        assert_int_equal(e.kind, ERR_PROTOCOL);
    }
}

static void depth_is_bounded(void **state)
{
    struct arena a own_arena = {0};
    struct buf deep own_buf = {0};
    struct err e = {0};

    (void)state;
    arena_init(&a, 64u << 20);
    buf_init(&deep, 1u << 20);
    for (int i = 0; i < 100000; i++) {
        buf_addc(&deep, '[');
    }
    assert_null(value_parse(&a, buf_str(&deep), &e));
}

static void quoted_text_comes_back(void **state)
{
    struct arena a own_arena = {0};
    struct buf text own_buf = {0};
    const struct str odd = S("\"],\"x\":{\\\n\t\x01\x7f \xc3\xa9");

    (void)state;
    arena_init(&a, 1u << 20);
    buf_init(&text, 4096);
    value_quote(&text, odd);
    assert_str(parsed(&a, text.p)->text, odd);
    buf_clear(&text);
    value_quote(&text, S("\xff\xc3"));
    assert_str(parsed(&a, text.p)->text, S("\xef\xbf\xbd\xef\xbf\xbd"));
}

/* ---- bodies ------------------------------------------------------------------------- */

static struct docker provider(void)
{
    return (struct docker){
        .conf = {.image = S("img"), .work_dir = S("/app/results"), .network = S("bridge")},
        .defaults = {.memory_bytes = 1 << 30,
                     .cpu_millis = 1000,
                     .pids = 1024,
                     .open_files = 4096,
                     .idle_s = 1800},
    };
}

static struct engine_facts able(void)
{
    return (struct engine_facts){
        .cpus = 2, .memory_limit = true, .swap_limit = true, .cpu_limit = true, .pids_limit = true};
}

static struct value *body_for(struct arena *a, const struct docker *d, const struct box_spec *spec,
                              bool is_podman)
{
    struct buf text own_buf = {0};
    struct engine_facts facts = able();
    struct body b = {.docker = d,
                     .spec = spec,
                     .prepared = S("anybox/agent:1"),
                     .asked = S("img"),
                     .instance = S(INSTANCE),
                     .uid = 7,
                     .gid = 8,
                     .home = S("/home/user"),
                     .is_podman = is_podman,
                     .now = 5};
    struct err e;

    facts.is_podman = is_podman;
    assert_ok(body_limits(d, &facts, &spec->limits, &b.limits, &e), &e);
    buf_init(&text, 1u << 20);
    body_write(&b, &text);
    return parsed(a, arena_cstr(a, buf_str(&text)));
}

static struct value *body_of(struct arena *a, const struct docker *d, const struct box_spec *spec)
{
    return body_for(a, d, spec, false);
}

static void a_container_is_hardened(void **state)
{
    struct arena a own_arena = {0};
    struct docker d = provider();
    const struct box_spec spec = {.id = S(ID), .name = S("n")};

    (void)state;
    arena_init(&a, 1u << 20);
    struct value *v = body_of(&a, &d, &spec);
    const struct value *host = value_at(v, "HostConfig");
    assert_false(value_bool(host, "Privileged"));
    assert_str(value_at(host, "CapDrop")->first->text, S("ALL"));
    assert_null(value_at(host, "CapAdd")->first);
    assert_str(value_at(host, "SecurityOpt")->first->text, S("no-new-privileges"));
    assert_str(value_text(host, "NetworkMode"), S("none"));
    assert_int_equal(value_int(host, "Memory"), 1 << 30);
    assert_int_equal(value_int(host, "MemorySwap"), 1 << 30);
    assert_int_equal(value_int(host, "NanoCpus"), 1000000000);
    assert_int_equal(value_int(host, "PidsLimit"), 1024);
    assert_null(value_at(host, "Mounts"));
    assert_null(value_at(host, "Binds"));
    assert_null(value_at(host, "DeviceRequests"));
    assert_null(value_at(host, "StorageOpt"));
    assert_str(value_member(value_at(v, "Labels"), S(LABEL_INSTANCE)), S(INSTANCE));
}

static struct str first_script(struct arena *a, int32_t idle_s, int32_t lifetime_s)
{
    struct buf text own_buf = {0};
    const struct limits l = {.idle_s = idle_s, .lifetime_s = lifetime_s};

    buf_init(&text, 8u << 10);
    plain_add_first(&text, &l);
    return arena_str(a, buf_str(&text));
}

/* Without our agent: a script in the image's sh that ends with the exit codes of the agent. */
static void the_first_process_of_a_plain_one_keeps_its_times(void **state)
{
    struct arena a own_arena = {0};

    (void)state;
    arena_init(&a, 1u << 20);
    struct str neither = first_script(&a, 0, 0);
    struct str both = first_script(&a, 1800, 3);
    assert_null(strstr(arena_cstr(&a, neither), "exit 100"));
    assert_null(strstr(arena_cstr(&a, neither), "exit 101"));
    assert_non_null(strstr(arena_cstr(&a, neither), "sleep 30 "));
    assert_non_null(strstr(arena_cstr(&a, both), "-lt 1800 ]||exit 100"));
    assert_non_null(strstr(arena_cstr(&a, both), "-lt 3 ]||exit 101"));
    assert_non_null(strstr(arena_cstr(&a, both), "sleep 1 "));
}

struct heard {
    struct buf streams[2];
};

static int hear(void *arg, enum stream from, struct str bytes, struct err *e)
{
    struct heard *h = arg;

    (void)e;
    buf_add(&h->streams[from], bytes);
    return 0;
}

static void frames_come_in_any_pieces(void **state)
{
    static const char all[] =
        "\1\0\0\0\0\0\0\3out\2\0\0\0\0\0\0\2er\7\0\0\0\0\0\0\1x\1\0\0\0\0\0\0\1!";
    struct err e;

    (void)state;
    for (size_t step = 1; step < sizeof(all); step++) {
        struct frames f = {0};
        struct heard h = {0};

        buf_init(&h.streams[0], 64);
        buf_init(&h.streams[1], 64);
        for (struct str rest = {all, sizeof(all) - 1}; rest.len > 0; rest = str_skip(rest, step)) {
            assert_ok(frames_take(&f, str_head(rest, step), hear, &h, &e), &e);
        }
        assert_str(buf_str(&h.streams[STREAM_OUT]), S("out!"));
        assert_str(buf_str(&h.streams[STREAM_ERR]), S("er"));
        buf_fini(&h.streams[0]);
        buf_fini(&h.streams[1]);
    }
}

static void texts_of_callers_stay_texts(void **state)
{
    struct arena a own_arena = {0};
    struct docker d = provider();
    const struct str env[] = {S("A=\"],\"HostConfig\":{\"Privileged\":true},\"b\":[\"")};
    const struct box_spec spec = {
        .id = S(ID), .name = S("\"},\"User\":\"0"), .env = env, .n_env = 1};

    (void)state;
    arena_init(&a, 1u << 20);
    struct value *v = body_of(&a, &d, &spec);
    assert_false(value_bool(v, "HostConfig.Privileged"));
    assert_str(value_at(v, "Env")->first->text, env[0]);
    assert_null(value_at(v, "User"));
    assert_str(value_member(value_at(v, "Labels"), S(LABEL_NAME)), spec.name);
}

static void a_read_only_root_has_its_writable_folders(void **state)
{
    struct arena a own_arena = {0};
    struct docker d = provider();
    const struct box_spec spec = {.id = S(ID), .name = S("n")};

    (void)state;
    arena_init(&a, 1u << 20);
    d.conf.read_only = true;
    struct value *v = body_of(&a, &d, &spec);
    assert_true(value_bool(v, "HostConfig.ReadonlyRootfs"));
    assert_true(str_ends(value_member(value_at(v, "HostConfig.Tmpfs"), S(AGENT_DIR "/run")),
                         S(",uid=7,gid=8")));
    assert_str(value_at(v, "Volumes")->first->key, S("/home/user"));
    assert_str(value_at(v, "Volumes")->first->next->key, S("/app/results"));
    assert_null(value_at(v, "Volumes")->first->next->next);
    /* Podman's folders in memory cannot be the agent's own. */
    v = body_for(&a, &d, &spec, true);
    assert_str(value_at(v, "HostConfig.Tmpfs")->first->key, S("/tmp"));
    assert_null(value_at(v, "HostConfig.Tmpfs")->first->next);
    assert_str(value_at(v, "Volumes")->first->next->next->key, S(AGENT_DIR "/run"));
}

static void a_disk_in_memory_needs_an_owner(void **state)
{
    struct docker d = provider();
    struct engine_facts facts = able();
    const struct limits asked = {.disk_bytes = 1 << 20};
    struct limits out;
    struct err e;

    (void)state;
    d.conf.read_only = true;
    assert_ok(body_limits(&d, &facts, &asked, &out, &e), &e);
    assert_int_equal(out.disk_bytes, 1 << 20);
    facts.is_podman = true;
    assert_int_equal(body_limits(&d, &facts, &asked, &out, &e), -1);
    assert_int_equal(e.kind, ERR_UNSUPPORTED);
    d.defaults.disk_bytes = 1 << 20;
    assert_ok(body_limits(&d, &facts, &(struct limits){0}, &out, &e), &e);
    assert_int_equal(out.disk_bytes, 0); /* not kept, and not claimed */
}

static void prepared_images_are_known_by_any_engines_name(void **state)
{
    (void)state;
    assert_true(prepared_is(S("anybox/agent:1")));
    assert_true(prepared_is(S("docker.io/anybox/agent:1")));
    assert_true(prepared_is(S("localhost/anybox/agent:1")));
    assert_false(prepared_is(S("other/anybox/agent:1")));
    assert_false(prepared_is(S("anybox/agents:1")));
    assert_false(prepared_is(STR_EMPTY));
}

static void limits_are_kept_or_refused(void **state)
{
    struct docker d = provider();
    struct engine_facts facts = able();
    struct limits asked = {.cpu_millis = 3000};
    struct limits out;
    struct err e;

    (void)state;
    assert_int_equal(body_limits(&d, &facts, &asked, &out, &e), -1);
    assert_int_equal(e.kind, ERR_INVALID);
    facts.pids_limit = false;
    asked = (struct limits){.pids = 10};
    assert_int_equal(body_limits(&d, &facts, &asked, &out, &e), -1);
    assert_int_equal(e.kind, ERR_UNSUPPORTED);
    asked = (struct limits){0};
    assert_ok(body_limits(&d, &facts, &asked, &out, &e), &e);
    assert_int_equal(out.pids, 0); /* not kept, and not claimed */
    facts.cpus = 0;
    d.defaults.cpu_millis = 64000;
    assert_ok(body_limits(&d, &facts, &asked, &out, &e), &e);
}

/* ---- the rest ------------------------------------------------------------------------ */

static void archives_are_read_back(void **state)
{
    struct buf tar own_buf = {0};
    struct str got = STR_EMPTY;
    const struct archive_entry folder = {S("d"), '5', 0755, 1, 2, STR_EMPTY};
    const struct archive_entry file = {S("d/f"), '0', 0644, 0, 0, S("contents")};

    (void)state;
    buf_init(&tar, 1u << 20);
    archive_add(&tar, &folder);
    archive_add(&tar, &file);
    archive_end(&tar);
    assert_int_equal(tar.len % 512, 0);
    assert_true(archive_first_file(buf_str(&tar), &got));
    assert_str(got, S("contents"));
    assert_false(archive_first_file(str_head(buf_str(&tar), 600), &got));
    assert_false(archive_first_file(S("short"), &got));
}

static void names_of_images(void **state)
{
    static const char *const good[] = {"a",
                                       "python:3.12-slim",
                                       "ghcr.io/o/n:t",
                                       "127.0.0.1:5000/x/y:z",
                                       "n@sha256:abcdef0123",
                                       "a__b",
                                       "a--b"};
    static const char *const bad[] = {"",     "-x", "../x", "a b", "a?b", "a#b",
                                      "a%2f", "/a", "a//b", "a\n", "a..b"};
    struct err e;

    (void)state;
    for (size_t i = 0; i < COUNTOF(good); i++) {
        assert_ok(image_check(str_from(good[i]), &e), &e);
    }
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        assert_int_equal(image_check(str_from(bad[i]), &e), -1);
    }
}

static void where_an_engine_is(void **state)
{
    static const struct {
        const char *host, *cert;
        int kind; /* -1: refused */
        const char *shown;
        unsigned port;
    } cases[] = {
        {"unix:///x/y.sock", "", WHERE_UNIX, "/x/y.sock", 0},
        {"/x/y.sock", "", WHERE_UNIX, "/x/y.sock", 0},
        {"tcp://h", "", WHERE_TCP, "h", 2375},
        {"tcp://h:1/", "/c", WHERE_TLS, "h", 1},
        {"tcp://[::1]:99", "", WHERE_TCP, "::1", 99},
        {"https://h", "", WHERE_TLS, "h", 2376},
        {"unix://rel", "", -1, NULL, 0},
        {"ssh://h", "", -1, NULL, 0},
        {"tcp://h:0", "", -1, NULL, 0},
        {"tcp://a/b:1", "", -1, NULL, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        struct arena a own_arena = {0};
        struct docker d = {
            .conf = {.host = str_from(cases[i].host), .cert_path = str_from(cases[i].cert)}};
        struct where w;
        struct err e;

        arena_init(&a, 1u << 16);
        int rc = engine_where(&d, &a, &w, &e);
        assert_int_equal(rc, cases[i].kind < 0 ? -1 : 0);
        if (rc == 0) {
            assert_int_equal(w.kind, cases[i].kind);
            assert_string_equal(w.kind == WHERE_UNIX ? w.path : w.host, cases[i].shown);
            assert_int_equal(w.port, cases[i].port);
        }
    }
}

static void only_labelled_containers_are_ours(void **state)
{
    struct arena a own_arena = {0};
    struct container c;
    static const char cid[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    (void)state;
    arena_init(&a, 1u << 20);
    struct str ours =
        arena_printf(&a,
                     "{\"Id\":\"%s\",\"State\":{\"Status\":\"exited\",\"ExitCode\":100},"
                     "\"Config\":{\"Labels\":{\"" LABEL_ID "\":\"" ID "\",\"" LABEL_INSTANCE
                     "\":\"" INSTANCE "\",\"" LABEL_IDLE "\":\"1800\"}},\"HostConfig\":"
                     "{\"Memory\":5,\"NetworkMode\":\"none\"}}",
                     cid);
    assert_true(container_read(parsed(&a, ours.p), &c));
    enum box_end kind;
    assert_str(container_reason(&c, &a, &kind), S("it was idle for 30 min"));
    assert_int_equal(kind, BOX_END_IDLE);
    assert_false(container_read(parsed(&a, "{\"Id\":\"x\",\"Config\":{\"Labels\":{}}}"), &c));
    assert_false(container_read(parsed(&a, "[]"), &c));
    struct str half = arena_printf(
        &a, "{\"Id\":\"%s\",\"Config\":{\"Labels\":{\"" LABEL_ID "\":\"" ID "\"}}}", cid);
    assert_false(container_read(parsed(&a, half.p), &c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_is_read),
        cmocka_unit_test(what_is_no_json_is_refused),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(quoted_text_comes_back),
        cmocka_unit_test(a_container_is_hardened),
        cmocka_unit_test(the_first_process_of_a_plain_one_keeps_its_times),
        cmocka_unit_test(frames_come_in_any_pieces),
        cmocka_unit_test(texts_of_callers_stay_texts),
        cmocka_unit_test(a_read_only_root_has_its_writable_folders),
        cmocka_unit_test(a_disk_in_memory_needs_an_owner),
        cmocka_unit_test(prepared_images_are_known_by_any_engines_name),
        cmocka_unit_test(limits_are_kept_or_refused),
        cmocka_unit_test(archives_are_read_back),
        cmocka_unit_test(names_of_images),
        cmocka_unit_test(where_an_engine_is),
        cmocka_unit_test(only_labelled_containers_are_ours),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
