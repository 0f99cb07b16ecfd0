#include "boxinit/spec.h"

#include <arpa/inet.h>
#include <poll.h>
#include <string.h>

#include "agent/proto.h"
#include "agent/wire.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/path.h"

enum { NET_NONE, NET_INTERNET, NET_HOST };

/* What a box always has of its own: nothing of the host may be shown there. */
static const char *const own_places[] = {"/",     "/proc",    "/dev",  "/sys",       "/etc",
                                         "/run",  "/tmp",     "/home", "/workspace", "/var",
                                         "/root", "/var/tmp", BOX_HOME};

/* Files below /etc that are made for the box (etc.c). */
static const char *const own_etc[] = {"passwd",      "group",         "hosts",
                                      "resolv.conf", "nsswitch.conf", "hostname"};

static bool is_one_of(struct str s, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (str_eq(s, str_from(names[i]))) {
            return true;
        }
    }
    return false;
}

static int check_ro_bind(struct arena *a, struct str path, struct err *e)
{
    static const char *const closed[] = {"/proc", "/sys", "/dev"};

    if (!path_is_absolute(path) || !str_eq(path, path_clean(a, path))) {
        return err_set(e, ERR_INVALID, "ro_binds: \"%.*s\" is not a clean absolute path",
                       STR_ARG(path));
    }
    if (is_one_of(path, own_places, COUNTOF(own_places))) {
        return err_set(e, ERR_INVALID, "ro_binds: a sandbox has its own %.*s", STR_ARG(path));
    }
    for (size_t i = 0; i < COUNTOF(closed); i++) {
        if (path_inside(path, str_from(closed[i]))) {
            return err_set(e, ERR_INVALID, "ro_binds: nothing of the host's %s may be shown",
                           closed[i]);
        }
    }
    return 0;
}

static int check_etc_bind(struct arena *a, struct str name, struct err *e)
{
    if (path_is_absolute(name) || str_starts(name, S("..")) || str_eq(name, S(".")) ||
        !str_eq(name, path_clean(a, name))) {
        return err_set(e, ERR_INVALID, "etc_binds: \"%.*s\" is not a clean name below /etc",
                       STR_ARG(name));
    }
    if (is_one_of(name, own_etc, COUNTOF(own_etc))) {
        return err_set(e, ERR_INVALID, "etc_binds: a sandbox has its own /etc/%.*s", STR_ARG(name));
    }
    return 0;
}

static int check_cgroup(struct arena *a, struct str path, struct err *e)
{
    (void)a;
    if (!path_is_absolute(path)) {
        return err_set(e, ERR_INVALID, "cgroup_procs: \"%.*s\" is not an absolute path",
                       STR_ARG(path));
    }
    return 0;
}

typedef int check_fn(struct arena *a, struct str item, struct err *e);

/* A list of strings for C interfaces, each checked. */
static int copy_list(const struct str *items, size_t n, struct arena *a, check_fn *check,
                     const char *const **out, struct err *e)
{
    const char **copy = arena_alloc(a, n + 1, sizeof(*copy));

    for (size_t i = 0; i < n; i++) {
        if (str_has(items[i], '\0') || items[i].len == 0 || items[i].len >= PATH_MAX_BYTES) {
            return err_set(e, ERR_INVALID, "a path in the spec is empty, too long or holds a NUL");
        }
        if (check(a, items[i], e) < 0) {
            return -1;
        }
        copy[i] = arena_cstr(a, items[i]);
    }
    *out = copy;
    return 0;
}

static int copy_env(const struct str *items, size_t n, struct arena *a, struct spec *out,
                    struct err *e)
{
    struct str *copy = arena_alloc(a, n + 1, sizeof(*copy));

    for (size_t i = 0; i < n; i++) {
        struct str value;

        if (str_has(items[i], '\0') || !str_has(items[i], '=') ||
            str_cut(items[i], '=', &value).len == 0) {
            return err_set(e, ERR_INVALID, "env: \"%.*s\" is not NAME=value",
                           STR_ARG(str_head(items[i], 80)));
        }
        copy[i] = arena_str(a, items[i]);
    }
    out->env = copy;
    out->n_env = n;
    return 0;
}

