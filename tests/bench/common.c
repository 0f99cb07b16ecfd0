#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#define LINE_MAX_BYTES (1 << 20)

extern char **environ;

void die(const char *what)
{
    fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
    exit(1);
}

void fail(const char *what, const char *detail)
{
    fprintf(stderr, "bench: %s: %s\n", what, detail);
    exit(1);
}

double now_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

void gap(int ms)
{
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

    (void)nanosleep(&t, NULL);
}

int number(const char *text, int max)
{
    char *end;
    long n = strtol(text, &end, 10);

    if (*text == '\0' || *end != '\0' || n < 0 || n > max) {
        fail("not a number that can be used", text);
    }
    return (int)n;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double median(double *v, int n)
{
    if (n == 0) {
        return 0;
    }
    qsort(v, (size_t)n, sizeof(*v), by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

void shuffle(int *v, int n)
{
    for (int i = n - 1; i > 0; i--) {
        int j = rand() % (i + 1), kept = v[i];

        v[i] = v[j];
        v[j] = kept;
    }
}

int part_end(int argc, char **argv, int from)
{
    for (int i = from; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            argv[i] = NULL;
            return i;
        }
    }
    return argc;
}

void run_command(char *const *argv)
{
    int status = 0;
    pid_t pid;
    int rc = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);

    if (rc != 0) {
        fail(argv[0], strerror(rc));
    }
    if (waitpid(pid, &status, 0) < 0 || status != 0) {
        fail(argv[0], "did not end well");
    }
}

void server_start(struct server *s, char **argv)
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
    if (s->pid < 0 || s->line == NULL) {
        die("start the server");
    }
}

void server_greet(struct server *s, char **argv)
{
    server_start(s, argv);
    (void)server_time(s, say_initialize, "result");
    server_say(s, say_initialized);
}

void server_stop(struct server *s)
{
    int status;

    (void)close(s->in);
    (void)close(s->out);
    (void)waitpid(s->pid, &status, 0);
}

void server_say(struct server *s, const char *text)
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

void server_hear(struct server *s, char *to, size_t cap)
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
            fail("the server", "went away");
        }
        s->have += (size_t)n;
    }
}

void server_expect(struct server *s, const char *must_have)
{
    char answer[ANSWER_MAX];

    server_hear(s, answer, sizeof(answer));
    if (must_have != NULL && strstr(answer, must_have) == NULL) {
        fail("unexpected answer", answer);
    }
}

double server_time(struct server *s, const char *request, const char *must_have)
{
    double t = now_us();

    server_say(s, request);
    server_expect(s, must_have);
    return now_us() - t;
}

const char say_initialize[] =
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
    "\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}\n";
const char say_initialized[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
const char say_ping[] = "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n";

#define CALL(name, arguments)                                                                      \
    "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{\"name\":\"" name         \
    "\",\"arguments\":{" arguments "}}}\n"

const char say_exec_true[] = CALL("exec_bash", "\"command\":\"true\"");

void put_create(char *to, const char *box)
{
    (void)snprintf(to, REQUEST_MAX, CALL("create_sandbox", "\"name\":\"%s\""), box);
}

void put_exec_true(char *to, const char *box)
{
    (void)snprintf(to, REQUEST_MAX,
                   CALL("exec_bash", "\"command\":\"true\",\"sandbox_name\":\"%s\""), box);
}

void put_delete(char *to, const char *box)
{
    (void)snprintf(to, REQUEST_MAX, CALL("delete_sandbox", "\"sandbox_name\":\"%s\""), box);
}
