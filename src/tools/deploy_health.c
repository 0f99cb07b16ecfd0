#include "tools/deploy_health.h"

#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"

#define RESPONSE 512
#define TAKEN_MS 10000

/* The first line of what is answered to GET; empty: it does not speak HTTP, or not in time. */
static struct str get(const struct ctx *ctx, int fd, struct str request, char to[RESPONSE])
{
    struct err ignored;
    size_t n = 0;

    while (request.len > 0) {
        struct pollfd room = {.fd = fd, .events = POLLOUT};
        ssize_t sent = write(fd, request.p, request.len);

        if (sent < 0 && errno != EAGAIN && errno != EINTR) {
            return STR_EMPTY;
        }
        request = str_skip(request, sent > 0 ? (size_t)sent : 0);
        if (request.len > 0 && ctx_wait(ctx, &room, 1, 0, &ignored) < 0) {
            return STR_EMPTY;
        }
    }
    while (n < RESPONSE) {
        struct pollfd said = {.fd = fd, .events = POLLIN};
        struct str rest;
        ssize_t got;

        if (ctx_wait(ctx, &said, 1, 0, &ignored) < 0) {
            return STR_EMPTY;
        }
        got = read(fd, to + n, RESPONSE - n);
        if (got <= 0) {
            break;
        }
        n += (size_t)got;
        if (str_has((struct str){to, n}, '\n')) {
            return str_cut((struct str){to, n}, '\n', &rest);
        }
    }
    return STR_EMPTY;
}

/* "HTTP/1.1 200 OK" */
static int status_of(struct str line)
{
    struct str rest, end;
    int64_t status;
    struct err ignored;

    if (!str_starts(line, S("HTTP/"))) {
        return 0;
    }
    (void)str_cut(line, ' ', &rest);
    return str_to_i64(str_cut(str_trim(rest), ' ', &end), 100, 599, &status, &ignored) < 0
               ? 0
               : (int)status;
}

/* Without a path nobody said what a good answer is: that of a program without a page at "/" will do. */
static bool is_good(const struct health_ask *ask, int status)
{
    if (ask->path.len == 0) {
        return status < 500; /* what speaks something else is up when it listens */
    }
    return status >= 200 && status < 400;
}

bool health_ask(struct box *b, const struct ctx *ctx, const struct health_ask *ask,
                struct health *out)
{
    struct ctx shorter = {ctx->arena, ctx->cancel, clock_mono_ms() + ask->wait_ms};
    int64_t began_ms = clock_mono_ms();
    char response[RESPONSE];
    struct err ignored;
    int fd own_fd = box_port_dial(b, &shorter, ask->port, &ignored);

    if (fd < 0) {
        return false;
    }
    out->status = status_of(
        get(&shorter, fd,
            arena_printf(ctx->arena,
                         "GET %s%.*s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nUser-Agent: anybox\r\n"
                         "Accept: */*\r\nConnection: close\r\n\r\n",
                         str_starts(ask->path, S("/")) ? "" : "/", STR_ARG(ask->path),
                         (unsigned)ask->port),
            response));
    out->latency_ms = clock_mono_ms() - began_ms;
    out->ok = is_good(ask, out->status);
    return true;
}

bool health_is_taken(struct box *b, const struct ctx *ctx, uint16_t port)
{
    const struct health_ask ask = {.port = port, .wait_ms = TAKEN_MS};
    struct health h = {0};

    return health_ask(b, ctx, &ask, &h) && h.status > 0 && (h.status < 502 || h.status > 504);
}
