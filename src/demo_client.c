#include "demo_client.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/proc.h"
#include "json/js.h"

#define ANSWER_MAX    (4u << 20)
#define ENV_COUNT     256
#define READ_SIZE     65536
#define STOP_WAIT_MS  3000
#define CLEAR_WAIT_MS 10000

/* ---- starting and stopping ---------------------------------------------- */

/* What of our environment would make the tour depend on who gives it. */
static bool is_ours(struct str variable)
{
    return str_starts(variable, S("ANYBOX_")) || str_starts(variable, S("REMOTE_")) ||
           str_starts(variable, S("OPENSANDBOX_")) || str_starts(variable, S("OPEN_SANDBOX_")) ||
           str_starts(variable, S("CLAUDE_PROJECT_DIR=")) ||
           str_starts(variable, S("MCP_LOG_LEVEL="));
}

static void make_env(struct arena *a, struct str home, const char *envp[ENV_COUNT])
{
    size_t n = 0;

    for (char **v = environ; *v && n < ENV_COUNT - 2; v++) {
        if (!is_ours(str_from(*v))) {
            envp[n++] = *v;
        }
    }
    envp[n++] = arena_printf(a, "ANYBOX_HOME=%.*s", STR_ARG(home)).p;
    envp[n] = NULL;
}

int demo_client_start(struct demo_client *c, struct str home, struct err *e)
{
    static const char *const argv[] = {"anybox", "--config", "/dev/null", "stdio", NULL};
    struct arena arena own_arena = {0};
    const char *envp[ENV_COUNT];
    int in[2], out[2];

    arena_init(&arena, 1u << 20);
    make_env(&arena, home, envp);
    if (pipe2(in, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "make a pipe");
    }
    int in_read own_fd = in[0], in_write own_fd = in[1];
    if (pipe2(out, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "make a pipe");
    }
    int out_read own_fd = out[0], out_write own_fd = out[1];
    const struct proc_fd fds[] = {
        {in_read, STDIN_FILENO}, {out_write, STDOUT_FILENO}, {STDERR_FILENO, STDERR_FILENO}};
    const struct proc_spec spec = {.file = "/proc/self/exe",
                                   .argv = argv,
                                   .envp = envp,
                                   .fds = fds,
                                   .n_fds = COUNTOF(fds),
                                   .new_session = true};
    if (proc_spawn(&spec, &c->pid, e) < 0) {
        return -1;
    }
    c->to = take_fd(&in_write);
    c->from = take_fd(&out_read);
    buf_init(&c->in, ANSWER_MAX);
    return 0;
}

void demo_client_stop(struct demo_client *c)
{
    const struct ctx ctx = {.deadline_ms = clock_mono_ms() + STOP_WAIT_MS};
    struct err e;
    int status = 0;

    if (c->pid == 0) {
        return;
    }
    (void)close(c->to);
    if (proc_wait(&ctx, c->pid, &status, &e) < 0) {
        const struct ctx for_ever = {0};
        (void)kill(c->pid, SIGKILL);
        (void)(proc_wait(&for_ever, c->pid, &status, &e) < 0);
    }
    (void)close(c->from);
    buf_fini(&c->in);
    c->pid = 0;
}

void demo_client_clear(struct str home)
{
    static const char *const argv[] = {"anybox", "--config", "/dev/null", "rm", "--all", NULL};
    const struct ctx ctx = {.deadline_ms = clock_mono_ms() + CLEAR_WAIT_MS};
    struct arena arena own_arena = {0};
    const char *envp[ENV_COUNT];
    int null own_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    int status = 0;
    pid_t pid = 0;
    struct err ignored;

    arena_init(&arena, 1u << 20);
    make_env(&arena, home, envp);
    const struct proc_fd fds[] = {
        {null, STDIN_FILENO}, {null, STDOUT_FILENO}, {STDERR_FILENO, STDERR_FILENO}};
    const struct proc_spec spec = {.file = "/proc/self/exe",
                                   .argv = argv,
                                   .envp = envp,
                                   .fds = fds,
                                   .n_fds = COUNTOF(fds),
                                   .new_session = true};
    if (null < 0 || proc_spawn(&spec, &pid, &ignored) < 0) {
        return; /* the box has a lifetime */
    }
    (void)(proc_wait(&ctx, pid, &status, &ignored) < 0);
}

/* ---- asking ------------------------------------------------------------- */

