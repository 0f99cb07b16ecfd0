#include "base/buf.h"
#include "provider/probe.h"
#include "test.h"

#define BEGIN "\n=ANYBOX=\n"
#define LINUX                                                                                      \
    "=LOAD=\n1.50 0.25 0.05 2/201 407\n=CPUS=\n8\n"                                                \
    "=MEMORY=\nMemTotal:       4096000 kB\nMemFree:  1 kB\nMemAvailable:   1024000 kB\n"           \
    "=DISK=\nFilesystem     1024-blocks     Used Available Capacity Mounted on\n"                  \
    "/dev/sda1          1000000   250000    700000      27% /home\n"                               \
    "=PROCESSES=\n123\n"
#define END "=END=\n"

static struct usage parsed(const char *text)
{
    struct usage u = {0};
    struct err e;

    assert_ok(probe_parse(str_from(text), &u, &e), &e);
    return u;
}

static void a_linux_host(void **state)
{
    struct usage u = parsed(BEGIN LINUX END);

    (void)state;
    assert_true(u.load_1m == 1.5 && u.load_5m == 0.25 && u.load_15m == 0.05);
    assert_int_equal(u.cpus, 8);
    assert_int_equal(u.memory_total, 4096000ll * 1024);
    assert_int_equal(u.memory_used, 3072000ll * 1024);
    assert_int_equal(u.disk_total, 1000000ll * 1024);
    assert_int_equal(u.disk_used, 250000ll * 1024);
    assert_int_equal(u.processes, 123);
    assert_int_equal(u.n_gpus, 0);
}

static void a_mac(void **state)
{
    struct usage u =
        parsed(BEGIN "=LOAD=\n{ 2.50 1.75 1.25 }\n=CPUS=\n10\n=MEMORY=\nmemsize: 17179869184\n"
                     "Mach Virtual Memory Statistics: (page size of 16384 bytes)\n"
                     "Pages free:                               5000.\n"
                     "Pages active:                           300000.\n"
                     "Pages inactive:                         290000.\n"
                     "Pages wired down:                       100000.\n"
                     "Pages occupied by compressor:            50000.\n"
                     "=DISK=\nFilesystem 1024-blocks Used Available Capacity  Mounted on\n"
                     "map auto_home /x 500 200 300    40%    /System/Volumes/Data/My Files\n"
                     "=PROCESSES=\n     417\n" END);

    (void)state;
    assert_true(u.load_1m == 2.5 && u.load_15m == 1.25);
    assert_int_equal(u.cpus, 10);
    assert_int_equal(u.memory_total, 17179869184ll);
    assert_int_equal(u.memory_used, 450000ll * 16384);
    assert_int_equal(u.disk_total, 500 * 1024);
    assert_int_equal(u.disk_used, 200 * 1024);
    assert_int_equal(u.processes, 417);
}

static void a_container_has_its_own_limit(void **state)
{
    struct usage own = parsed(BEGIN LINUX "=LIMIT=\n536870912\n1048576\n" END);
    struct usage alone = parsed(BEGIN "=LIMIT=\n536870912\n0\n" END);
    static const char *const none[] = {
        BEGIN LINUX "=LIMIT=\nmax\n1048576\n" END,
        BEGIN LINUX "=LIMIT=\n9223372036854771712\n1048576\n" END,
        BEGIN LINUX "=LIMIT=\n99999999999\n1\n" END,
        BEGIN LINUX "=LIMIT=\n536870912\n" END,
        BEGIN LINUX "=LIMIT=\n" END,
    };

    (void)state;
    assert_int_equal(own.memory_total, 536870912);
    assert_int_equal(own.memory_used, 1048576);
    assert_int_equal(own.processes, 123);
    assert_int_equal(alone.memory_total, 536870912);
    assert_int_equal(alone.memory_used, 0);
    for (size_t i = 0; i < COUNTOF(none); i++) {
        struct usage u = parsed(none[i]);

        assert_int_equal(u.memory_total, 4096000ll * 1024);
        assert_int_equal(u.memory_used, 3072000ll * 1024);
    }
}

static void loads_as_uptime_tells_them(void **state)
{
    struct usage gnu = parsed(BEGIN "=LOAD=\n 10:00:00 up 3 days,  2 users,  load average: 0.52, "
                                    "1.25, 12.00\n" END);
    struct usage bsd = parsed(BEGIN "=LOAD=\n10:00  up 1 day, 2 users, load averages: 1.52 1.60 "
                                    "1.70\n" END);

    (void)state;
    assert_true(gnu.load_1m == 0.52 && gnu.load_5m == 1.25 && gnu.load_15m == 12.0);
    assert_true(bsd.load_1m == 1.52 && bsd.load_15m == 1.7);
}

static void noise_around_it_does_not_matter(void **state)
{
    struct usage u =
        parsed("Welcome!\n=LOAD=\n99 99 99\nhave fun" BEGIN LINUX END "bye\n=CPUS=\n1");
    struct usage cr = parsed("\r\n=ANYBOX=\r\n=CPUS=\r\n4\r\n=END=\r\n");

    (void)state;
    assert_true(u.load_1m == 1.5);
    assert_int_equal(u.cpus, 8);
    assert_int_equal(cr.cpus, 4);
}

