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
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <seccomp.h>

#define COUNTOF(array) (sizeof(array) / sizeof((array)[0]))
#define CALLS_MAX      1024
#define CODE_MAX       4096 /* instructions that the kernel takes */
#define SOCK_TYPE_MASK 0xf  /* the rest are flags */

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
    "open_tree_attr",
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

static void refuse_family(scmp_filter_ctx f, struct scmp_arg_cmp family)
{
    check(seccomp_rule_add(f, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1, family), "socket");
}

/* Of the internet families streams and datagrams with their own protocols, and the echo
 * of ping: the others (SCTP, DCCP, MPTCP...) are kernel modules that are loaded on
 * demand and seldom used. The kernel finds some of them by the type alone. */
static void refuse_protocols(scmp_filter_ctx f, unsigned family, unsigned ping)
{
    static const unsigned types[] = {SOCK_RAW, SOCK_RDM, SOCK_SEQPACKET, SOCK_DCCP, SOCK_PACKET};
    unsigned last = ping > IPPROTO_UDP ? ping : IPPROTO_UDP;

    for (size_t i = 0; i < COUNTOF(types); i++) {
        check(seccomp_rule_add(f, SCMP_ACT_ERRNO(ESOCKTNOSUPPORT), SCMP_SYS(socket), 2,
                               SCMP_A0(SCMP_CMP_EQ, family),
                               SCMP_A1(SCMP_CMP_MASKED_EQ, SOCK_TYPE_MASK, types[i])),
              "socket");
    }
    for (unsigned protocol = 1; protocol <= last; protocol++) {
        if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP && protocol != ping) {
            check(seccomp_rule_add(f, SCMP_ACT_ERRNO(EPROTONOSUPPORT), SCMP_SYS(socket), 2,
                                   SCMP_A0(SCMP_CMP_EQ, family), SCMP_A2(SCMP_CMP_EQ, protocol)),
                  "socket");
        }
    }
    check(seccomp_rule_add(f, SCMP_ACT_ERRNO(EPROTONOSUPPORT), SCMP_SYS(socket), 2,
                           SCMP_A0(SCMP_CMP_EQ, family), SCMP_A2(SCMP_CMP_GT, last)),
          "socket");
}

/* Only unix, IPv4 and IPv6 sockets, and netlink for routes (getifaddrs). Families are
 * listed one by one up to the last that is allowed, and larger values by comparison:
 * that catches set high bits too. A pair is made of two sockets before the family is
 * asked whether it has pairs: only unix has any use for it. */
static void refuse_sockets(scmp_filter_ctx f)
{
    for (unsigned family = 0; family < AF_NETLINK; family++) {
        if (family != AF_UNIX && family != AF_INET && family != AF_INET6) {
            refuse_family(f, SCMP_A0(SCMP_CMP_EQ, family));
        }
    }
    refuse_family(f, SCMP_A0(SCMP_CMP_GT, AF_NETLINK));
    check(seccomp_rule_add(f, SCMP_ACT_ERRNO(EPROTONOSUPPORT), SCMP_SYS(socket), 2,
                           SCMP_A0(SCMP_CMP_EQ, AF_NETLINK), SCMP_A2(SCMP_CMP_NE, 0)),
          "socket");
    refuse_protocols(f, AF_INET, IPPROTO_ICMP);
    refuse_protocols(f, AF_INET6, IPPROTO_ICMPV6);
    check(seccomp_rule_add(f, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socketpair), 1,
                           SCMP_A0(SCMP_CMP_NE, AF_UNIX)),
          "socketpair");
}

/* Typing into the terminal of another, and line disciplines: kernel modules, too. */
static void refuse_ioctls(scmp_filter_ctx f)
{
    static const unsigned long requests[] = {TIOCSTI, TIOCLINUX, TIOCSETD};

    for (size_t i = 0; i < COUNTOF(requests); i++) {
        check(seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
                               SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffffu, requests[i])),
              "ioctl");
    }
}

/* Of both there is one stock for the whole machine, which no cgroup counts: asynchronous I/O
 * (fs.aio-max-nr), as on a kernel without it, and huge pages, as if there were none. */
