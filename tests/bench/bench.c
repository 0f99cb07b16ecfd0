/*
 * bench.c - the clock of `make bench`. Small and libc-only, so that what it measures
 * is the other side.
 *
 *   bench exec ROUNDS GAP_MS SERVER...       exec_bash of `true` over MCP against a plain
 *                                            fork+exec of `bash -c true`, interleaved
 *   bench flood CALLS DEPTH SERVER...        so many calls, DEPTH at a time, then as exec
 *   bench start ROUNDS A... -- B...          spawn to the first answer, ping, memory of two
 *                                            servers, interleaved
 *   bench race ROUNDS GAP_MS C... [-- C...]  any contenders: see race.c; c0_us, c1_us...
 *   bench rate ROUNDS COUNT SETTLE_MS SERVER... -- COMMAND...
 *                                            boxes made in a second: see rate.c
 *
 * Prints "key value" lines; times are medians in microseconds. SERVER's environment is
 * ours, set ANYBOX_HOME outside, or by env(1) in front of it. Rounds are in random order with idle gaps, because
 * back-to-back loops measure warm caches and hide what a user feels.
 */
#include "bench.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double time_fork_exec(void)
{
    char bash[] = "bash", dash_c[] = "-c", command[] = "true";
    char *const argv[] = {bash, dash_c, command, NULL};
    int status;
    double t = now_us();
    pid_t pid = fork();

    if (pid == 0) {
        (void)execv("/bin/bash", argv);
        _exit(127);
    }
    (void)waitpid(pid, &status, 0);
    return now_us() - t;
}

static void measure_exec(struct server *s, int rounds, int gap_ms)
{
    static double ours[ROUNDS_MAX], plain[ROUNDS_MAX];
    int n_ours = 0, n_plain = 0;

    (void)server_time(s, say_exec_true, EXIT_0); /* makes the box */
    (void)server_time(s, say_exec_true, EXIT_0);
    while (n_ours < rounds || n_plain < rounds) {
        int ours_now = rand() % 2;

        if ((ours_now && n_ours < rounds) || n_plain >= rounds) {
            ours[n_ours++] = server_time(s, say_exec_true, EXIT_0);
        } else {
            plain[n_plain++] = time_fork_exec();
        }
        gap(gap_ms);
    }
    double a = median(ours, n_ours), b = median(plain, n_plain);

    printf("exec_us %.0f\nplain_us %.0f\nratio %.2f\n", a, b, a / b);
}

static int run_exec(int argc, char **argv)
{
    struct server s = {0};

    if (argc < 3) {
        return 2;
    }
    server_greet(&s, argv + 2);
    measure_exec(&s, number(argv[0], ROUNDS_MAX), number(argv[1], 10000));
    server_stop(&s);
    return 0;
}

static int run_flood(int argc, char **argv)
{
    struct server s = {0};
    int calls, sent = 0, got = 0, depth;

    if (argc < 3) {
        return 2;
    }
    calls = number(argv[0], 10000000);
    depth = number(argv[1], 1000);
    server_greet(&s, argv + 2);
    (void)server_time(&s, say_exec_true, EXIT_0);
    double t = now_us();

    while (got < calls) {
        while (sent < calls && sent - got < depth) {
            server_say(&s, say_exec_true);
            sent++;
        }
        server_expect(&s, EXIT_0);
        got++;
    }
    printf("calls_per_s %.0f\n", (double)calls / ((now_us() - t) / 1e6));
    measure_exec(&s, 40, 40);
    server_stop(&s);
    return 0;
}

static long rss_kb(pid_t pid)
{
    char path[64], line[256];
    long kb = -1;
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    f = fopen(path, "r");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        if (strncmp(line, "VmRSS:", 6) == 0) {
            kb = strtol(line + 6, NULL, 10);
        }
    }
    if (f != NULL) {
        (void)fclose(f);
    }
    return kb;
}

struct start_result {
    double first[1000], pings[1000];
    int n;
    long rss;
};

static void measure_start(char **argv, struct start_result *r)
{
    struct server s = {0};
    double t = now_us(), pings[50];

    server_start(&s, argv);
    (void)server_time(&s, say_initialize, "result");
    r->first[r->n] = now_us() - t;
    server_say(&s, say_initialized);
    for (int i = 0; i < 50; i++) {
        pings[i] = server_time(&s, say_ping, "result");
    }
    r->pings[r->n++] = median(pings, 50);
    r->rss = rss_kb(s.pid);
    server_stop(&s);
    free(s.line);
}

static int run_start(int argc, char **argv)
{
    static struct start_result r[2];
    char **second;
    int rounds, end;

    if (argc < 2) {
        return 2;
    }
    rounds = number(argv[0], 1000);
    end = part_end(argc, argv, 1);
    second = end < argc ? argv + end + 1 : NULL;
    for (int i = 0; i < rounds; i++) {
        measure_start(argv + 1, &r[0]);
        gap(40);
        if (second != NULL) {
            measure_start(second, &r[1]);
            gap(40);
        }
    }
    for (int i = 0; i < (second ? 2 : 1); i++) {
        printf("start%d_us %.0f\nping%d_us %.0f\nrss%d_kb %ld\n", i, median(r[i].first, r[i].n), i,
               median(r[i].pings, r[i].n), i, r[i].rss);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } modes[] = {{"exec", run_exec},
                 {"flood", run_flood},
                 {"start", run_start},
                 {"race", run_race},
                 {"rate", run_rate}};

    (void)signal(SIGPIPE, SIG_IGN);
    srand((unsigned)time(NULL));
    for (size_t i = 0; argc > 2 && i < sizeof(modes) / sizeof(modes[0]); i++) {
        int rc = strcmp(argv[1], modes[i].name) == 0 ? modes[i].run(argc - 2, argv + 2) : -1;

        if (rc == 0 || rc == 1) {
            return rc;
        }
    }
    fprintf(stderr, "bench: see the comment at the top of bench.c\n");
    return 2;
}
