/* Where this process is in the machine's cgroup hierarchies, from what /proc tells. */
#include <fcntl.h>

#include "base/fd.h"
#include "provider/local/cgroup.h"

#define PROC_TEXT_MAX (4u << 20)

static const char *const controller_names[CONTROLS] = {
    [CONTROL_MEMORY] = "memory",
    [CONTROL_CPU] = "cpu",
    [CONTROL_PIDS] = "pids",
};

static bool has_word(struct str list, struct str wanted)
{
    while (list.len > 0) {
        if (str_eq(str_cut(list, ',', &list), wanted)) {
            return true;
        }
    }
    return false;
}

/* The path in /proc/self/cgroup of the hierarchy with this controller; an empty name
 * means version 2. */
static bool path_of(struct str self_cgroup, struct str controller, struct str *out)
{
    while (self_cgroup.len > 0) {
        struct str line = str_cut(self_cgroup, '\n', &self_cgroup);
        struct str rest = STR_EMPTY;
        (void)str_cut(line, ':', &rest);
        struct str names = str_cut(rest, ':', &rest);
        bool hit = controller.len == 0 ? names.len == 0 : has_word(names, controller);
        if (hit && rest.len > 0 && rest.p[0] == '/') {
            *out = rest;
            return true;
        }
    }
    return false;
}

static bool is_octal(struct str s)
{
    return s.len == 3 && s.p[0] >= '0' && s.p[0] <= '3' && s.p[1] >= '0' && s.p[1] <= '7' &&
           s.p[2] >= '0' && s.p[2] <= '7';
}

/* mountinfo writes blanks and the like as \ooo. */
static struct str unescape(struct arena *a, struct str s)
{
    char *to = arena_alloc(a, 1, s.len + 1);
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        if (s.p[i] == '\\' && is_octal(str_head(str_skip(s, i + 1), 3))) {
            to[n++] =
                (char)((s.p[i + 1] - '0') << 6 | (s.p[i + 2] - '0') << 3 | (s.p[i + 3] - '0'));
            i += 3;
        } else {
            to[n++] = s.p[i];
        }
    }
    return (struct str){to, n};
}

struct mount {
    struct str root, point, type, options;
};

static bool parse_mount(struct arena *a, struct str line, struct mount *out)
{
    struct str left = line;
    for (int i = 0; i < 3; i++) {
        (void)str_cut(left, ' ', &left);
    }
    out->root = unescape(a, str_cut(left, ' ', &left));
    out->point = unescape(a, str_cut(left, ' ', &left));
    while (left.len > 0 && !str_eq(str_cut(left, ' ', &left), S("-"))) {
    }
    out->type = str_cut(left, ' ', &left);
    (void)str_cut(left, ' ', &left);
    out->options = str_cut(left, ' ', &left);
    return out->point.len > 0 && out->type.len > 0;
}

/* Our cgroup as a folder below this mount, when the mount shows it. */
static bool locate(struct arena *a, const struct mount *m, struct str path, struct cgroup_at *out)
{
    struct str below = path;
    if (!str_eq(m->root, S("/"))) {
        if (!str_starts(path, m->root)) {
            return false;
        }
        below = str_skip(path, m->root.len);
        if (below.len > 0 && below.p[0] != '/') {
            return false;
        }
    }
    if (str_starts(below, S("/.."))) {
        return false;
    }
    bool is_root = below.len <= 1;
    out->mount = m->point;
    out->own = is_root ? m->point : arena_printf(a, "%.*s%.*s", STR_ARG(m->point), STR_ARG(below));
    return true;
}

static void use_mount(struct arena *a, const struct mount *m, struct str self_cgroup,
                      struct cgroup_host *out)
{
    struct str path;
    if (str_eq(m->type, S("cgroup2"))) {
        if (out->v2.mount.len == 0 && path_of(self_cgroup, STR_EMPTY, &path)) {
            (void)locate(a, m, path, &out->v2);
        }
        return;
    }
    for (int c = 0; c < CONTROLS && str_eq(m->type, S("cgroup")); c++) {
        struct str name = str_from(controller_names[c]);
        if (out->v1[c].mount.len == 0 && has_word(m->options, name) &&
            path_of(self_cgroup, name, &path)) {
            (void)locate(a, m, path, &out->v1[c]);
        }
    }
}

void cgroup_parse_host(struct arena *a, struct str self_cgroup, struct str mountinfo,
                       struct cgroup_host *out)
{
    *out = (struct cgroup_host){0};
    while (mountinfo.len > 0) {
        struct mount m;
        if (parse_mount(a, str_cut(mountinfo, '\n', &mountinfo), &m)) {
            use_mount(a, &m, self_cgroup, out);
        }
    }
}

void cgroup_host_read(struct arena *a, struct cgroup_host *out)
{
    struct str self_cgroup = STR_EMPTY;
    struct str mountinfo = STR_EMPTY;
    struct err ignored;
    if (fd_read_file(AT_FDCWD, "/proc/self/cgroup", PROC_TEXT_MAX, a, &self_cgroup, &ignored) < 0 ||
        fd_read_file(AT_FDCWD, "/proc/self/mountinfo", PROC_TEXT_MAX, a, &mountinfo, &ignored) <
            0) {
        *out = (struct cgroup_host){0};
        return;
    }
    cgroup_parse_host(a, self_cgroup, mountinfo, out);
    scope_find(a, out->v2.mount, &out->manager);
}

void cgroup_host_refused(struct cgroup_host *host)
{
    host->manager = (struct scope_manager){0};
    host->v2 = (struct cgroup_at){0};
}
