/*
 * bench.c - the clock of `make bench`. Small and libc-only, so that what it measures
 * is the other side.
 *
 *   bench exec ROUNDS GAP_MS SERVER...       exec_bash of `true` over MCP against a plain
 *                                            fork+exec of `bash -c true`, interleaved
 *   bench flood CALLS DEPTH SERVER...        so many calls, DEPTH at a time, then as exec
 *   bench start ROUNDS A... -- B...          spawn to the first answer, ping, memory of two
 *                                            servers, interleaved
 *
 * Prints "key value" lines; times are medians in microseconds. SERVER's environment is
 * ours: set ANYBOX_HOME outside. Rounds are in random order with idle gaps, because
 * back-to-back loops measure warm caches and hide what a user feels.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES (1 << 20)
#define ROUNDS_MAX     100000

struct server {
    pid_t pid;
    int in, out;
    char *line;
    size_t have;
};

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static double now_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void gap(int ms)
{
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

    (void)nanosleep(&t, NULL);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof(*v), by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static void start(struct server *s, char **argv)
{
    int to[2], from[2];

    if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0) {
        die("pipe");
    }
    s->pid = fork();
    if (s->pid == 0) {
        (void)dup2(to[0], 0);
        (void)dup2(from[1], 1);
        (void)execvp(argv[0], argv);
        _exit(127);
    }
    (void)close(to[0]);
    (void)close(from[1]);
    s->in = to[1];
    s->out = from[0];
    s->have = 0;
    if (s->line == NULL) {
        s->line = malloc(LINE_MAX_BYTES);
    }
}

static void stop(struct server *s)
{
    int status;

    (void)close(s->in);
    (void)close(s->out);
    (void)waitpid(s->pid, &status, 0);
}

static void say(struct server *s, const char *text)
{
    size_t len = strlen(text);

    while (len > 0) {
        ssize_t n = write(s->in, text, len);

        if (n < 0) {
            die("write to the server");
        }
        text += n;
        len -= (size_t)n;
    }
}

/* Reads one line; the rest stays for the next call. */
static void hear(struct server *s, char *to, size_t cap)
{
    for (;;) {
        char *end = memchr(s->line, '\n', s->have);

        if (end != NULL) {
            size_t len = (size_t)(end - s->line);
            size_t keep = len < cap ? len : cap - 1;

            memcpy(to, s->line, keep);
            to[keep] = '\0';
            memmove(s->line, end + 1, s->have - len - 1);
            s->have -= len + 1;
            return;
        }
        ssize_t n = read(s->out, s->line + s->have, LINE_MAX_BYTES - s->have);

        if (n <= 0) {
            fprintf(stderr, "bench: the server went away\n");
            exit(1);
        }
        s->have += (size_t)n;
    }
}

static const char initialize[] =
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\","
    "\"capabilities\":{},\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}\n";
static const char initialized[] =
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
static const char ping[] = "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n";
static const char exec_true[] =
    "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{\"name\":\"exec_bash\","
    "\"arguments\":{\"command\":\"true\"}}}\n";

static double time_exchange(struct server *s, const char *request, const char *must_have)
{
    char answer[4096];
    double t = now_us();

    say(s, request);
    hear(s, answer, sizeof(answer));
    t = now_us() - t;
    if (must_have != NULL && strstr(answer, must_have) == NULL) {
        fprintf(stderr, "bench: unexpected answer: %s\n", answer);
        exit(1);
    }
    return t;
}

#define EXIT_0 "\\\"exit_code\\\":0"

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

    (void)time_exchange(s, exec_true, EXIT_0); /* makes the box */
    (void)time_exchange(s, exec_true, EXIT_0);
    while (n_ours < rounds || n_plain < rounds) {
        int ours_now = rand() % 2;

        if ((ours_now && n_ours < rounds) || n_plain >= rounds) {
            ours[n_ours++] = time_exchange(s, exec_true, EXIT_0);
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
    start(&s, argv + 2);
    (void)time_exchange(&s, initialize, "result");
    say(&s, initialized);
    measure_exec(&s, (int)strtol(argv[0], NULL, 10), (int)strtol(argv[1], NULL, 10));
    stop(&s);
    return 0;
}

static int run_flood(int argc, char **argv)
{
    struct server s = {0};
    char answer[4096];
    long calls, sent = 0, got = 0, depth;

    if (argc < 3) {
        return 2;
    }
    calls = strtol(argv[0], NULL, 10);
    depth = strtol(argv[1], NULL, 10);
    start(&s, argv + 2);
    (void)time_exchange(&s, initialize, "result");
    say(&s, initialized);
    (void)time_exchange(&s, exec_true, EXIT_0);
    double t = now_us();

    while (got < calls) {
        while (sent < calls && sent - got < depth) {
            say(&s, exec_true);
            sent++;
        }
        hear(&s, answer, sizeof(answer));
        if (strstr(answer, EXIT_0) == NULL) {
            fprintf(stderr, "bench: unexpected answer: %s\n", answer);
            return 1;
        }
        got++;
    }
    printf("calls_per_s %.0f\n", (double)calls / ((now_us() - t) / 1e6));
    measure_exec(&s, 40, 40);
    stop(&s);
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

    start(&s, argv);
    (void)time_exchange(&s, initialize, "result");
    r->first[r->n] = now_us() - t;
    say(&s, initialized);
    for (int i = 0; i < 50; i++) {
        pings[i] = time_exchange(&s, ping, "result");
    }
    r->pings[r->n++] = median(pings, 50);
    r->rss = rss_kb(s.pid);
    stop(&s);
    free(s.line);
}

static int run_start(int argc, char **argv)
{
    static struct start_result r[2];
    char **second = NULL;
    int rounds;

    if (argc < 2) {
        return 2;
    }
    rounds = (int)strtol(argv[0], NULL, 10);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            argv[i] = NULL;
            second = argv + i + 1;
            break;
        }
    }
    for (int i = 0; i < rounds && i < 1000; i++) {
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
    (void)signal(SIGPIPE, SIG_IGN);
    srand((unsigned)time(NULL));
    if (argc > 2 && strcmp(argv[1], "exec") == 0) {
        return run_exec(argc - 2, argv + 2);
    }
    if (argc > 2 && strcmp(argv[1], "flood") == 0) {
        return run_flood(argc - 2, argv + 2);
    }
    if (argc > 2 && strcmp(argv[1], "start") == 0) {
        return run_start(argc - 2, argv + 2);
    }
    fprintf(stderr, "bench: see the comment at the top of bench.c\n");
    return 2;
}
