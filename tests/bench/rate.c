/*
 * rate.c - how many boxes a second one server makes on two cores, with 2, 4 and 8 calls in
 * flight, against a command that is run again and again by two processes. In random order,
 * round by round. The boxes of a round are deleted after its clock has stopped; then the
 * server is given time to settle, and to fill its pool if it has one.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define CORES        2
#define PEER_MIN     20 /* runs of each process */
#define DELETE_DEPTH 4
#define N_DEPTHS     3
#define RATE_ROUNDS  1000

static const int depths[N_DEPTHS] = {2, 4, 8};

static void keep_two_cores(void)
{
    cpu_set_t all, two;

    CPU_ZERO(&two);
    if (sched_getaffinity(0, sizeof(all), &all) < 0) {
        die("read the affinity");
    }
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&two) < CORES; i++) {
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &two);
        }
    }
    if (sched_setaffinity(0, sizeof(two), &two) < 0) {
        die("keep to two cores");
    }
}

/* `count` calls for the boxes from number `first` on, at most `depth` in flight. */
static void call_all(struct server *s, void (*put)(char *, const char *), int first, int count,
                     int depth)
{
    char name[32], request[REQUEST_MAX];
    int sent = 0, got = 0;

    while (got < count) {
        while (sent < count && sent - got < depth) {
            (void)snprintf(name, sizeof(name), "rate-%d", first + sent);
            put(request, name);
            server_say(s, request);
            sent++;
        }
        server_expect(s, put == put_create ? "sandbox_id" : "result");
        got++;
    }
}

static double creates_per_s(struct server *s, int count, int depth, int settle_ms)
{
    static int made;
    double t = now_us();

    call_all(s, put_create, made, count, depth);
    t = now_us() - t;
    call_all(s, put_delete, made, count, DELETE_DEPTH);
    made += count;
    gap(settle_ms);
    return count / (t / 1e6);
}

static double peer_per_s(char **argv, int count)
{
    pid_t loops[CORES];
    int each = count / CORES < PEER_MIN ? PEER_MIN : count / CORES;
    int status;
    double t = now_us();

    for (int i = 0; i < CORES; i++) {
        loops[i] = fork();
        if (loops[i] == 0) {
            for (int k = 0; k < each; k++) {
                run_command(argv);
            }
            _exit(0);
        }
    }
    for (int i = 0; i < CORES; i++) {
        if (waitpid(loops[i], &status, 0) < 0 || status != 0) {
            fail("rate", "the peer did not work");
        }
    }
    return CORES * each / ((now_us() - t) / 1e6);
}

int run_rate(int argc, char **argv)
{
    static double rates[N_DEPTHS + 1][RATE_ROUNDS];
    struct server s = {0};
    int rounds, count, settle_ms, end;
    int order[N_DEPTHS + 1] = {0, 1, 2, N_DEPTHS};

    end = part_end(argc, argv, 0);
    if (end < 4 || end + 1 >= argc) {
        return 2;
    }
    rounds = number(argv[0], RATE_ROUNDS);
    count = number(argv[1], ROUNDS_MAX);
    settle_ms = number(argv[2], 60000);
    keep_two_cores();
    server_greet(&s, argv + 3);
    (void)creates_per_s(&s, count, depths[0], settle_ms);
    for (int i = 0; i < rounds; i++) {
        shuffle(order, N_DEPTHS + 1);
        for (int k = 0; k <= N_DEPTHS; k++) {
            int now = order[k];

            rates[now][i] = now == N_DEPTHS ? peer_per_s(argv + end + 1, count)
                                            : creates_per_s(&s, count, depths[now], settle_ms);
            gap(40);
        }
    }
    for (int k = 0; k < N_DEPTHS; k++) {
        printf("depth%d_per_s %.1f\n", depths[k], median(rates[k], rounds));
    }
    printf("peer_per_s %.1f\n", median(rates[N_DEPTHS], rounds));
    server_stop(&s);
    return 0;
}
