/* Which of the reasons it is that a machine refuses a box, for machines that we do not have:
 * each row is one machine, one refusal, and what must be said about it. */
#include <errno.h>

#include "base/own.h"
#include "provider/local/obstacle.h"
#include "test.h"

/* A view in a table: S() is no constant. */
#define T(literal)                                                                                 \
    {                                                                                              \
        "" literal, sizeof(literal) - 1                                                            \
    }
#define PLAIN .userns_clone = -1, .apparmor_userns = -1

struct row {
    const char *name;
    struct facts facts;
    enum setup_step step;
    int errnum;
    const char *found, *fix, *not_in_fix; /* NULL found: no reason is known */
};

static const struct row rows[] = {
    {"debian_with_the_old_switch",
     {.userns_clone = 0, .apparmor_userns = -1},
     SETUP_NAMESPACES,
     EPERM,
     "kernel.unprivileged_userns_clone is 0",
     "sudo sysctl -w kernel.unprivileged_userns_clone=1",
     "host"},
    {"the_old_switch_in_a_container",
     {.userns_clone = 0, .apparmor_userns = -1, .container = CONTAINER_DOCKER},
     SETUP_NAMESPACES,
     EPERM,
     "kernel.unprivileged_userns_clone is 0",
     "on the host: sudo sysctl -w kernel.unprivileged_userns_clone=1",
     NULL},
    {"the_old_switch_is_not_about_root",
     {.userns_clone = 0, .apparmor_userns = -1, .admin = true, .filtered = true},
     SETUP_NAMESPACES,
     EPERM,
     "seccomp",
     "systemd unit",
     "unprivileged_userns_clone"},
    {"redhat_with_none",
     {PLAIN, .least_name = T("user.max_user_namespaces")},
     SETUP_NAMESPACES,
     ENOSPC,
     "user.max_user_namespaces is 0",
     "sudo sysctl -w user.max_user_namespaces=15000",
     NULL},
    {"without_network_namespaces",
     {PLAIN, .least_name = T("user.max_net_namespaces")},
     SETUP_NAMESPACES,
     ENOSPC,
     "user.max_net_namespaces is 0",
     "sudo sysctl -w user.max_net_namespaces=15000",
     NULL},
    {"no_process_left", {PLAIN}, SETUP_NAMESPACES, EAGAIN, "no process is left", "ulimit -u", NULL},
    {"all_in_use",
     {PLAIN, .least_name = T("user.max_user_namespaces"), .least = 1000},
     SETUP_NAMESPACES,
     ENOSPC,
     "all 1000 namespaces that user.max_user_namespaces allows",
     "delete sandboxes, or sudo sysctl -w user.max_user_namespaces=2000",
     NULL},
    {"no_kernel_for_it",
     {PLAIN, .no_userns = true},
     SETUP_NAMESPACES,
     EINVAL,
     "this kernel has no user namespaces",
     "CONFIG_USER_NS",
     NULL},
    {"no_kernel_for_it_and_a_full_proc",
     {PLAIN},
     SETUP_NAMESPACES,
     EINVAL,
     "this kernel has no user namespaces",
     "CONFIG_USER_NS",
     NULL},
    {"ubuntu_refuses_inside",
     {.userns_clone = 1,
      .apparmor_userns = 1,
      .label = T("unconfined"),
      .boxinit = T("/usr/libexec/anybox/boxinit")},
     SETUP_INSIDE,
     EPERM,
     "AppArmor refuses user namespaces to programs without a profile",
     "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (for all programs); or better, "
     "for boxinit alone: printf 'abi <abi/4.0>,\\nprofile anybox-boxinit "
     "/usr/libexec/anybox/boxinit flags=(unconfined) { userns, }\\n' | sudo tee "
     "/etc/apparmor.d/anybox-boxinit && sudo apparmor_parser -r /etc/apparmor.d/anybox-boxinit",
     NULL},
    {"ubuntu_refuses_at_once",
     {.userns_clone = 1,
      .apparmor_userns = 1,
      .label = T("unconfined"),
      .boxinit = T("/home/me/build/boxinit")},
     SETUP_NAMESPACES,
     EACCES,
     "AppArmor",
     "profile anybox-boxinit /home/me/build/boxinit",
     NULL},
    {"ubuntu_is_not_about_root",
     {.userns_clone = 1, .apparmor_userns = 1, .admin = true, .label = T("unconfined")},
     SETUP_INSIDE,
     EPERM,
     NULL,
     NULL,
     NULL},
    {"docker_on_ubuntu",
     {.userns_clone = 1,
      .apparmor_userns = 1,
      .label = T("unconfined"),
      .container = CONTAINER_DOCKER,
      .bounded = true},
     SETUP_INSIDE,
     EPERM,
     "the host's AppArmor",
     "on the host: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
     "tee"},
    {"docker",
     {PLAIN, .container = CONTAINER_DOCKER, .filtered = true, .bounded = true, .proc_hidden = true},
     SETUP_NAMESPACES,
     EPERM,
     "this Docker container refuses it by its seccomp filter",
     "docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined; or",
     "apparmor"},
    {"docker_with_apparmor",
     {PLAIN, .container = CONTAINER_DOCKER, .filtered = true, .label = T("docker-default")},
     SETUP_NAMESPACES,
     EPERM,
     "seccomp filter",
     "seccomp=unconfined --security-opt systempaths=unconfined --security-opt apparmor=unconfined",
     NULL},
    {"docker_without_its_filter",
     {PLAIN, .container = CONTAINER_DOCKER, .bounded = true, .proc_hidden = true},
     SETUP_INSIDE,
     EPERM,
     "this Docker container hides parts of /proc",
     "systempaths=unconfined",
     NULL},
    {"docker_with_its_profile_alone",
     {PLAIN, .container = CONTAINER_DOCKER, .label = T("docker-default")},
     SETUP_INSIDE,
     EACCES,
     "by its AppArmor profile",
     "apparmor=unconfined",
     NULL},
    {"podman",
     {PLAIN, .container = CONTAINER_PODMAN, .proc_hidden = true, .bounded = true},
     SETUP_INSIDE,
     EPERM,
     "this Podman container hides parts of /proc",
     "podman run --security-opt seccomp=unconfined --security-opt unmask=ALL; or",
     "label"},
    {"podman_on_fedora",
     {PLAIN, .container = CONTAINER_PODMAN, .label = T("system_u:system_r:container_t:s0:c1,c2")},
     SETUP_INSIDE,
     EACCES,
     "perhaps by SELinux",
     "--security-opt label=disable",
     "apparmor"},
    {"kubernetes",
     {PLAIN, .container = CONTAINER_KUBERNETES, .filtered = true},
     SETUP_NAMESPACES,
     EPERM,
     "this Kubernetes pod",
     "procMount: Unmasked",
     NULL},
    {"lxc",
     {PLAIN, .container = CONTAINER_LXC, .filtered = true},
     SETUP_NAMESPACES,
     EPERM,
     "this LXC container",
     "security.nesting true",
     NULL},
    {"another_container",
     {PLAIN, .container = CONTAINER_OTHER, .filtered = true},
     SETUP_NAMESPACES,
     EPERM,
     "this container",
     "unmasked /proc",
     NULL},
    {"a_filter_of_who_started_us",
     {PLAIN, .filtered = true},
     SETUP_NAMESPACES,
     EPERM,
     "the program that started anybox",
     "RestrictNamespaces=",
     "container"},
    {"a_snap",
     {PLAIN, .label = T("snap.code.code")},
     SETUP_NAMESPACES,
     EACCES,
     "the AppArmor profile snap.code.code",
     "\"userns,\"",
     "restrict"},
    {"fedora",
     {PLAIN, .label = T("user_u:user_r:user_t:s0")},
     SETUP_NAMESPACES,
     EACCES,
     "SELinux",
     "ausearch -m avc",
     NULL},
    {"in_a_chroot",
     {PLAIN, .chrooted = true},
     SETUP_NAMESPACES,
     EPERM,
     "in a chroot",
     "systemd-nspawn or bwrap",
     NULL},
    {"nobody_knows",
     {PLAIN},
     SETUP_NAMESPACES,
     EPERM,
     "a reason that /proc does not tell",
     "dmesg",
     NULL},
    {"an_error_of_another_kind", {PLAIN}, SETUP_NAMESPACES, ENOMEM, NULL, NULL, NULL},
    {"hidden_proc_on_a_host",
     {PLAIN, .proc_hidden = true},
     SETUP_INSIDE,
     EPERM,
     "other mounts hide parts of /proc",
     "/proc/self/mountinfo",
     "docker"},
    {"inside_for_another_reason",
     {PLAIN, .proc_hidden = true},
     SETUP_INSIDE,
     ENOSPC,
     NULL,
     NULL,
     NULL},
    {"subuids_in_docker",
     {PLAIN, .container = CONTAINER_DOCKER, .bounded = true},
     SETUP_IDS,
     EPERM,
     "newuidmap is a set-user-id program, and in this Docker container",
     "setcap cap_setuid+ep /usr/bin/newuidmap",
     NULL},
    {"subuids_and_no_new_privs",
     {PLAIN, .no_new_privs = true, .bounded = true},
     SETUP_IDS,
     EPERM,
     "no_new_privs",
     "NoNewPrivileges=",
     "setcap"},
    {"subuids_by_a_weak_newuidmap",
     {PLAIN, .weak_newuidmap = true},
     SETUP_IDS,
     EPERM,
     "no more rights",
     "sudo chmod u+s /usr/bin/newuidmap /usr/bin/newgidmap",
     NULL},
    {"subuids_for_another_reason", {PLAIN}, SETUP_IDS, EPERM, NULL, NULL, NULL},
};