static void what_a_host_cannot_tell_is_not_known(void **state)
{
    struct usage u = parsed(BEGIN "=LOAD=\n=CPUS=\nmany\n=MEMORY=\nmemsize: \n=DISK=\n"
                                  "=PROCESSES=\n" END);

    (void)state;
    assert_true(u.load_1m < 0 && u.load_5m < 0 && u.load_15m < 0);
    assert_true(u.cpus < 0 && u.memory_total < 0 && u.memory_used < 0);
    assert_true(u.disk_total < 0 && u.disk_used < 0 && u.processes < 0);
}

static void nvidia_gpus(void **state)
{
    struct usage u = parsed(BEGIN LINUX "=NVIDIA=\n0, 37, 1024, 143771\n1, [N/A], 5, 143771\n" END);

    (void)state;
    assert_int_equal(u.n_gpus, 2);
    assert_int_equal(u.gpus[0].index, 0);
    assert_true(u.gpus[0].busy_pct == 37.0 && u.gpus[1].busy_pct < 0);
    assert_int_equal(u.gpus[0].memory_used_mb, 1024);
    assert_int_equal(u.gpus[1].memory_total_mb, 143771);
}

static void a_gpu_tool_that_fails_is_no_idle_gpu(void **state)
{
    struct usage none = parsed(BEGIN LINUX "=NVIDIA=\nNo devices were found\nfailed: 6\n" END);
    struct usage broken = parsed(BEGIN LINUX "=NVIDIA=\nNVIDIA-SMI has failed because it could not "
                                             "reach the driver.\nfailed: 9\n" END);
    struct usage amd = parsed(BEGIN LINUX "=ROCM=\nfailed: 124\n" END);

    (void)state;
    assert_int_equal(none.n_gpus, 0);
    assert_int_equal(broken.n_gpus, 1);
    assert_true(broken.gpus[0].busy_pct < 0 && broken.gpus[0].memory_total_mb < 0);
    assert_int_equal(amd.n_gpus, 1);
}

static void amd_gpus_by_the_names_of_their_columns(void **state)
{
    struct usage u = parsed(
        BEGIN LINUX "=ROCM=\nWARNING: AMD GPU device(s) is/are in a low-power state.\n\n"
                    "device,VRAM Total Memory (B),VRAM Total Used Memory (B),GPU use (%)\n"
                    "card0,68702699520,10737418240,42\ncard3,68702699520,1048576,N/A\n\n" END);

    (void)state;
    assert_int_equal(u.n_gpus, 2);
    assert_int_equal(u.gpus[0].memory_total_mb, 65520);
    assert_int_equal(u.gpus[0].memory_used_mb, 10240);
    assert_true(u.gpus[0].busy_pct == 42.0);
    assert_int_equal(u.gpus[1].index, 3);
    assert_true(u.gpus[1].busy_pct < 0);
}

static void a_script_that_did_not_end_says_nothing(void **state)
{
    static const char *const bad[] = {"", "sh: not found\n", "=END=\n", BEGIN LINUX,
                                      "This account is currently not available.\n"};
    struct usage u = {.cpus = 77};
    struct err e;

    (void)state;
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        assert_fails(probe_parse(str_from(bad[i]), &u, &e), &e, ERR_PROTOCOL, "resources");
        assert_int_equal(u.cpus, 77);
    }
}

/* The script itself, on this machine, by the shell that is here. */
static void the_script_runs_here(void **state)
{
    char command[8192];
    char text[PROBE_MAX_BYTES];
    size_t n;
    FILE *f;

    (void)state;
    assert_null(strchr(probe_script, '\''));
    (void)snprintf(command, sizeof(command), "sh -c '%s'", probe_script);
    f = popen(command, "r");
    assert_non_null(f);
    n = fread(text, 1, sizeof(text) - 1, f);
    assert_int_equal(pclose(f), 0);
    text[n] = '\0';

    struct usage u = parsed(text);

    assert_true(u.load_1m >= 0 && u.cpus > 0 && u.memory_total > 0 && u.memory_used >= 0);
    assert_true(u.disk_total > 0 && u.disk_used >= 0 && u.processes > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_linux_host),
        cmocka_unit_test(a_mac),
        cmocka_unit_test(loads_as_uptime_tells_them),
        cmocka_unit_test(a_container_has_its_own_limit),
        cmocka_unit_test(noise_around_it_does_not_matter),
        cmocka_unit_test(what_a_host_cannot_tell_is_not_known),
        cmocka_unit_test(nvidia_gpus),
        cmocka_unit_test(a_gpu_tool_that_fails_is_no_idle_gpu),
        cmocka_unit_test(amd_gpus_by_the_names_of_their_columns),
        cmocka_unit_test(a_script_that_did_not_end_says_nothing),
        cmocka_unit_test(the_script_runs_here),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
