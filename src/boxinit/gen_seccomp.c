/*
 * gen_seccomp.c - runs at build time: writes the system-call policy as a C table.
 *
 *   gen_seccomp <cpu family of the target> > seccomp_policy.h
 *
 * Programs must work (compilers, interpreters, git, gdb, strace), so the policy names
 * what is refused: everything that makes namespaces or mounts, loads code into the
 * kernel, reaches other parts of the machine, or has mostly been a way to attack the
 * kernel. A second filter refuses numbers that this build does not know.
 *
 * libseccomp compares 64-bit arguments. Where the kernel looks at 32 bits only, a rule
 * must not be escaped by setting a high bit: such rules are masked, or refuse every
 * larger value too.
 */
#include <errno.h>
#include <linux/filter.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <unistd.h>

#include <seccomp.h>

#define COUNTOF(array) (sizeof(array) / sizeof((array)[0]))
#define CALLS_MAX      1024
#define CODE_MAX       4096 /* instructions that the kernel takes */

/* Refused with EPERM whatever the arguments. */
static const char *const refused[] = {
    /* mounts and roots */
    "mount",
    "umount",
    "umount2",
    "pivot_root",
    "chroot",
    "move_mount",
    "open_tree",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "mount_setattr",
    /* namespaces (clone by its flags below) */
    "unshare",
    "setns",
    /* keys, programs in the kernel, and its debugging */
    "keyctl",
    "add_key",
    "request_key",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "syslog",
    "lookup_dcookie",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "kexec_load",
    "kexec_file_load",
    "init_module",
    "finit_module",
    "delete_module",
    "create_module",
    "query_module",
    "get_kernel_syms",
    /* the machine */
    "reboot",
    "swapon",
    "swapoff",
    "acct",
    "quotactl",
    "quotactl_fd",
    "settimeofday",
    "stime",
    "clock_settime",
    "clock_settime64",
    "clock_adjtime",
    "clock_adjtime64",
    "adjtimex",
    "iopl",
    "ioperm",
    "nfsservctl",
    "vhangup",
    "sysfs",
    "_sysctl",
    "uselib",
    "ustat",
    "fanotify_init",
    /* files by handle: a way round the mount namespace */
    "open_by_handle_at",
    "name_to_handle_at",
};

static void check(int rc, const char *what)
{
    if (rc < 0) {
        (void)fprintf(stderr, "gen_seccomp: %s: %s\n", what, strerror(-rc));
        exit(1);
    }
}

static scmp_filter_ctx new_filter(uint32_t otherwise, uint32_t arch)
{
    scmp_filter_ctx f = seccomp_init(otherwise);

    if (f == NULL) {
        check(-ENOMEM, "seccomp_init");
    }
    if (arch != seccomp_arch_native()) {
        check(seccomp_arch_add(f, arch), "seccomp_arch_add");
        check(seccomp_arch_remove(f, SCMP_ARCH_NATIVE), "seccomp_arch_remove");
    }
    /* 32-bit and x32 calls: as if the kernel were built without them. */
    check(seccomp_attr_set(f, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS)), "bad arch");
    check(seccomp_attr_set(f, SCMP_FLTATR_CTL_OPTIMIZE, 2), "optimize");
    return f;
}

/* Rules take this machine's numbers (or pseudo numbers) and are translated; a call that
 * the target does not have is left out. */
static void refuse(scmp_filter_ctx f, const char *name)
{
    int nr = seccomp_syscall_resolve_name(name);

    if (nr != __NR_SCMP_ERROR) {
        check(seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), nr, 0), name);
    }
}

static void refuse_namespaces(scmp_filter_ctx f)
{
    static const unsigned long flags[] = {CLONE_NEWNS,  CLONE_NEWCGROUP, CLONE_NEWUTS,
                                          CLONE_NEWIPC, CLONE_NEWUSER,   CLONE_NEWPID,
                                          CLONE_NEWNET};

    for (size_t i = 0; i < COUNTOF(flags); i++) {
        check(seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                               SCMP_A0(SCMP_CMP_MASKED_EQ, flags[i], flags[i])),
              "clone");
    }
    /* Its flags lie in memory, which no filter can see: programs fall back to clone. */
    check(seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0), "clone3");
}

