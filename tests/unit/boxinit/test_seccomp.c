/* The two policies and the filter that they become, run as the kernel would, for every number and for what no program of ours
 * calls. What single calls do in a box is in tests/e2e/test_attacks.py. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/mman.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/attr.h"
#include "boxinit/seccomp.h"
#include "boxinit/seccomp_policy.h"
#include "test.h"

#if defined(__x86_64__)
#    define ARCH         AUDIT_ARCH_X86_64
#    define OTHER        AUDIT_ARCH_I386
#    define HOLE         335 /* to 423 there are no calls, and will be none */
#    define NEVER        512 /* x32's own */
#    define FIRST_OF_ALL SYS_read
#elif defined(__aarch64__)
#    define ARCH         AUDIT_ARCH_AARCH64
#    define OTHER        AUDIT_ARCH_ARM
#    define HOLE         295
#    define NEVER        1024
#    define FIRST_OF_ALL SYS_io_setup
#endif
#define HOLE_END 424
#define X32      0x40000000u
#define UNKNOWN  (SECCOMP_RET_ERRNO | ENOSYS)
#define REFUSED  (SECCOMP_RET_ERRNO | EPERM)

static uint32_t word(const struct seccomp_data *data, uint32_t offset)
{
    uint32_t value;

    assert_true(offset % 4 == 0 && offset <= sizeof(*data) - sizeof(value));
    memcpy(&value, (const char *)data + offset, sizeof(value));
    return value;
}

/* Fails for whatever the kernel would not take, or that this does not know. */
static uint32_t run(const struct sock_filter *code, size_t n, const struct seccomp_data *data)
{
    uint32_t a = 0;

    for (size_t at = 0; at < n; at++) {
        const struct sock_filter *step = &code[at];
        bool yes;

        switch (step->code) {
        case BPF_LD | BPF_W | BPF_ABS: a = word(data, step->k); continue;
        case BPF_ALU | BPF_AND | BPF_K: a &= step->k; continue;
        case BPF_JMP | BPF_JA: at += step->k; continue;
        case BPF_RET | BPF_K: return step->k;
        case BPF_JMP | BPF_JEQ | BPF_K: yes = a == step->k; break;
        case BPF_JMP | BPF_JGE | BPF_K: yes = a >= step->k; break;
        case BPF_JMP | BPF_JGT | BPF_K: yes = a > step->k; break;
        case BPF_JMP | BPF_JSET | BPF_K: yes = (a & step->k) != 0; break;
        default: fail_msg("step %zu has the code %#x", at, step->code); return 0;
        }
        at += yes ? step->jt : step->jf;
    }
    fail_msg("the program has no end");
    return 0;
}

static uint32_t known(uint32_t nr, uint32_t arch, uint64_t arg)
{
    const struct seccomp_data data = {.nr = (int)nr, .arch = arch, .args = {arg}};

    return run(known_policy, COUNTOF(known_policy), &data);
}

static uint32_t denied(const struct seccomp_data *data)
{
    return run(deny_policy, COUNTOF(deny_policy), data);
}

static void every_number_has_an_answer(void **state)
{
    uint32_t unknown = 0;

    (void)state;
    for (uint32_t nr = 0; nr <= 2000; nr++) {
        uint32_t answer = known(nr, ARCH, 0);

        assert_true(answer == SECCOMP_RET_ALLOW || answer == UNKNOWN);
        unknown += answer == UNKNOWN;
        if ((nr >= HOLE && nr < HOLE_END) || nr >= NEVER) {
            assert_int_equal(answer, UNKNOWN);
        }
        if (nr < 240 || (nr >= HOLE_END && nr <= 441)) {
            assert_int_equal(answer, SECCOMP_RET_ALLOW);
        }
    }
    assert_true(unknown > 2000 - NEVER);
    assert_int_equal(known(FIRST_OF_ALL, ARCH, 0), SECCOMP_RET_ALLOW);
}

static void no_other_way_to_call_is_known(void **state)
{
    static const uint32_t archs[] = {OTHER, 0, ARCH ^ __AUDIT_ARCH_64BIT, ARCH ^ __AUDIT_ARCH_LE,
                                     0xffffffff};
    static const uint32_t bits[] = {X32, 0x80000000u, 0xffff0000u, 0x800, 0x10000};

    (void)state;
    for (uint32_t nr = 0; nr <= 2000; nr++) {
        for (size_t i = 0; i < COUNTOF(archs); i++) {
            const struct seccomp_data data = {.nr = (int)nr, .arch = archs[i]};

            assert_int_equal(known(nr, archs[i], 0), UNKNOWN);
            assert_int_equal(denied(&data), UNKNOWN);
        }
        for (size_t i = 0; i < COUNTOF(bits); i++) {
            assert_int_equal(known(nr | bits[i], ARCH, 0),
                             (nr | bits[i]) == nr ? known(nr, ARCH, 0) : UNKNOWN);
        }
    }
    assert_int_equal(known(0xffffffff, ARCH, 0), UNKNOWN);
}

static bool is_persona(uint64_t value)
{
    return value == PER_LINUX || value == PER_LINUX32 || value == ADDR_NO_RANDOMIZE ||
           value == (PER_LINUX32 | ADDR_NO_RANDOMIZE) || value == 0xffffffff;
}