static int send_message(struct demo_client *c, json_t *message, struct err *e)
{
    struct buf line own_buf = {0};

    buf_init(&line, ANSWER_MAX);
    js_dump(message, &line);
    buf_addc(&line, '\n');
    if (line.cut) {
        return err_set(e, ERR_LIMIT, "a message is larger than %u bytes", ANSWER_MAX);
    }
    return fd_write_all(c->to, buf_str(&line), e);
}

/* One line of the server in `out`, which borrows from c->in until the next call. */
static int next_line(struct demo_client *c, const struct ctx *ctx, size_t *used, struct str *out,
                     struct err *e)
{
    buf_drop(&c->in, *used);
    *used = 0;
    for (;;) {
        struct str rest;
        struct str line = str_cut(buf_str(&c->in), '\n', &rest);
        if (rest.p) {
            *used = line.len + 1;
            *out = line;
            return 0;
        }
        struct pollfd ready = {.fd = c->from, .events = POLLIN};
        if (ctx_wait(ctx, &ready, 1, 0, e) < 0) {
            return -1;
        }
        char *room = buf_room(&c->in, READ_SIZE);
        if (!room) {
            return err_set(e, ERR_PROTOCOL, "the server sent more than %u bytes in one line",
                           ANSWER_MAX);
        }
        ssize_t n = fd_read(c->from, room, READ_SIZE, e);
        if (n < 0) {
            return -1;
        }
        if (n == 0) {
            return err_set(e, ERR_PROTOCOL, "the server went away without an answer");
        }
        c->in.len += (size_t)n;
    }
}

/* Reads until the answer to `id`; notifications in between are passed over. */
static json_t *wait_answer(struct demo_client *c, const struct ctx *ctx, int64_t id, struct err *e)
{
    size_t used = 0;

    for (;;) {
        struct str line = STR_EMPTY;
        if (next_line(c, ctx, &used, &line, e) < 0) {
            return NULL;
        }
        char *text own_mem = xmemdup(line.p, line.len);
        json_t *message = js_parse(text, line.len, e);
        if (!message) {
            return NULL;
        }
        const json_t *got = js_get(message, "id");
        if (json_is_integer(got) && json_integer_value(got) == id) {
            buf_drop(&c->in, used);
            return message;
        }
        json_decref(message);
    }
}

json_t *demo_client_ask(struct demo_client *c, const char *method, json_t *params, int64_t limit_ms,
                        struct err *e)
{
    int64_t id = ++c->next_id;
    json_t *request own_json = json_pack("{s:s, s:I, s:s, s:o}", "jsonrpc", "2.0", "id",
                                         (json_int_t)id, "method", method, "params", params);

    if (!request) {
        (void)err_set(e, ERR_BUG, "cannot build a %s request", method);
        return NULL;
    }
    const struct ctx ctx = {.cancel = c->cancel, .deadline_ms = clock_mono_ms() + limit_ms};
    if (send_message(c, request, e) < 0) {
        return NULL;
    }
    json_t *answer own_json = wait_answer(c, &ctx, id, e);
    if (!answer) {
        return NULL;
    }
    json_t *result = js_get(answer, "result");
    if (!result) {
        struct str why = js_str(js_path(answer, "error", "message", NULL));
        (void)err_set(e, ERR_PROTOCOL, "%s was refused: %.*s", method, STR_ARG(why));
        return NULL;
    }
    return json_incref(result);
}

int demo_client_notify(struct demo_client *c, const char *method, struct err *e)
{
    json_t *message own_json = json_pack("{s:s, s:s}", "jsonrpc", "2.0", "method", method);

    return message ? send_message(c, message, e)
                   : err_set(e, ERR_BUG, "cannot build a %s notification", method);
}

json_t *demo_client_call(struct demo_client *c, const char *tool, json_t *arguments,
                         int64_t limit_ms, bool *is_error, struct err *e)
{
    json_t *result own_json =
        demo_client_ask(c, "tools/call",
                        json_pack("{s:s, s:o}", "name", tool, "arguments", arguments), limit_ms, e);

    if (!result) {
        return NULL;
    }
    const json_t *block = json_array_get(js_get(result, "content"), 0);
    struct str text = js_str(js_get(block, "text"));
    char *copy own_mem = xmemdup(text.len > 0 ? text.p : "", text.len);
    json_t *answer = js_parse(copy, text.len, e);
    if (!answer) {
        (void)err_wrap(e, "the answer of %s", tool);
        return NULL;
    }
    *is_error = json_is_true(js_get(result, "isError"));
    return answer;
}