/* Only unix, IPv4 and IPv6 sockets, and netlink for routes (getifaddrs). Families are
 * listed one by one up to the last that is allowed, and larger values by comparison:
 * that catches set high bits too. */
static void refuse_sockets(scmp_filter_ctx f)
{
    uint32_t no_family = SCMP_ACT_ERRNO(EAFNOSUPPORT);

    for (unsigned family = 0; family < AF_NETLINK; family++) {
        if (family != AF_UNIX && family != AF_INET && family != AF_INET6) {
            check(seccomp_rule_add(f, no_family, SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_EQ, family)),
                  "socket");
        }
    }
    check(seccomp_rule_add(f, no_family, SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_GT, AF_NETLINK)),
          "socket");
    check(seccomp_rule_add(f, SCMP_ACT_ERRNO(EPROTONOSUPPORT), SCMP_SYS(socket), 2,
                           SCMP_A0(SCMP_CMP_EQ, AF_NETLINK), SCMP_A2(SCMP_CMP_NE, 0)),
          "socket");
}

/* Typing into the terminal of another. */
static void refuse_ioctls(scmp_filter_ctx f)
{
    static const unsigned long requests[] = {TIOCSTI, TIOCLINUX};

    for (size_t i = 0; i < COUNTOF(requests); i++) {
        check(seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
                               SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffffu, requests[i])),
              "ioctl");
    }
}

static scmp_filter_ctx deny_filter(uint32_t arch)
{
    scmp_filter_ctx f = new_filter(SCMP_ACT_ALLOW, arch);

    for (size_t i = 0; i < COUNTOF(refused); i++) {
        refuse(f, refused[i]);
    }
    refuse_namespaces(f);
    refuse_sockets(f);
    refuse_ioctls(f);
    return f;
}

/* Every call that this libseccomp knows for the target, and of personality() what
 * gdb, setarch and queries need. */
static scmp_filter_ctx known_filter(uint32_t arch)
{
    static const unsigned long personas[] = {PER_LINUX, PER_LINUX32, ADDR_NO_RANDOMIZE,
                                             PER_LINUX32 | ADDR_NO_RANDOMIZE, 0xffffffff};
    scmp_filter_ctx f = new_filter(SCMP_ACT_ERRNO(ENOSYS), arch);

    for (int nr = 0; nr < CALLS_MAX; nr++) {
        char *name = seccomp_syscall_resolve_num_arch(arch, nr);

        if (name != NULL && strcmp(name, "personality") != 0) {
            check(seccomp_rule_add(f, SCMP_ACT_ALLOW, seccomp_syscall_resolve_name(name), 0), name);
        }
        free(name);
    }
    for (size_t i = 0; i < COUNTOF(personas); i++) {
        check(seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(personality), 1,
                               SCMP_A0(SCMP_CMP_EQ, personas[i])),
              "personality");
    }
    return f;
}

static void print_filter(scmp_filter_ctx f, const char *name)
{
    static struct sock_filter code[CODE_MAX];
    FILE *file = tmpfile();
    size_t n;

    if (file == NULL) {
        check(-errno, "tmpfile");
        return;
    }
    check(seccomp_export_bpf(f, fileno(file)), "seccomp_export_bpf");
    rewind(file);
    n = fread(code, sizeof(code[0]), CODE_MAX, file);
    (void)fclose(file);
    if (n == 0 || n == CODE_MAX) {
        check(-E2BIG, name);
    }
    (void)printf("static const struct sock_filter %s[] = {\n", name);
    for (size_t i = 0; i < n; i++) {
        (void)printf("    {0x%02x, %u, %u, 0x%08xu},\n", code[i].code, code[i].jt, code[i].jf,
                     code[i].k);
    }
    (void)printf("};\n");
    seccomp_release(f);
}

int main(int argc, char **argv)
{
    uint32_t arch = argc == 2 ? seccomp_arch_resolve_name(argv[1]) : 0;

    if (arch == 0) {
        (void)fprintf(stderr, "usage: gen_seccomp x86_64|aarch64|...\n");
        return 2;
    }
    (void)printf("/* Made by gen_seccomp for %s. */\n", argv[1]);
    print_filter(known_filter(arch), "known_policy");
    print_filter(deny_filter(arch), "deny_policy");
    return 0;
}