static void refuse_shared(scmp_filter_ctx f)
{
    check(seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(io_setup), 0), "io_setup");
    check(seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOMEM), SCMP_SYS(mmap), 1,
                           SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_HUGETLB, MAP_HUGETLB)),
          "mmap");
    check(seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOMEM), SCMP_SYS(memfd_create), 1,
                           SCMP_A1(SCMP_CMP_MASKED_EQ, MFD_HUGETLB, MFD_HUGETLB)),
          "memfd_create");
}

static void refuse_of_init(scmp_filter_ctx f, int call, const char *name)
{
    check(seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), call, 1,
                           SCMP_A0(SCMP_CMP_MASKED_EQ, 0xffffffffu, 1)),
          name);
}

/* Limits and priorities of PID 1. Where it has the payload's own uid the kernel would let
 * them be set, and a PID 1 that may open no file or gets no time ends no command. The
 * last two take a kind and a number: a process, a group of processes or a user. */
static void refuse_harm_to_init(scmp_filter_ctx f)
{
    static const struct {
        int call;
        unsigned process, user;
        const char *name;
    } by_kind[] = {{SCMP_SYS(setpriority), PRIO_PROCESS, PRIO_USER, "setpriority"},
                   {SCMP_SYS(ioprio_set), 1, 3, "ioprio_set"}};

    refuse_of_init(f, SCMP_SYS(prlimit64), "prlimit64");
    refuse_of_init(f, SCMP_SYS(sched_setaffinity), "sched_setaffinity");
    refuse_of_init(f, SCMP_SYS(sched_setscheduler), "sched_setscheduler");
    refuse_of_init(f, SCMP_SYS(sched_setparam), "sched_setparam");
    refuse_of_init(f, SCMP_SYS(sched_setattr), "sched_setattr");
    for (size_t i = 0; i < COUNTOF(by_kind); i++) {
        for (unsigned kind = by_kind[i].process; kind < by_kind[i].user; kind++) {
            check(seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), by_kind[i].call, 2,
                                   SCMP_A0(SCMP_CMP_MASKED_EQ, 0xffffffffu, kind),
                                   SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffffu, 1)),
                  by_kind[i].name);
        }
        check(seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), by_kind[i].call, 1,
                               SCMP_A0(SCMP_CMP_MASKED_EQ, 0xffffffffu, by_kind[i].user)),
              by_kind[i].name);
    }
}

/* A program of the host's may be run as root for each process that crashes, whatever its
 * limit on the size of a core, with one exception, which limits.c sets. It stays: who sets
 * another, mostly to have no core, hears that it is done. */
static void keep_core_limit(scmp_filter_ctx f)
{
    check(seccomp_rule_add(f, SCMP_ACT_ERRNO(0), SCMP_SYS(setrlimit), 1,
                           SCMP_A0(SCMP_CMP_MASKED_EQ, 0xffffffffu, RLIMIT_CORE)),
          "setrlimit");
    check(seccomp_rule_add(f, SCMP_ACT_ERRNO(0), SCMP_SYS(prlimit64), 2,
                           SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffffu, RLIMIT_CORE),
                           SCMP_A2(SCMP_CMP_NE, 0)),
          "prlimit64");
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
    refuse_shared(f);
    refuse_harm_to_init(f);
    keep_core_limit(f);
    return f;
}

static void print_code(const struct sock_filter *code, size_t n, const char *name)
{
    if (n == 0 || n >= CODE_MAX) {
        check(-E2BIG, name);
    }
    (void)printf("static const struct sock_filter %s[] = {\n", name);
    for (size_t i = 0; i < n; i++) {
        (void)printf("    {0x%02x, %u, %u, 0x%08xu},\n", code[i].code, code[i].jt, code[i].jf,
                     code[i].k);
    }
    (void)printf("};\n");
}

struct program {
    struct sock_filter code[CODE_MAX];
    size_t n;
};

static void export_filter(scmp_filter_ctx f, struct program *out)
{
    FILE *file = tmpfile();

    if (file == NULL) {
        check(-errno, "tmpfile");
        return;
    }
    check(seccomp_export_bpf(f, fileno(file)), "seccomp_export_bpf");
    rewind(file);
    out->n = fread(out->code, sizeof(out->code[0]), CODE_MAX, file);
    (void)fclose(file);
    seccomp_release(f);
}

