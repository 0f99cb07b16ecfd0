#include <fcntl.h>
#include <unistd.h>

#include "agent/proto.h"
#include "agent/wire.h"
#include "boxinit/spec.h"
#include "test.h"

/* A spec with one thing changed. */
struct draft {
    struct str hostname, ro_bind, etc_bind, env, oom_file, net_program, closed, image;
    uint8_t uid_mode, network, scoped;
    uint32_t first, range;
    uint64_t disk;
};

static const struct draft good = {
    .hostname = {"box-1", 5},
    .ro_bind = {"/usr", 4},
    .etc_bind = {"ssl/certs", 9},
    .env = {"A=1", 3},
    .uid_mode = UIDS_WRITE,
    .first = 100000,
    .range = 65536,
    .disk = 1 << 20,
    .net_program = {"/usr/bin/slirp4netns", 20},
    .closed = {"192.0.2.7", 9},
};

static void put(struct buf *to, const struct draft *d)
{
    struct wire_out w = wire_begin(to, FRAME_SPEC);

    wire_u8(&w, d->uid_mode);
    wire_u32(&w, d->first);
    wire_u32(&w, d->first);
    wire_u32(&w, d->range);
    wire_list(&w, &d->ro_bind, d->ro_bind.len > 0 ? 1 : 0);
    wire_list(&w, &d->etc_bind, d->etc_bind.len > 0 ? 1 : 0);
    wire_list(&w, NULL, 0);
    wire_str(&w, d->oom_file);
    wire_str(&w, STR_EMPTY);
    wire_str(&w, S("/sys/fs/cgroup/pids.events"));
    wire_u8(&w, d->network);
    wire_u8(&w, 1);
    wire_u8(&w, d->scoped);
    wire_str(&w, d->image);
    if (d->network == 1) {
        wire_str(&w, d->net_program);
        wire_list(&w, &d->closed, 1);
    }
    if (d->network == 2) {
        wire_str(&w, S("nameserver 192.0.2.1\n"));
        wire_str(&w, S("192.0.2.2 printer\n"));
    }
    assert_true(wire_end(&w));
}

static void put_order(struct buf *to, const struct draft *d)
{
    struct wire_out w = wire_begin(to, FRAME_ORDER);

    wire_str(&w, d->hostname);
    wire_list(&w, &d->env, 1);
    wire_u64(&w, d->disk);
    wire_u64(&w, 1 << 30);
    wire_u32(&w, 50);
    wire_u32(&w, 1024);
    wire_u64(&w, 7);
    wire_u32(&w, 8);
    wire_u64(&w, 1000);
    wire_u64(&w, 2000);
    assert_true(wire_end(&w));
}

/* The spec, then the order for it. */
static int parse(const struct draft *d, struct arena *a, struct spec *out, struct err *e)
{
    struct buf b own_buf = {0};
    struct frame f;

    buf_init(&b, 1 << 16);
    put(&b, d);
    assert_int_equal(wire_parse(buf_str(&b), &f, e), b.len);
    if (spec_parse(f.fields, a, out, e) < 0) {
        return -1;
    }
    buf_clear(&b);
    put_order(&b, d);
    assert_int_equal(wire_parse(buf_str(&b), &f, e), b.len);
    return spec_parse_order(f.fields, a, out, e);
}

static void a_good_one_is_read(void **state)
{
    struct arena a own_arena = {0};
    struct spec s;
    struct err e;

    (void)state;
    arena_init(&a, 1 << 20);
    assert_ok(parse(&good, &a, &s, &e), &e);
    assert_string_equal(s.hostname, "box-1");
    assert_int_equal(s.uid_mode, UIDS_WRITE);
    assert_int_equal(s.first_uid, 100000);
    assert_int_equal(s.range, 65536);
    assert_int_equal(s.n_ro_binds, 1);
    assert_string_equal(s.ro_binds[0], "/usr");
    assert_string_equal(s.etc_binds[0], "ssl/certs");
    assert_str(s.env[0], S("A=1"));
    assert_int_equal(s.disk_bytes, 1 << 20);
    assert_int_equal(s.memory_bytes, 1 << 30);
    assert_int_equal(s.pids, 50);
    assert_int_equal(s.open_files, 1024);
    assert_string_equal(s.oom_file, "");
    assert_string_equal(s.pids_file, "/sys/fs/cgroup/pids.events");
    assert_int_equal(s.memory_limit, 7);
    assert_int_equal(s.pids_limit, 8);
    assert_int_equal(s.lifetime_ms, 1000);
    assert_int_equal(s.idle_ms, 2000);
    assert_true(s.keep_fd);
    assert_null(s.net_program);
    assert_true(!s.host_net && !s.scoped);
    assert_null(s.image);
    assert_false(spec_shares_uid(&s));
}

