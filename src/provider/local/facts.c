#include "provider/local/facts.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "provider/local/uids.h"

#define TEXT_MAX      (4u << 20)
#define CAP_SYS_ADMIN 21
#define NEWUIDMAP     "/usr/bin/newuidmap"
#define ONLY_VERSION  1u /* flag of landlock_create_ruleset() */

static struct str read_text(struct arena *a, const char *path)
{
    struct str text;
    struct err ignored;

    if (fd_read_file(AT_FDCWD, path, TEXT_MAX, a, &text, &ignored) < 0) {
        return STR_EMPTY;
    }
    return text;
}

/* A number in a file of /proc/sys; -1: there is no such file. */
static int64_t setting(struct arena *a, const char *path)
{
    struct err ignored;
    int64_t value = 0;

    if (str_to_i64(str_trim(read_text(a, path)), 0, INT64_MAX, &value, &ignored) < 0) {
        return -1;
    }
    return value;
}

/* The value of "Name:" in a status text; empty: it has no such line. */
static struct str status_value(struct str status, struct str name)
{
    while (status.len > 0) {
        struct str value = STR_EMPTY;
        struct str line = str_cut(status, '\n', &status);

        if (str_eq(str_cut(line, ':', &value), name)) {
            return str_trim(value);
        }
    }
    return STR_EMPTY;
}