static bool has(struct str s, const char *word)
{
    return memmem(s.p, s.len, word, strlen(word)) != NULL;
}

static void check_row(const struct row *r)
{
    struct arena a own_arena = {0};
    struct obstacle got = {0};

    arena_init(&a, 1u << 16);
    bool known = obstacle_find(&r->facts, r->step, r->errnum, &a, &got);
    if (r->found == NULL) {
        if (known) {
            fail_msg("%s: \"%.*s\" is not known", r->name, STR_ARG(got.found));
        }
        return;
    }
    if (!known || !has(got.found, r->found) || !has(got.fix, r->fix) ||
        (r->not_in_fix != NULL && has(got.fix, r->not_in_fix))) {
        fail_msg("%s: \"%.*s\", \"%.*s\"", r->name, STR_ARG(got.found), STR_ARG(got.fix));
    }
    /* Both go into one error message. */
    assert_true(got.found.len + got.fix.len < 470);
}

static void each_refusal_is_told_with_its_fix(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        check_row(&rows[i]);
    }
}

static void settings_are_told_before_anything_is_tried(void **state)
{
    struct arena a own_arena = {0};
    struct obstacle got;
    const struct facts fine = {.userns_clone = 1,
                               .apparmor_userns = 0,
                               .least_name = S("user.max_user_namespaces"),
                               .least = 5000,
                               .filtered = true,
                               .container = CONTAINER_DOCKER};
    struct facts f = fine;

    (void)state;
    arena_init(&a, 1u << 16);
    assert_false(obstacle_expected(&f, &a, &got));
    f.least = 0;
    assert_true(obstacle_expected(&f, &a, &got));
    assert_true(has(got.found, "max_user_namespaces is 0") && has(got.fix, "on the host"));
    f = fine;
    f.userns_clone = 0;
    assert_true(obstacle_expected(&f, &a, &got) && has(got.found, "unprivileged_userns_clone"));
    f.admin = true;
    assert_false(obstacle_expected(&f, &a, &got));
    f = fine;
    f.apparmor_userns = 1;
    assert_true(obstacle_expected(&f, &a, &got) && has(got.found, "AppArmor"));
    f.label = S("anybox-boxinit");
    assert_false(obstacle_expected(&f, &a, &got));
    f.no_userns = true;
    assert_true(obstacle_expected(&f, &a, &got) && has(got.fix, "CONFIG_USER_NS"));
}