/* ---- what is known: by hand, as ranges, because each box loads it ----------------------- */

static void emit(struct program *p, struct sock_filter step)
{
    if (p->n < CODE_MAX) {
        p->code[p->n++] = step;
    }
}

static void load(struct program *p, size_t offset)
{
    emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static void answer(struct program *p, uint32_t action)
{
    emit(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

/* Goes on only if the loaded word is this one. */
static void need(struct program *p, uint32_t value)
{
    emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0));
    answer(p, SECCOMP_RET_ERRNO | ENOSYS);
}

static void allow_if(struct program *p, uint32_t value)
{
    emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    answer(p, SECCOMP_RET_ALLOW);
}

/* Of two that follow each other: below the first is unknown, up to the last is known. */
static void allow_range(struct program *p, uint32_t first, uint32_t last)
{
    emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, first, 1, 0));
    answer(p, SECCOMP_RET_ERRNO | ENOSYS);
    emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, last, 1, 0));
    answer(p, SECCOMP_RET_ALLOW);
}

static bool is_known(uint32_t arch, int nr)
{
    char *name = nr < CALLS_MAX ? seccomp_syscall_resolve_num_arch(arch, nr) : NULL;
    bool known = name != NULL;

    free(name);
    return known;
}

/* What gdb, setarch and queries need of personality(). */
static void allow_personas(struct program *p)
{
    static const uint32_t personas[] = {PER_LINUX, PER_LINUX32, ADDR_NO_RANDOMIZE,
                                        PER_LINUX32 | ADDR_NO_RANDOMIZE, 0xffffffff};
    size_t low = offsetof(struct seccomp_data, args[0]);

    load(p, low + sizeof(uint32_t)); /* both targets are little-endian */
    need(p, 0);
    load(p, low);
    for (size_t i = 0; i < COUNTOF(personas); i++) {
        allow_if(p, personas[i]);
    }
    answer(p, SECCOMP_RET_ERRNO | ENOSYS);
}

/* Every call that this libseccomp knows for the target. */
static void make_known(uint32_t arch, struct program *p)
{
    static struct program personas;
    int personality = seccomp_syscall_resolve_name_arch(arch, "personality");

    allow_personas(&personas);
    load(p, offsetof(struct seccomp_data, arch));
    need(p, arch);
    load(p, offsetof(struct seccomp_data, nr));
    emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)personality, 0,
                                         (uint8_t)personas.n));
    for (size_t i = 0; i < personas.n; i++) {
        emit(p, personas.code[i]);
    }
    for (int nr = 0; nr < CALLS_MAX; nr++) {
        int first = nr;

        while (is_known(arch, nr)) {
            nr++;
        }
        if (nr > first) {
            allow_range(p, (uint32_t)first, (uint32_t)nr - 1);
        }
    }
    answer(p, SECCOMP_RET_ERRNO | ENOSYS);
}

/* ---- both ------------------------------------------------------------------------------ */

/* What the first lets pass is judged by the second. Its answers are single steps: each that
 * allows becomes a jump, and no other jump changes. */
static void join(const struct program *first, const struct program *second, struct program *out)
{
    for (size_t i = 0; i < first->n; i++) {
        bool allows =
            first->code[i].code == (BPF_RET | BPF_K) && first->code[i].k == SECCOMP_RET_ALLOW;
        uint32_t over = (uint32_t)(first->n - i - 1);

        emit(out, allows ? (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, over) : first->code[i]);
    }
    for (size_t i = 0; i < second->n; i++) {
        emit(out, second->code[i]);
    }
}

int main(int argc, char **argv)
{
    static struct program known, deny, both;
    uint32_t arch = argc == 2 ? seccomp_arch_resolve_name(argv[1]) : 0;

    if (arch == 0) {
        (void)fprintf(stderr, "usage: gen_seccomp x86_64|aarch64|...\n");
        return 2;
    }
    (void)printf("/* Made by gen_seccomp for %s. */\n", argv[1]);
    make_known(arch, &known);
    export_filter(deny_filter(arch), &deny);
    join(&deny, &known, &both);
    print_code(known.code, known.n, "known_policy");
    print_code(deny.code, deny.n, "deny_policy");
    print_code(both.code, both.n, "box_policy");
    return 0;
}
