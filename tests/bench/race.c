/*
 * race.c - contenders in random order, round by round, with idle gaps between them.
 *
 *   create SERVER...          create_sandbox and its first exec_bash of `true`
 *   exec SERVER...            exec_bash of `true` in a box that lives
 *   run COMMAND...            the command, started by posix_spawn
 *   engine SOCKET CONTAINER   `bash -c true` in a container by Docker's Engine API: create,
 *                             start until its output ends, inspect
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench.h"

#define CONTENDERS_MAX 16
#define WARM_ROUNDS    3

enum kind {
    CREATE,
    EXEC,
    RUN,
    ENGINE,
};

struct contender {
    enum kind kind;
    char **argv;
    struct server server;
    double *took_us;
    int n, boxes;
};

static double time_create(struct contender *c)
{
    char name[32], create[REQUEST_MAX], exec_true[REQUEST_MAX], delete[REQUEST_MAX];
    double t;

    (void)snprintf(name, sizeof(name), "race-%d", c->boxes++);
    put_create(create, name);
    put_exec_true(exec_true, name);
    put_delete(delete, name);
    t = now_us();
    server_say(&c->server, create);
    server_expect(&c->server, "sandbox_id");
    server_say(&c->server, exec_true);
    server_expect(&c->server, EXIT_0);
    t = now_us() - t;
    (void)server_time(&c->server, delete, "result");
    return t;
}

static double time_run(const struct contender *c)
{
    double t = now_us();

    run_command(c->argv);
    return now_us() - t;
}

/* One request on a connection of its own; the answer is all that comes until it is closed. */
static void engine_ask(const char *socket_path, const char *request, char *answer, size_t cap)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t have = 0;

    if (strlen(socket_path) >= sizeof(at.sun_path)) {
        fail("the socket's path is too long", socket_path);
    }
    memcpy(at.sun_path, socket_path, strlen(socket_path));
    if (fd < 0 || connect(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
        write(fd, request, strlen(request)) != (ssize_t)strlen(request)) {
        die(socket_path);
    }
    while (have + 1 < cap) {
        ssize_t n = read(fd, answer + have, cap - 1 - have);

        if (n <= 0) {
            break;
        }
        have += (size_t)n;
    }
    answer[have] = '\0';
    (void)close(fd);
}

static void engine_post(const char *socket_path, const char *path, const char *body, char *answer)
{
    char request[REQUEST_MAX];

    (void)snprintf(request, sizeof(request),
                   "POST %s HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n"
                   "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                   path, strlen(body), body);
    engine_ask(socket_path, request, answer, ANSWER_MAX);
}

static double time_engine(const struct contender *c)
{
    char path[200], answer[ANSWER_MAX], id[65], request[REQUEST_MAX];
    const char *found;
    double t = now_us();

    (void)snprintf(path, sizeof(path), "/containers/%s/exec", c->argv[1]);
    engine_post(c->argv[0], path,
                "{\"AttachStdout\":true,\"AttachStderr\":true,"
                "\"Cmd\":[\"bash\",\"-c\",\"true\"]}",
                answer);
    found = strstr(answer, "\"Id\":\"");
    if (found == NULL || sscanf(found, "\"Id\":\"%64[0-9a-f]", id) != 1) {
        fail("unexpected answer of the Engine API", answer);
    }
    (void)snprintf(path, sizeof(path), "/exec/%s/start", id);
    engine_post(c->argv[0], path, "{\"Detach\":false,\"Tty\":false}", answer);
    (void)snprintf(request, sizeof(request),
                   "GET /exec/%s/json HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n", id);
    engine_ask(c->argv[0], request, answer, sizeof(answer));
    t = now_us() - t;
    if (strstr(answer, "\"ExitCode\":0") == NULL) {
        fail("unexpected answer of the Engine API", answer);
    }
    return t;
}

static double time_one(struct contender *c)
{
    switch (c->kind) {
    case CREATE: return time_create(c);
    case EXEC: return server_time(&c->server, say_exec_true, EXIT_0);
    case RUN: return time_run(c);
    case ENGINE: return time_engine(c);
    }
    return 0;
}

static enum kind kind_named(const char *word)
{
    static const char *const words[] = {"create", "exec", "run", "engine"};

    for (int i = 0; i < (int)(sizeof(words) / sizeof(words[0])); i++) {
        if (strcmp(word, words[i]) == 0) {
            return (enum kind)i;
        }
    }
    fail("no kind of contender", word);
}

static int read_contenders(int argc, char **argv, int rounds, struct contender *out)
{
    int n = 0;

    for (int at = 0; at < argc; n++) {
        int end = part_end(argc, argv, at);

        if (n == CONTENDERS_MAX || end - at < 2) {
            fail("race", "too many contenders, or one without a command");
        }
        out[n].kind = kind_named(argv[at]);
        out[n].argv = argv + at + 1;
        out[n].took_us = calloc((size_t)rounds, sizeof(double));
        if (out[n].took_us == NULL) {
            die("race");
        }
        at = end + 1;
    }
    return n;
}

static void race_round(struct contender *c, int n, int gap_ms, int rounds)
{
    int order[CONTENDERS_MAX];

    for (int i = 0; i < n; i++) {
        order[i] = i;
    }
    shuffle(order, n);
    for (int i = 0; i < n; i++) {
        struct contender *now = &c[order[i]];
        double t = time_one(now);

        if (now->n < rounds) {
            now->took_us[now->n++] = t;
        }
        /* Whatever a server does behind a create, such as filling its pool, must not be
         * in the next one's time. */
        gap(now->kind == CREATE ? 3 * gap_ms : gap_ms);
    }
}

int run_race(int argc, char **argv)
{
    static struct contender c[CONTENDERS_MAX];
    int rounds, gap_ms, n;

    if (argc < 4) {
        return 2;
    }
    rounds = number(argv[0], ROUNDS_MAX);
    gap_ms = number(argv[1], 10000);
    n = read_contenders(argc - 2, argv + 2, rounds, c);
    for (int i = 0; i < n; i++) {
        if (c[i].kind == CREATE || c[i].kind == EXEC) {
            server_greet(&c[i].server, c[i].argv);
        }
    }
    for (int i = 0; i < WARM_ROUNDS; i++) {
        race_round(c, n, gap_ms, 0);
    }
    for (int i = 0; i < rounds; i++) {
        race_round(c, n, gap_ms, rounds);
    }
    for (int i = 0; i < n; i++) {
        printf("c%d_us %.0f\n", i, median(c[i].took_us, c[i].n));
        if (c[i].server.pid > 0) {
            server_stop(&c[i].server);
        }
    }
    return 0;
}
