#include "provider/local/obstacle.h"

#include <errno.h>

#include "base/attr.h"

#define PROFILE "/etc/apparmor.d/anybox-boxinit"

static bool set(struct obstacle *out, struct str found, struct str fix)
{
    *out = (struct obstacle){found, fix};
    return true;
}

/* ---- AppArmor and SELinux ------------------------------------------------------------------ */

static bool is_unconfined(const struct facts *f)
{
    return f->label.len == 0 || str_eq(f->label, S("unconfined"));
}

/* SELinux calls us user:role:type:level. */
static bool is_selinux(const struct facts *f)
{
    struct str rest;

    (void)str_cut(f->label, ':', &rest);
    return str_has(rest, ':');
}

/* Ubuntu, since 23.10. A program without a profile gets a namespace in which it may do
 * nothing, so it is inside that things fail; or none, where that profile is missing. */
static bool is_restricted(const struct facts *f)
{
    return f->apparmor_userns == 1 && !f->admin && is_unconfined(f);
}

static bool restricted(const struct facts *f, struct arena *a, struct obstacle *out)
{
    struct str path = f->boxinit.len > 0 ? f->boxinit : S("/usr/libexec/anybox/boxinit");
    struct str all = S("sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0");

    if (f->container != CONTAINER_NONE) {
        all = S("on the host: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0");
        return set(out, S("the host's AppArmor refuses user namespaces to programs of users"), all);
    }
    return set(out, S("AppArmor refuses user namespaces to programs without a profile"),
               arena_printf(a,
                            "%.*s (for all programs); or better, for boxinit alone: printf 'abi "
                            "<abi/4.0>,\\nprofile anybox-boxinit %.*s flags=(unconfined) { userns, "
                            "}\\n' | sudo tee " PROFILE " && sudo apparmor_parser -r " PROFILE,
                            STR_ARG(all), STR_ARG(path)));
}

static bool confined(const struct facts *f, struct arena *a, struct obstacle *out)
{
    struct str label = str_head(f->label, 80);

    if (is_selinux(f)) {
        return set(out,
                   arena_printf(a, "SELinux refuses it, perhaps (we are %.*s)", STR_ARG(label)),
                   S("see \"sudo ausearch -m avc -ts recent\", and allow it"));
    }
    return set(out,
               arena_printf(a, "the AppArmor profile %.*s, which anybox runs under, refuses it",
                            STR_ARG(label)),
               S("start anybox outside of the program that the profile confines, or add \"userns,\""
                 " \"mount,\" and \"pivot_root,\" to the profile"));
}

/* ---- containers ----------------------------------------------------------------------------- */

static struct str container_fix(const struct facts *f, struct arena *a)
{
    bool apparmor = !is_unconfined(f) && !is_selinux(f);

    switch (f->container) {
    case CONTAINER_DOCKER:
        return arena_printf(a,
                            "start the container with: docker run --security-opt seccomp=unconfined"
                            " --security-opt systempaths=unconfined%s; or run anybox outside of it",
                            apparmor ? " --security-opt apparmor=unconfined" : "");
    case CONTAINER_PODMAN:
        return arena_printf(a,
                            "start the container with: podman run --security-opt seccomp=unconfined"
                            " --security-opt unmask=ALL%s; or run anybox outside of it",
                            is_selinux(f) ? " --security-opt label=disable"
                            : apparmor    ? " --security-opt apparmor=unconfined"
                                          : "");
    case CONTAINER_KUBERNETES:
        return S(
            "give the container a securityContext with seccompProfile: {type: Unconfined}, "
            "appArmorProfile: {type: Unconfined} and procMount: Unmasked (with hostUsers: false "
            "in the pod); or run anybox outside of it");
    case CONTAINER_LXC:
        return S("on the host: incus config set NAME security.nesting true (lxc config set... with "
                 "LXD), and restart the container; or run anybox outside of it");
    case CONTAINER_OTHER:
    case CONTAINER_NONE: break;
    }
    return S("start the container without its seccomp filter and with an unmasked /proc; or run "
             "anybox outside of it");
}

static const char *container_name(enum container kind)
{
    switch (kind) {
    case CONTAINER_DOCKER: return "this Docker container";
    case CONTAINER_PODMAN: return "this Podman container";
    case CONTAINER_KUBERNETES: return "this Kubernetes pod";
    case CONTAINER_LXC: return "this LXC container";
    case CONTAINER_OTHER:
    case CONTAINER_NONE: break;
    }
    return "this container";
}