static bool hostname_ok(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.p[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '-' || c == '.')) {
            return false;
        }
    }
    return s.len > 0 && s.len <= 64;
}

static int check_ids(uint8_t mode, const struct spec *s, struct err *e)
{
    if (mode > UIDS_HELPER) {
        return err_set(e, ERR_INVALID, "uid mode %u; 0, 1 and 2 are known", mode);
    }
    if (mode == UIDS_ONE) {
        return 0;
    }
    if (s->range <= BOX_UID || s->first_uid == 0 || s->first_gid == 0 ||
        s->range > UINT32_MAX - s->first_uid || s->range > UINT32_MAX - s->first_gid) {
        return err_set(e, ERR_INVALID,
                       "a range of %u uids from %u and gids from %u; it must hold more than %d and "
                       "not begin at 0",
                       s->range, s->first_uid, s->first_gid, BOX_UID);
    }
    return 0;
}

static int check_file(struct str path, struct arena *a, const char **out, struct err *e)
{
    if (str_has(path, '\0') || (path.len > 0 && !path_is_absolute(path))) {
        return err_set(e, ERR_INVALID, "\"%.*s\" is not an absolute path", STR_ARG(path));
    }
    *out = arena_cstr(a, path);
    return 0;
}

/* The frame's fields as they come, before they are checked. */
struct raw_spec {
    struct str oom_file, memory_file, pids_file, net_program, image, resolv_conf, hosts;
    const struct str *ro_binds, *etc_binds, *cgroups, *closed;
    size_t n_ro_binds, n_etc_binds, n_cgroups, n_closed;
    uint8_t uid_mode, network;
};

static int copy_network(const struct raw_spec *raw, struct arena *a, struct spec *out,
                        struct err *e)
{
    struct in_addr *copy = arena_alloc(a, raw->n_closed + 1, sizeof(*copy));

    if (raw->network != NET_INTERNET) {
        out->host_net = raw->network == NET_HOST;
        out->resolv_conf = arena_str(a, raw->resolv_conf);
        out->hosts = arena_str(a, raw->hosts);
        return 0;
    }
    if (raw->net_program.len == 0) {
        return err_set(e, ERR_INVALID, "net_program: a network needs slirp4netns's path");
    }
    for (size_t i = 0; i < raw->n_closed; i++) {
        if (str_has(raw->closed[i], '\0') ||
            inet_pton(AF_INET, arena_cstr(a, raw->closed[i]), &copy[i]) != 1) {
            return err_set(e, ERR_INVALID, "closed: \"%.*s\" is not an IPv4 address",
                           STR_ARG(str_head(raw->closed[i], 80)));
        }
    }
    out->closed = copy;
    out->n_closed = raw->n_closed;
    return check_file(raw->net_program, a, &out->net_program, e);
}

static bool get_fields(struct str fields, struct arena *a, struct raw_spec *raw, struct spec *out)
{
    struct wire_in in = wire_read(fields);

    raw->uid_mode = wire_get_u8(&in);
    out->first_uid = wire_get_u32(&in);
    out->first_gid = wire_get_u32(&in);
    out->range = wire_get_u32(&in);
    raw->n_ro_binds = wire_get_list(&in, a, SPEC_BINDS_MAX, &raw->ro_binds);
    raw->n_etc_binds = wire_get_list(&in, a, SPEC_BINDS_MAX, &raw->etc_binds);
    raw->n_cgroups = wire_get_list(&in, a, SPEC_CGROUPS_MAX, &raw->cgroups);
    raw->oom_file = wire_get_str(&in);
    raw->memory_file = wire_get_str(&in);
    raw->pids_file = wire_get_str(&in);
    raw->network = wire_get_u8(&in);
    out->keep_fd = wire_get_u8(&in) != 0;
    out->scoped = wire_get_u8(&in) != 0;
    raw->image = wire_get_str(&in);
    if (raw->network == NET_INTERNET) {
        raw->net_program = wire_get_str(&in);
        raw->n_closed = wire_get_list(&in, a, SPEC_CLOSED_MAX, &raw->closed);
    }
    if (raw->network == NET_HOST) {
        raw->resolv_conf = wire_get_str(&in);
        raw->hosts = wire_get_str(&in);
    }
    return wire_done(&in);
}