static void missing_cgroups_are_told_with_their_fix(void **state)
{
    static const struct {
        struct facts facts;
        const char *fix;
    } cases[] = {
        {{.container = CONTAINER_DOCKER, .root = true},
         "docker run --cgroupns=host -v /sys/fs/cgroup"},
        {{.container = CONTAINER_PODMAN}, "podman run --cgroupns=host"},
        {{.container = CONTAINER_KUBERNETES}, "a writable /sys/fs/cgroup"},
        {{.root = true, .systemd = true}, "mount -t cgroup2"},
        {{.systemd = false}, "run anybox as root"},
        {{.systemd = true}, "systemd.unified_cgroup_hierarchy=1"},
        {{.systemd = true, .unified = true}, "sudo loginctl enable-linger \"$USER\""},
        {{.systemd = true, .unified = true, .manager = true}, "Delegate=cpu memory pids"},
    };
    struct arena a own_arena = {0};

    (void)state;
    arena_init(&a, 1u << 16);
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        struct str fix = obstacle_cgroups_fix(&cases[i].facts, &a);

        if (!has(fix, cases[i].fix)) {
            fail_msg("case %zu: \"%.*s\"", i, STR_ARG(fix));
        }
    }
}

/* ---- where the facts come from ------------------------------------------------------------ */

static void a_status_tells_what_was_taken_away(void **state)
{
    struct facts f = {0};

    (void)state;
    facts_parse_status(S("Name:\tx\nCapEff:\t00000000a80425fb\nCapBnd:\t00000000a80425fb\n"
                         "NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n"),
                       &f);
    assert_true(!f.admin && f.bounded && f.filtered && f.no_new_privs);
    facts_parse_status(S("CapEff:\t000001ffffffffff\nCapBnd:\t000001FFFFFFFFFF\nNoNewPrivs:\t0\n"
                         "Seccomp:\t0\n"),
                       &f);
    assert_true(f.admin && !f.bounded && !f.filtered && !f.no_new_privs);
    facts_parse_status(S("CapEff:\t0000000000000000\nCapBnd:\t000001ffffffffff\nSeccomp:\t0\n"),
                       &f);
    assert_true(!f.admin && !f.bounded && !f.filtered);
    facts_parse_status(STR_EMPTY, &f);
    assert_true(!f.admin && !f.bounded && !f.filtered && !f.no_new_privs);
}

