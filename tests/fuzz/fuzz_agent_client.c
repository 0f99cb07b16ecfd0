/* Any bytes as what a compromised agent says: to a command, to a listing, to a read. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "provider/over_agent.h"

#define OPENED_MAX 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct scripted {
    struct agent_box agent;
    struct str says;
    size_t opened; /* connections since one was refused */
    size_t taken;  /* bytes that reached sinks */
};

static int scripted_connect(struct box *b, const struct ctx *ctx, struct err *e)
{
    (void)ctx;
    struct scripted *s = CONTAINER_OF(b, struct scripted, agent.box);
    int ends[2];
    /* Whoever is left without a greeting tries again, until the box is known to be gone. */
    if (s->opened++ == OPENED_MAX) {
        s->opened = 0;
        return err_set(e, ERR_GONE, "it has ended");
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        return err_set(e, ERR_SYSTEM, "socketpair");
    }
    if (send(ends[1], s->says.p, s->says.len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ||
        shutdown(ends[1], SHUT_WR) < 0) {
        abort();
    }
    (void)close(ends[1]);
    return ends[0];
}

static int take_bytes(void *arg, enum stream from, struct str bytes, struct err *e)
{
    (void)from, (void)e;
    ((struct scripted *)arg)->taken += bytes.len;
    return 0;
}

static int take_file(void *arg, const struct file_info *info, struct err *e)
{
    (void)e;
    ((struct scripted *)arg)->taken += info->path.len;
    return 0;
}

static int take_task(void *arg, const struct task_state *state, struct err *e)
{
    (void)e;
    ((struct scripted *)arg)->taken += state->id.len;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > 64u << 10) {
        return 0;
    }
    struct arena a own_arena = {0};
    arena_init(&a, 64u << 20);
    struct ctx ctx = {.arena = &a, .deadline_ms = clock_mono_ms() + 2000};
    struct scripted s = {.says = {(const char *)data, size}};
    s.agent.connect = scripted_connect;
    struct box *b = &s.agent.box;
    struct sink sink = {.write = take_bytes, .arg = &s};
    struct err e = {0};

    const struct exec_req req = {.command = S("true")};
    struct exec_result result;
    struct file_info info;
    struct agent_usage usage;
    bool more = false;
    (void)!agent_exec(b, &ctx, &req, &sink, &result, &e);
    (void)!files_over_agent.stat(b, &ctx, S("f"), &info, &e);
    struct list_req list = {.dir = S("d"), .recursive = true, .max = 50};
    (void)!files_over_agent.list(b, &ctx, &list, take_file, &s, &more, &e);
    (void)!files_over_agent.read(b, &ctx, S("f"), 0, 1000, &sink, &info, &e);
    (void)!tasks_over_agent.state(b, &ctx, STR_EMPTY, take_task, &s, &e);
    (void)!agent_usage(b, &ctx, &usage, &e);
    int port own_fd = ports_over_agent.dial(b, &ctx, 80, &e);
    if (port < 0 && e.kind == ERR_NONE) {
        abort();
    }
    if (s.taken > 4 * size) {
        abort(); /* nothing can come out that did not go in */
    }
    return 0;
}