static bool has_admin(struct str hex)
{
    uint64_t bits = 0;

    for (size_t i = 0; i < hex.len && i < 16; i++) {
        char c = hex.p[i];
        bool digit = c >= '0' && c <= '9';

        bits = bits << 4 | (uint64_t)(digit ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return (bits >> CAP_SYS_ADMIN & 1) != 0;
}

void facts_parse_status(struct str status, struct facts *out)
{
    struct str mode = status_value(status, S("Seccomp"));
    struct str bounding = status_value(status, S("CapBnd"));

    out->admin = has_admin(status_value(status, S("CapEff")));
    out->bounded = bounding.len > 0 && !has_admin(bounding);
    out->filtered = mode.len > 0 && !str_eq(mode, S("0"));
    out->no_new_privs = str_eq(status_value(status, S("NoNewPrivs")), S("1"));
}

void facts_parse_mounts(struct str mountinfo, struct facts *out)
{
    bool root = false;

    out->proc_hidden = false;
    for (struct str left = mountinfo; left.len > 0;) {
        struct str fields = str_cut(left, '\n', &left);
        struct str point = STR_EMPTY;

        for (int i = 0; i < 5; i++) {
            point = str_cut(fields, ' ', &fields);
        }
        root = root || str_eq(point, S("/"));
        /* systemd mounts it where it is first used; it hides an empty folder. */
        out->proc_hidden = out->proc_hidden || (str_starts(point, S("/proc/")) &&
                                                !str_eq(point, S("/proc/sys/fs/binfmt_misc")));
    }
    /* Only what is below our root is listed. */
    out->chrooted = mountinfo.len > 0 && !root;
}

enum container facts_container(const struct container_marks *m, bool rights_taken)
{
    static const struct {
        struct str word;
        enum container kind;
    } groups[] = {
        {{"kubepods", 8}, CONTAINER_KUBERNETES},  {{"libpod", 6}, CONTAINER_PODMAN},
        {{"docker", 6}, CONTAINER_DOCKER},        {{"lxc", 3}, CONTAINER_LXC},
        {{"machine.slice", 13}, CONTAINER_OTHER},
    };

    if (!rights_taken) {
        return CONTAINER_NONE;
    }
    if (m->kubernetes) {
        return CONTAINER_KUBERNETES;
    }
    /* Before the files: those of an image that was made in another container stay in it. */
    for (size_t i = 0; i < COUNTOF(groups); i++) {
        if (m->init_group.len > 0 && memmem(m->init_group.p, m->init_group.len, groups[i].word.p,
                                            groups[i].word.len) != NULL) {
            return groups[i].kind;
        }
    }
    if (m->containerenv || str_eq(m->manager, S("podman"))) {
        return CONTAINER_PODMAN;
    }
    if (m->dockerenv || str_eq(m->manager, S("docker"))) {
        return CONTAINER_DOCKER;
    }
    if (str_starts(m->manager, S("lxc"))) {
        return CONTAINER_LXC;
    }
    return m->manager.len > 0 ? CONTAINER_OTHER : CONTAINER_NONE;
}

static enum container read_container(struct arena *a, const struct facts *f)
{
    struct container_marks marks = {
        .dockerenv = access("/.dockerenv", F_OK) == 0,
        .containerenv = access("/run/.containerenv", F_OK) == 0,
        .kubernetes = getenv("KUBERNETES_SERVICE_HOST") != NULL ||
                      access("/var/run/secrets/kubernetes.io", F_OK) == 0,
        .manager = str_trim(read_text(a, "/run/systemd/container")),
        .init_group = read_text(a, "/proc/1/cgroup"),
    };

    return facts_container(&marks, f->filtered || f->bounded || f->proc_hidden);
}

static void read_least(struct arena *a, struct facts *out)
{
    static const char *const kinds[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};

    for (size_t i = 0; i < COUNTOF(kinds); i++) {
        struct str path = arena_printf(a, "/proc/sys/user/max_%s_namespaces", kinds[i]);
        int64_t value = setting(a, path.p);

        if (value >= 0 && (out->least_name.len == 0 || value < out->least)) {
            out->least_name = arena_printf(a, "user.max_%s_namespaces", kinds[i]);
            out->least = value;
        }
    }
}

struct str facts_parse_label(struct str current)
{
    struct str label = str_trim(current);

    while (label.len > 0 && (label.p[label.len - 1] == '\0' || label.p[label.len - 1] == '\n')) {
        label.len--;
    }
    /* A profile of this mode is a name and nothing else, as those that Ubuntu has for
     * browsers and editors are. */
    if (str_ends(label, S(" (unconfined)"))) {
        return S("unconfined");
    }
    for (size_t i = 0; i + 1 < label.len; i++) {
        if (label.p[i] == ' ' && label.p[i + 1] == '(') {
            return str_head(label, i);
        }
    }
    return label;
}

static struct str read_label(struct arena *a)
{
    struct str text = read_text(a, "/proc/self/attr/apparmor/current");

    return facts_parse_label(text.len > 0 ? text : read_text(a, "/proc/self/attr/current"));
}

/* A root of its own that is the top of a mount shows in no list. */
static bool has_other_root(void)
{
    struct stat own_space, init_space, own, init;

    return stat("/proc/self/ns/mnt", &own_space) == 0 && stat("/proc/1/ns/mnt", &init_space) == 0 &&
           own_space.st_ino == init_space.st_ino && stat("/", &own) == 0 &&
           stat("/proc/1/root/", &init) == 0 &&
           (own.st_dev != init.st_dev || own.st_ino != init.st_ino);
}

static bool is_weak(const char *program)
{
    struct stat is;

    return stat(program, &is) == 0 && ((is.st_mode & S_ISUID) == 0 || is.st_uid != 0) &&
           getxattr(program, "security.capability", NULL, 0) <= 0;
}

int facts_landlock(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, ONLY_VERSION);

    return abi > 0 ? (int)abi : 0;
}

void facts_read(struct arena *a, const char *boxinit, struct facts *out)
{
    char *real own_mem = boxinit != NULL ? realpath(boxinit, NULL) : NULL;

    *out = (struct facts){
        .no_userns = access("/proc/self/ns/user", F_OK) < 0,
        .userns_clone = setting(a, "/proc/sys/kernel/unprivileged_userns_clone"),
        .apparmor_userns = setting(a, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
        .label = read_label(a),
        .weak_newuidmap = is_weak(NEWUIDMAP),
        .systemd = access("/run/systemd/system", F_OK) == 0,
        .manager =
            access(arena_printf(a, "/run/user/%u/systemd", (unsigned)geteuid()).p, F_OK) == 0,
        .unified = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0,
        .root = geteuid() == 0,
        .boxinit = arena_str(a, str_from(real)),
    };
    facts_parse_status(read_text(a, "/proc/self/status"), out);
    facts_parse_mounts(read_text(a, "/proc/self/mountinfo"), out);
    out->chrooted = out->chrooted || has_other_root();
    out->container = read_container(a, out);
    read_least(a, out);
}