static void mounts_tell_of_a_hidden_proc_and_of_a_chroot(void **state)
{
    const struct str host =
        S("22 1 254:0 / / rw - ext4 /dev/vda rw\n23 22 0:5 / /proc rw - proc proc rw\n"
          "24 23 0:6 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw\n");
    const struct str docker =
        S("76 50 0:39 / / rw - overlay overlay rw\n77 76 0:42 / /proc rw - proc proc rw\n"
          "51 77 0:42 /bus /proc/bus ro - proc proc rw\n");
    const struct str chroot = S("40 22 0:5 / /proc rw - proc proc rw\n");
    struct facts f = {0};

    (void)state;
    facts_parse_mounts(host, &f);
    assert_true(!f.proc_hidden && !f.chrooted);
    facts_parse_mounts(docker, &f);
    assert_true(f.proc_hidden && !f.chrooted);
    facts_parse_mounts(chroot, &f);
    assert_true(!f.proc_hidden && f.chrooted);
    facts_parse_mounts(STR_EMPTY, &f);
    assert_true(!f.proc_hidden && !f.chrooted);
}

static void a_label_is_a_name_without_its_mode(void **state)
{
    (void)state;
    assert_str(facts_parse_label(S("unconfined\n")), S("unconfined"));
    assert_str(facts_parse_label(S("docker-default (enforce)\n")), S("docker-default"));
    assert_str(facts_parse_label(S("snap.x.y (complain)")), S("snap.x.y"));
    assert_str(facts_parse_label(S("code (unconfined)\n")), S("unconfined"));
    assert_str(facts_parse_label(S("system_u:system_r:kernel_t:s0\0")),
               S("system_u:system_r:kernel_t:s0"));
    assert_str(facts_parse_label(STR_EMPTY), S(""));
}

static void containers_are_told_apart(void **state)
{
    static const struct {
        struct container_marks marks;
        enum container want;
    } cases[] = {
        {{.dockerenv = true}, CONTAINER_DOCKER},
        {{.containerenv = true}, CONTAINER_PODMAN},
        {{.containerenv = true, .init_group = T("4:memory:/docker/3034\n")}, CONTAINER_DOCKER},
        {{.dockerenv = true, .kubernetes = true}, CONTAINER_KUBERNETES},
        {{.manager = T("lxc")}, CONTAINER_LXC},
        {{.manager = T("lxc-libvirt")}, CONTAINER_LXC},
        {{.manager = T("systemd-nspawn")}, CONTAINER_OTHER},
        {{.init_group = T("0::/kubepods/besteffort/pod1\n")}, CONTAINER_KUBERNETES},
        {{.init_group = T("4:memory:/docker/3034\n")}, CONTAINER_DOCKER},
        {{.init_group = T("0::/lxc.payload.a/init.scope\n")}, CONTAINER_LXC},
        {{.init_group = T("0::/machine.slice/libpod-1.scope\n")}, CONTAINER_PODMAN},
        {{.init_group = T("0::/init.scope\n")}, CONTAINER_NONE},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        assert_int_equal(facts_container(&cases[i].marks, true), cases[i].want);
        assert_int_equal(facts_container(&cases[i].marks, false), CONTAINER_NONE);
    }
}

static void this_machine_has_facts(void **state)
{
    struct arena a own_arena = {0};
    struct facts f;

    (void)state;
    arena_init(&a, 16u << 20);
    facts_read(&a, "/proc/self/exe", &f);
    assert_true(f.boxinit.len > 0 && f.boxinit.p[0] == '/');
    assert_true(str_ends(f.boxinit, S("test_provider_local_obstacle")));
    assert_true(f.userns_clone >= -1 && f.apparmor_userns >= -1);
    facts_read(&a, NULL, &f);
    assert_int_equal(f.boxinit.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_refusal_is_told_with_its_fix),
        cmocka_unit_test(settings_are_told_before_anything_is_tried),
        cmocka_unit_test(missing_cgroups_are_told_with_their_fix),
        cmocka_unit_test(a_status_tells_what_was_taken_away),
        cmocka_unit_test(mounts_tell_of_a_hidden_proc_and_of_a_chroot),
        cmocka_unit_test(a_label_is_a_name_without_its_mode),
        cmocka_unit_test(containers_are_told_apart),
        cmocka_unit_test(this_machine_has_facts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