static bool contained(const struct facts *f, const char *what, struct arena *a,
                      struct obstacle *out)
{
    return set(out, arena_printf(a, "%s %s", container_name(f->container), what),
               container_fix(f, a));
}

/* ---- where it failed ------------------------------------------------------------------------- */

static bool no_room(const struct facts *f, struct arena *a, struct obstacle *out)
{
    const char *where = f->container != CONTAINER_NONE ? "on the host: " : "";
    struct str name = f->least_name.len > 0 ? f->least_name : S("user.max_user_namespaces");

    if (f->least_name.len > 0 && f->least == 0) {
        return set(out,
                   arena_printf(a, "no namespaces are allowed here (%.*s is 0)", STR_ARG(name)),
                   arena_printf(a, "%ssudo sysctl -w %.*s=15000", where, STR_ARG(name)));
    }
    int64_t more = f->least > 0 && f->least < INT64_MAX / 2 ? f->least * 2 : 30000;
    return set(out,
               arena_printf(a, "all %lld namespaces that %.*s allows are in use",
                            (long long)f->least, STR_ARG(name)),
               arena_printf(a, "delete sandboxes, or %ssudo sysctl -w %.*s=%lld", where,
                            STR_ARG(name), (long long)more));
}

static bool no_kernel(struct obstacle *out)
{
    return set(out, S("this kernel has no user namespaces"),
               S("start a kernel with CONFIG_USER_NS, as those of all distributions are; the "
                 "kernels of some phones, routers and sandboxes are not"));
}

static bool forbidden_to_users(const struct facts *f, struct obstacle *out)
{
    bool inside = f->container != CONTAINER_NONE;

    return set(out,
               S("user namespaces are refused to users (kernel.unprivileged_userns_clone is 0)"),
               inside ? S("on the host: sudo sysctl -w kernel.unprivileged_userns_clone=1")
                      : S("sudo sysctl -w kernel.unprivileged_userns_clone=1"));
}

static bool is_forbidden_to_users(const struct facts *f)
{
    return f->userns_clone == 0 && !f->admin;
}

static bool filtered(const struct facts *f, struct arena *a, struct obstacle *out)
{
    if (f->container != CONTAINER_NONE) {
        return contained(f, "refuses it by its seccomp filter", a, out);
    }
    return set(out, S("the program that started anybox has put a seccomp filter on it"),
               S("start anybox outside of it; in a systemd unit, without RestrictNamespaces= and "
                 "SystemCallFilter="));
}

/* Refused, by one or another. */
static bool denied(const struct facts *f, struct arena *a, struct obstacle *out)
{
    if (f->filtered) {
        return filtered(f, a, out);
    }
    if (is_restricted(f)) {
        return restricted(f, a, out);
    }
    if (!is_unconfined(f)) {
        return f->container != CONTAINER_NONE
                   ? contained(f,
                               is_selinux(f) ? "refuses it, perhaps by SELinux"
                                             : "refuses it by its AppArmor profile",
                               a, out)
                   : confined(f, a, out);
    }
    return false;
}

static bool find_namespaces(const struct facts *f, int errnum, struct arena *a,
                            struct obstacle *out)
{
    if (f->no_userns || errnum == EINVAL || errnum == ENOSYS) {
        return no_kernel(out);
    }
    if (errnum == ENOSPC || errnum == EUSERS) {
        return no_room(f, a, out);
    }
    if (errnum == EAGAIN) {
        return set(out, S("no process is left for anybox to start"),
                   S("end some, or raise the limit on them: \"ulimit -u\", TasksMax= of a systemd "
                     "unit, the pids limit of a container"));
    }
    if (errnum != EPERM && errnum != EACCES) {
        return false;
    }
    if (is_forbidden_to_users(f)) {
        return forbidden_to_users(f, out);
    }
    if (f->chrooted) {
        return set(out, S("anybox runs in a chroot, where the kernel makes no user namespaces"),
                   S("run it outside, or enter that folder with systemd-nspawn or bwrap instead of "
                     "chroot"));
    }
    if (denied(f, a, out)) {
        return true;
    }
    return set(out, S("user namespaces are refused here, for a reason that /proc does not tell"),
               S("see \"sudo dmesg | tail\" for a message of a security module; or run anybox as "
                 "another user or outside of what started it"));
}