static int copy_image(const struct raw_spec *raw, struct arena *a, struct spec *out, struct err *e)
{
    if (raw->image.len == 0) {
        return 0;
    }
    if (raw->image.len < 2 || raw->image.len >= PATH_MAX_BYTES || str_has(raw->image, '\0') ||
        !path_is_absolute(raw->image) || !str_eq(raw->image, path_clean(a, raw->image))) {
        return err_set(e, ERR_INVALID, "image: \"%.*s\" is not a clean absolute path of a folder",
                       STR_ARG(str_head(raw->image, 200)));
    }
    if (raw->uid_mode == UIDS_ONE) {
        return err_set(e, ERR_UNSUPPORTED, "image: a range of uids is needed");
    }
    if (raw->n_ro_binds > 0 || raw->n_etc_binds > 0) {
        return err_set(e, ERR_INVALID, "image: nothing of the host is shown beside it");
    }
    out->image = arena_cstr(a, raw->image);
    return 0;
}

static int other_version(struct err *e)
{
    return err_set(e, ERR_PROTOCOL,
                   "the spec cannot be read: server and boxinit are not of one version");
}

int spec_parse(struct str fields, struct arena *a, struct spec *out, struct err *e)
{
    struct spec s = {.arena = a};
    struct raw_spec raw = {0};

    if (!get_fields(fields, a, &raw, &s)) {
        return other_version(e);
    }
    if (raw.network > NET_HOST) {
        return err_set(e, ERR_UNSUPPORTED,
                       "network %u; none (0), internet (1) and host (2) are known", raw.network);
    }
    if (raw.network == NET_HOST && !s.scoped) {
        return err_set(e, ERR_INVALID, "network host (2) needs the scopes of Landlock");
    }
    if (check_ids(raw.uid_mode, &s, e) < 0 ||
        copy_list(raw.ro_binds, raw.n_ro_binds, a, check_ro_bind, &s.ro_binds, e) < 0 ||
        copy_list(raw.etc_binds, raw.n_etc_binds, a, check_etc_bind, &s.etc_binds, e) < 0 ||
        copy_list(raw.cgroups, raw.n_cgroups, a, check_cgroup, &s.cgroup_procs, e) < 0 ||
        check_file(raw.oom_file, a, &s.oom_file, e) < 0 ||
        check_file(raw.memory_file, a, &s.memory_file, e) < 0 ||
        check_file(raw.pids_file, a, &s.pids_file, e) < 0 || copy_image(&raw, a, &s, e) < 0 ||
        copy_network(&raw, a, &s, e) < 0) {
        return -1;
    }
    s.uid_mode = (enum uid_mode)raw.uid_mode;
    s.n_ro_binds = raw.n_ro_binds;
    s.n_etc_binds = raw.n_etc_binds;
    s.n_cgroup_procs = raw.n_cgroups;
    s.home = s.image != NULL ? BOX_ROOT_HOME : BOX_HOME;
    s.work_dir = BOX_WORK_DIR;
    s.kept_dir = KEPT_DIR;
    *out = s;
    return 0;
}

void spec_settle(struct spec *s)
{
    s->n_ro_binds = 0;
    s->n_etc_binds = 0;
    s->n_cgroup_procs = 0;
    s->n_closed = 0;
    s->image = s->image != NULL ? "" : NULL;
    s->net_program = s->net_program != NULL ? "" : NULL;
    s->oom_file = "";
    s->memory_file = "";
    s->pids_file = "";
    s->resolv_conf = STR_EMPTY;
    s->hosts = STR_EMPTY;
    arena_fini(s->arena);
}

/* ---- the order --------------------------------------------------------------- */