static void only_harmless_personas_can_be_had(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 64; bit++) {
        for (uint64_t low = 0; low < 256; low++) {
            uint64_t value = low ^ (1ull << bit);

            assert_int_equal(known(SYS_personality, ARCH, value),
                             is_persona(value) ? SECCOMP_RET_ALLOW : UNKNOWN);
        }
    }
    assert_int_equal(known(SYS_personality, ARCH, 0xffffffff), SECCOMP_RET_ALLOW);
    assert_int_equal(known(SYS_personality, ARCH, ~0ull), UNKNOWN);
    assert_int_equal(known(SYS_personality, ARCH, ADDR_NO_RANDOMIZE), SECCOMP_RET_ALLOW);
    assert_int_equal(known(SYS_personality, ARCH, READ_IMPLIES_EXEC), UNKNOWN);
}

static void arguments_are_judged_by_what_the_kernel_looks_at(void **state)
{
    static const uint64_t flags[] = {CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                     CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};
    struct seccomp_data data = {.nr = SYS_clone, .arch = ARCH};

    (void)state;
    for (size_t i = 0; i < COUNTOF(flags); i++) {
        for (unsigned bit = 0; bit < 64; bit++) {
            data.args[0] = flags[i] | 1ull << bit;
            assert_int_equal(denied(&data), REFUSED);
        }
    }
    data.args[0] = CLONE_VM | CLONE_VFORK | 17;
    assert_int_equal(denied(&data), SECCOMP_RET_ALLOW);
    data.nr = SYS_socket;
    for (uint64_t family = 0; family < 300; family++) {
        for (unsigned high = 0; high < 33; high++) {
            uint64_t bits = high < 32 ? 1ull << (high + 32) : 0;
            bool fine = bits == 0 && (family == AF_UNIX || family == AF_INET ||
                                      family == AF_INET6 || family == AF_NETLINK);

            data.args[0] = family | bits;
            data.args[1] = SOCK_DGRAM;
            assert_int_equal(denied(&data) == SECCOMP_RET_ALLOW, fine);
        }
    }
    data.args[0] = AF_NETLINK;
    for (uint64_t protocol = 1; protocol < 64; protocol++) {
        data.args[2] = protocol;
        assert_true(denied(&data) != SECCOMP_RET_ALLOW);
        data.args[2] = protocol << 32;
        assert_true(denied(&data) != SECCOMP_RET_ALLOW);
    }
}

/* Each is one stock for the whole machine. */
static void what_no_cgroup_counts_cannot_be_had(void **state)
{
    struct seccomp_data data = {.nr = SYS_io_setup, .arch = ARCH};

    (void)state;
    assert_int_equal(denied(&data), UNKNOWN);
    data.nr = SYS_mmap;
    data.args[3] = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK;
    assert_int_equal(denied(&data), SECCOMP_RET_ALLOW);
    data.args[3] |= MAP_HUGETLB;
    assert_int_equal(denied(&data), SECCOMP_RET_ERRNO | ENOMEM);
    data.args[3] = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_1GB | 1ull << 40;
    assert_int_equal(denied(&data), SECCOMP_RET_ERRNO | ENOMEM);
    data.nr = SYS_memfd_create;
    data.args[1] = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    assert_int_equal(denied(&data), SECCOMP_RET_ALLOW);
    data.args[1] |= MFD_HUGETLB;
    assert_int_equal(denied(&data), SECCOMP_RET_ERRNO | ENOMEM);
}

static uint32_t by_both(const struct seccomp_data *data)
{
    uint32_t answer = denied(data);

    return answer == SECCOMP_RET_ALLOW ? run(known_policy, COUNTOF(known_policy), data) : answer;
}

static void the_filter_is_one_policy_behind_the_other(void **state)
{
    static const uint32_t archs[] = {ARCH, OTHER, 0};
    static const uint64_t args[] = {0, 1, 2, 16, CLONE_NEWUSER, ADDR_NO_RANDOMIZE, ~0ull};
    size_t allowed = 0;

    (void)state;
    for (uint32_t nr = 0; nr <= 2000; nr++) {
        for (size_t i = 0; i < COUNTOF(archs) * COUNTOF(args); i++) {
            uint64_t arg = args[i % COUNTOF(args)];
            const struct seccomp_data data = {.nr = (int)nr,
                                              .arch = archs[i / COUNTOF(args)],
                                              .args = {arg, arg, arg, arg, arg, arg}};
            uint32_t answer = run(box_policy, COUNTOF(box_policy), &data);

            assert_int_equal(answer, by_both(&data));
            allowed += answer == SECCOMP_RET_ALLOW;
        }
    }
    assert_true(allowed > 200 * COUNTOF(args));
}

/* How the child ended that has the filter. */
static int try_attributes(void)
{
    struct err e;
    int fd = memfd_create("x", MFD_CLOEXEC);

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || seccomp_refuse_attributes(&e) < 0) {
        return 1;
    }
    if (fsetxattr(fd, "security.x", "", 1, 0) == 0 || errno != EOPNOTSUPP ||
        setxattr("/nowhere", "user.x", "", 1, 0) == 0 || errno != EOPNOTSUPP ||
        lsetxattr("/nowhere", "user.x", "", 1, 0) == 0 || errno != EOPNOTSUPP) {
        return 2;
    }
    return flistxattr(fd, NULL, 0) < 0 && errno != EOPNOTSUPP ? 3 : 0;
}

static void where_attributes_are_refused_files_take_none(void **state)
{
    int status = -1;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        _exit(try_attributes());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_has_an_answer),
        cmocka_unit_test(no_other_way_to_call_is_known),
        cmocka_unit_test(only_harmless_personas_can_be_had),
        cmocka_unit_test(arguments_are_judged_by_what_the_kernel_looks_at),
        cmocka_unit_test(what_no_cgroup_counts_cannot_be_had),
        cmocka_unit_test(the_filter_is_one_policy_behind_the_other),
        cmocka_unit_test(where_attributes_are_refused_files_take_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