static bool find_ids(const struct facts *f, struct arena *a, struct obstacle *out)
{
    const char *one =
        "; or have one user id only: take the user out of /etc/subuid and /etc/subgid";

    if (f->root) {
        return denied(f, a, out);
    }
    if (f->no_new_privs) {
        return set(out, S("newuidmap gets no rights, because anybox was started with no_new_privs"),
                   arena_printf(a,
                                "start it without (docker run without --security-opt "
                                "no-new-privileges, a systemd unit without NoNewPrivileges=)%s",
                                one));
    }
    if (f->weak_newuidmap) {
        return set(out, S("newuidmap has no more rights than who calls it"),
                   arena_printf(a, "sudo chmod u+s /usr/bin/newuidmap /usr/bin/newgidmap%s", one));
    }
    if (f->bounded) {
        return set(out,
                   arena_printf(a,
                                "newuidmap is a set-user-id program, and in %s such a one has too "
                                "few rights",
                                container_name(f->container)),
                   arena_printf(a,
                                "give it capabilities instead, in the image: chmod u-s "
                                "/usr/bin/newuidmap /usr/bin/newgidmap && setcap cap_setuid+ep "
                                "/usr/bin/newuidmap && setcap cap_setgid+ep /usr/bin/newgidmap%s",
                                one));
    }
    return denied(f, a, out);
}

static bool find_inside(const struct facts *f, int errnum, struct arena *a, struct obstacle *out)
{
    if (errnum != EPERM && errnum != EACCES) {
        return false;
    }
    if (denied(f, a, out)) {
        return true;
    }
    if (f->proc_hidden && f->container != CONTAINER_NONE) {
        return contained(f, "hides parts of /proc, and so the kernel refuses a new one", a, out);
    }
    if (f->proc_hidden) {
        return set(out, S("other mounts hide parts of /proc, and so the kernel refuses a new one"),
                   S("unmount what \"grep ' /proc/' /proc/self/mountinfo\" shows"));
    }
    return false;
}

bool obstacle_find(const struct facts *f, enum setup_step step, int errnum, struct arena *a,
                   struct obstacle *out)
{
    switch (step) {
    case SETUP_NAMESPACES: return find_namespaces(f, errnum, a, out);
    case SETUP_IDS: return find_ids(f, a, out);
    case SETUP_INSIDE: return find_inside(f, errnum, a, out);
    case SETUP_OTHER: break;
    }
    return false;
}

bool obstacle_expected(const struct facts *f, struct arena *a, struct obstacle *out)
{
    if (f->no_userns) {
        return no_kernel(out);
    }
    if (f->least_name.len > 0 && f->least == 0) {
        return no_room(f, a, out);
    }
    if (is_forbidden_to_users(f)) {
        return forbidden_to_users(f, out);
    }
    return is_restricted(f) && restricted(f, a, out);
}

/* ---- limits ------------------------------------------------------------------------------------ */

struct str obstacle_cgroups_fix(const struct facts *f, struct arena *a)
{
    if (f->container == CONTAINER_DOCKER || f->container == CONTAINER_PODMAN) {
        return arena_printf(a,
                            "run anybox as root of a container that may write to cgroups: %s run "
                            "--cgroupns=host -v /sys/fs/cgroup:/sys/fs/cgroup:rw",
                            f->container == CONTAINER_DOCKER ? "docker" : "podman");
    }
    if (f->container != CONTAINER_NONE) {
        return S("run anybox as root of a container with a writable /sys/fs/cgroup");
    }
    if (f->root) {
        return S("mount cgroups that anybox may write to: mount -t cgroup2 cgroup2 /sys/fs/cgroup");
    }
    if (!f->systemd) {
        return S("run anybox as root");
    }
    if (!f->unified) {
        return S(
            "start the machine with systemd.unified_cgroup_hierarchy=1 on the kernel's command "
            "line; or run anybox as root");
    }
    if (!f->manager) {
        return S("log in, or: sudo loginctl enable-linger \"$USER\"");
    }
    return S("sudo mkdir -p /etc/systemd/system/user@.service.d && printf "
             "'[Service]\\nDelegate=cpu memory pids\\n' | sudo tee "
             "/etc/systemd/system/user@.service.d/delegate.conf && sudo systemctl daemon-reload, "
             "then log out and in again");
}