static int check_order(struct str hostname, const struct spec *s, struct err *e)
{
    if (!hostname_ok(hostname)) {
        return err_set(e, ERR_INVALID,
                       "hostname \"%.*s\": 1 to 64 letters, digits, '-' and '.' are accepted",
                       STR_ARG(hostname));
    }
    if (s->disk_bytes < SPEC_DISK_MIN || s->disk_bytes > INT64_MAX) {
        return err_set(e, ERR_INVALID, "disk_bytes %llu; at least %u are needed",
                       (unsigned long long)s->disk_bytes, SPEC_DISK_MIN);
    }
    if (s->lifetime_ms > INT64_MAX / 2 || s->idle_ms > INT64_MAX / 2) {
        return err_set(e, ERR_INVALID, "lifetime_ms or idle_ms is too large");
    }
    return 0;
}

int spec_parse_order(struct str fields, struct arena *a, struct spec *out, struct err *e)
{
    struct wire_in in = wire_read(fields);
    struct spec s = *out;
    const struct str *env = NULL;
    struct str hostname = wire_get_str(&in);
    size_t n_env = wire_get_list(&in, a, ENV_MAX, &env);

    s.disk_bytes = wire_get_u64(&in);
    s.memory_bytes = wire_get_u64(&in);
    s.pids = wire_get_u32(&in);
    s.open_files = wire_get_u32(&in);
    s.memory_limit = wire_get_u64(&in);
    s.pids_limit = wire_get_u32(&in);
    s.lifetime_ms = wire_get_u64(&in);
    s.idle_ms = wire_get_u64(&in);
    if (!wire_done(&in)) {
        return other_version(e);
    }
    if (check_order(hostname, &s, e) < 0 || copy_env(env, n_env, a, &s, e) < 0) {
        return -1;
    }
    s.hostname = arena_cstr(a, hostname);
    *out = s;
    return 0;
}

/* ---- reading ----------------------------------------------------------------- */

/* One more piece; 0 at the end. */
static ssize_t read_more(int fd, struct buf *to, struct err *e)
{
    char *room = buf_room(to, 4096);
    ssize_t n;

    if (room == NULL) {
        return err_set(e, ERR_PROTOCOL, "the spec is longer than a frame may be");
    }
    n = fd_read(fd, room, 4096, e);
    if (n > 0) {
        to->len += (size_t)n;
    }
    return n;
}

int spec_parse_frame(struct str bytes, struct arena *a, struct spec *out, struct err *e)
{
    struct frame frame;
    ssize_t n = wire_parse(bytes, &frame, e);

    if (n < 0) {
        return err_wrap(e, "read the spec");
    }
    if (n == 0 || (size_t)n != bytes.len || frame.type != FRAME_SPEC) {
        return err_set(e, ERR_PROTOCOL, "one spec frame is expected, and nothing behind it");
    }
    return spec_parse(frame.fields, a, out, e);
}

int spec_read(int fd, struct arena *a, struct spec *out, struct err *e)
{
    struct buf bytes own_buf = {0};
    ssize_t n;

    buf_init(&bytes, FRAME_MAX + FRAME_HEADER);
    do {
        n = read_more(fd, &bytes, e);
    } while (n > 0);
    if (n < 0) {
        return err_wrap(e, "read the spec");
    }
    return spec_parse_frame(buf_str(&bytes), a, out, e);
}

int spec_read_order(int fd, struct arena *a, struct spec *out, struct err *e)
{
    struct buf bytes own_buf = {0};
    struct frame frame;
    ssize_t n = 0;

    buf_init(&bytes, FRAME_MAX + FRAME_HEADER);
    while (n == 0) {
        struct pollfd readable = {.fd = fd, .events = POLLIN};

        if (poll(&readable, 1, ORDER_WAIT_MS) <= 0 || read_more(fd, &bytes, e) <= 0) {
            return err_set(e, ERR_CANCELLED, "nobody wants the sandbox any more");
        }
        n = wire_parse(buf_str(&bytes), &frame, e);
    }
    if (n < 0 || (size_t)n != bytes.len || frame.type != FRAME_ORDER) {
        return err_set(e, ERR_PROTOCOL, "descriptor %d must give one order", fd);
    }
    return spec_parse_order(frame.fields, a, out, e);
}