static void an_image_is_read_and_checked(void **state)
{
    static const char *const wrong[] = {"/", "srv/x", "/srv/", "/srv/../x", "/srv//x"};
    struct arena a own_arena = {0};
    struct draft d = good;
    struct spec s;
    struct err e;

    (void)state;
    arena_init(&a, 1 << 20);
    d.image = S("/srv/debian");
    assert_fails(parse(&d, &a, &s, &e), &e, ERR_INVALID, "nothing of the host");
    d.ro_bind = d.etc_bind = STR_EMPTY;
    assert_ok(parse(&d, &a, &s, &e), &e);
    assert_string_equal(s.image, "/srv/debian");
    assert_true(spec_shares_uid(&s));
    d.uid_mode = UIDS_ONE;
    assert_fails(parse(&d, &a, &s, &e), &e, ERR_UNSUPPORTED, "range of uids");
    d.uid_mode = UIDS_HELPER;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        d.image = str_from(wrong[i]);
        assert_fails(parse(&d, &a, &s, &e), &e, ERR_INVALID, "clean absolute path");
    }
    d.image = S("/a\0b");
    assert_fails(parse(&d, &a, &s, &e), &e, ERR_INVALID, "clean absolute path");
}

static void what_only_building_needs_is_freed(void **state)
{
    struct arena a own_arena = {0};
    struct draft d = good;
    struct spec s;
    struct err e;

    (void)state;
    arena_init(&a, 1 << 20);
    assert_ok(parse(&d, &a, &s, &e), &e);
    assert_true(a.used > 0);
    spec_settle(&s);
    assert_int_equal(a.used, 0);
    assert_int_equal(s.n_ro_binds + s.n_etc_binds + s.n_cgroup_procs + s.n_closed, 0);
    assert_string_equal(s.pids_file, "");
    assert_null(s.image);
    assert_false(spec_shares_uid(&s));
    assert_string_equal(s.work_dir, "/workspace");
    assert_int_equal(s.pids, 50);
    d.image = S("/srv/debian");
    d.ro_bind = d.etc_bind = STR_EMPTY;
    assert_ok(parse(&d, &a, &s, &e), &e);
    spec_settle(&s);
    assert_true(spec_shares_uid(&s));
}

static void a_network_is_read_and_checked(void **state)
{
    struct arena a own_arena = {0};
    struct draft d = good;
    struct spec s;
    struct err e;

    (void)state;
    arena_init(&a, 1 << 20);
    d.network = 1;
    assert_ok(parse(&d, &a, &s, &e), &e);
    assert_string_equal(s.net_program, "/usr/bin/slirp4netns");
    assert_int_equal(s.n_closed, 1);
    assert_int_equal(s.closed[0].s_addr, htonl(0xc0000207));
    d.closed = S("192.0.2.0/24");
    assert_fails(parse(&d, &a, &s, &e), &e, ERR_INVALID, "not an IPv4 address");
    d.closed = good.closed;
    d.net_program = S("");
    assert_fails(parse(&d, &a, &s, &e), &e, ERR_INVALID, "net_program");
    d.net_program = S("slirp4netns");
    assert_fails(parse(&d, &a, &s, &e), &e, ERR_INVALID, "absolute");
}

static void the_hosts_network_comes_with_names_and_scopes(void **state)
{
    struct arena a own_arena = {0};
    struct draft d = good;
    struct spec s;
    struct err e;

    (void)state;
    arena_init(&a, 1 << 20);
    d.network = 2;
    d.scoped = 1;
    assert_ok(parse(&d, &a, &s, &e), &e);
    assert_true(s.host_net && s.scoped);
    assert_null(s.net_program);
    assert_str(s.resolv_conf, S("nameserver 192.0.2.1\n"));
    assert_str(s.hosts, S("192.0.2.2 printer\n"));
    d.scoped = 0;
    assert_fails(parse(&d, &a, &s, &e), &e, ERR_INVALID, "Landlock");
}

#define REFUSED(field, value, kind, word)                                                          \
    do {                                                                                           \
        struct draft d_ = good;                                                                    \
        d_.field = (value);                                                                        \
        assert_fails(parse(&d_, &a, &s, &e), &e, kind, word);                                      \
    } while (0)

static void bad_ones_are_told(void **state)
{
    struct arena a own_arena = {0};
    struct spec s;
    struct err e;

    (void)state;
    arena_init(&a, 1 << 20);
    REFUSED(hostname, S(""), ERR_INVALID, "hostname");
    REFUSED(hostname, S("a b"), ERR_INVALID, "hostname");
    REFUSED(uid_mode, 3, ERR_INVALID, "uid mode 3");
    REFUSED(first, 0, ERR_INVALID, "range");
    REFUSED(first, UINT32_MAX, ERR_INVALID, "range");
    REFUSED(range, 1000, ERR_INVALID, "range");
    REFUSED(disk, 100, ERR_INVALID, "disk_bytes");
    REFUSED(disk, UINT64_MAX, ERR_INVALID, "disk_bytes");
    REFUSED(network, 3, ERR_UNSUPPORTED, "network");
    REFUSED(env, S("x"), ERR_INVALID, "NAME=value");
    REFUSED(env, S("=x"), ERR_INVALID, "NAME=value");
    REFUSED(ro_bind, S("usr"), ERR_INVALID, "absolute");
    REFUSED(ro_bind, S("/usr/"), ERR_INVALID, "clean");
    REFUSED(ro_bind, S("/usr/../etc"), ERR_INVALID, "clean");
    REFUSED(ro_bind, S("/"), ERR_INVALID, "its own");
    REFUSED(ro_bind, S("/home"), ERR_INVALID, "its own");
    REFUSED(ro_bind, S("/proc/1"), ERR_INVALID, "/proc");
    REFUSED(ro_bind, S("/dev/sda"), ERR_INVALID, "/dev");
    REFUSED(ro_bind, S("/a\0b"), ERR_INVALID, "NUL");
    REFUSED(etc_bind, S("passwd"), ERR_INVALID, "its own");
    REFUSED(etc_bind, S("../root"), ERR_INVALID, "clean");
    REFUSED(etc_bind, S("a/../passwd"), ERR_INVALID, "clean");
    REFUSED(etc_bind, S("/ssl"), ERR_INVALID, "clean");
    REFUSED(oom_file, S("memory.events"), ERR_INVALID, "absolute");
}

static int read_bytes(struct str bytes, struct arena *a, struct spec *out, struct err *e)
{
    int fds[2];
    int rc;

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(write(fds[1], bytes.p, bytes.len), bytes.len);
    assert_int_equal(close(fds[1]), 0);
    rc = spec_read(fds[0], a, out, e);
    assert_int_equal(close(fds[0]), 0);
    return rc;
}

static void exactly_one_frame_is_wanted(void **state)
{
    struct arena a own_arena = {0};
    struct buf b own_buf = {0};
    struct spec s;
    struct err e;

    (void)state;
    arena_init(&a, 1 << 20);
    buf_init(&b, 1 << 16);
    put(&b, &good);
    assert_ok(read_bytes(buf_str(&b), &a, &s, &e), &e);
    assert_fails(read_bytes(str_head(buf_str(&b), b.len - 1), &a, &s, &e), &e, ERR_PROTOCOL,
                 "one spec frame");
    assert_fails(read_bytes(S("\x01\0\0\0\x64"), &a, &s, &e), &e, ERR_PROTOCOL, "version");
    assert_fails(read_bytes(S("\x01\0\0\0\x01"), &a, &s, &e), &e, ERR_PROTOCOL, "one spec frame");
    assert_fails(read_bytes(S("\0\0\0\0"), &a, &s, &e), &e, ERR_PROTOCOL, "0 bytes");
    buf_addc(&b, 'x');
    assert_fails(read_bytes(buf_str(&b), &a, &s, &e), &e, ERR_PROTOCOL, "one spec frame");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_one_is_read),
        cmocka_unit_test(an_image_is_read_and_checked),
        cmocka_unit_test(what_only_building_needs_is_freed),
        cmocka_unit_test(a_network_is_read_and_checked),
        cmocka_unit_test(the_hosts_network_comes_with_names_and_scopes),
        cmocka_unit_test(bad_ones_are_told),
        cmocka_unit_test(exactly_one_frame_is_wanted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
