/*
 * The steps of `anybox demo`. Each one asks the server, tells what came back in a few
 * lines, and fails when the answer is not what the documentation promises.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/id.h"
#include "demo.h"
#include "json/js.h"

#define TEXT_MAX     (1u << 20)
#define ASK_MS       10000
#define BOX_LIFE_S   120
#define OUTPUT_LINES 6
#define LIST_MAX     12288 /* bytes that the default tools/list may cost */
#define MEMORY_ASKED "256m"
#define SECRET_FILE  "only-the-host-has-this"

/* ---- telling ------------------------------------------------------------ */

static void detail(struct tour *t, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void detail(struct tour *t, const char *fmt, ...)
{
    char line[1024];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    buf_add(&t->details, S("    "));
    cli_plain(&t->details, str_from(line));
    buf_addc(&t->details, '\n');
}

/* What a command printed, a few lines of it. */
static void detail_output(struct tour *t, struct str output)
{
    struct str rest = output;

    for (int i = 0; rest.len > 0; i++) {
        if (i == OUTPUT_LINES) {
            buf_add(&t->details, S("    | ...\n"));
            return;
        }
        struct str line = str_cut(rest, '\n', &rest);
        buf_add(&t->details, S("    | "));
        cli_plain(&t->details, str_head(line, 200));
        buf_addc(&t->details, '\n');
    }
}

/* ---- asking ------------------------------------------------------------- */

/* The kind behind the "code" of an error answer. */
static enum err_kind kind_of(struct str code)
{
    for (int kind = ERR_NONE + 1; kind < ERR_KINDS; kind++) {
        if (str_eq(code, str_from(err_kind_name((enum err_kind)kind)))) {
            return (enum err_kind)kind;
        }
    }
    return ERR_PROTOCOL;
}

/* A tool's answer, which must not be an error. Takes over `arguments`. */
static json_t *call(struct tour *t, const char *tool, json_t *arguments, struct err *e)
{
    bool is_error = false;
    json_t *answer own_json = demo_client_call(&t->client, tool, arguments, ASK_MS, &is_error, e);

    if (!answer) {
        return NULL;
    }
    if (is_error) {
        struct str why = js_str(js_get(answer, "error"));
        (void)err_set(e, kind_of(js_str(js_get(answer, "code"))), "%s: %.*s", tool, STR_ARG(why));
        return NULL;
    }
    return json_incref(answer);
}

/* exec_bash in the tour's box; shows the command and what it printed. */
static json_t *shell(struct tour *t, const char *command, json_t *arguments, struct err *e)
{
    (void)json_object_set_new(arguments, "command", json_string(command));
    json_t *answer = call(t, "exec_bash", arguments, e);
    if (!answer) {
        return NULL;
    }
    detail(t, "$ %s", command);
    detail_output(t, js_str(js_get(answer, "stdout")));
    detail_output(t, js_str(js_get(answer, "stderr")));
    return answer;
}

static int64_t exit_code_of(const json_t *answer)
{
    const json_t *code = js_get(answer, "exit_code");

    return json_is_integer(code) ? json_integer_value(code) : -1;
}

static int unexpected(struct err *e, const char *wanted, const json_t *answer)
{
    struct buf text own_buf = {0};

    buf_init(&text, 300);
    js_dump(answer, &text);
    return err_set(e, ERR_PROTOCOL, "expected %s, but the answer was %s", wanted, text.p);
}

/* ---- the steps ---------------------------------------------------------- */

static int say_hello(struct tour *t, struct err *e)
{
    json_t *params =
        json_pack("{s:s, s:{}, s:{s:s, s:s}}", "protocolVersion", "2025-11-25", "capabilities",
                  "clientInfo", "name", "anybox demo", "version", ANYBOX_VERSION);
    json_t *hello own_json = demo_client_ask(&t->client, "initialize", params, ASK_MS, e);

    if (!hello) {
        return -1;
    }
    struct str name = js_str(js_path(hello, "serverInfo", "name", NULL));
    struct str version = js_str(js_path(hello, "serverInfo", "version", NULL));
    struct str protocol = js_str(js_get(hello, "protocolVersion"));
    if (!str_eq(version, S(ANYBOX_VERSION)) || !str_eq(protocol, S("2025-11-25"))) {
        return unexpected(e, "version " ANYBOX_VERSION " and protocol 2025-11-25", hello);
    }
    detail(t, "%.*s %.*s speaks MCP %.*s; the time includes starting the program", STR_ARG(name),
           STR_ARG(version), STR_ARG(protocol));
    return demo_client_notify(&t->client, "notifications/initialized", e);
}

static int list_tools(struct tour *t, struct err *e)
{
    struct buf text own_buf = {0};
    json_t *list own_json = demo_client_ask(&t->client, "tools/list", json_object(), ASK_MS, e);

    if (!list) {
        return -1;
    }
    size_t n = json_array_size(js_get(list, "tools"));
    buf_init(&text, TEXT_MAX);
    js_dump(list, &text);
    if (n == 0 || text.len > LIST_MAX) {
        return err_set(e, ERR_PROTOCOL, "expected tools in at most %d bytes, got %zu in %zu",
                       LIST_MAX, n, text.len);
    }
    detail(t, "%zu tools in %zu bytes: what an agent's context pays for them", n, text.len);
    return 0;
}

/* A machine without cgroups may refuse a limit that is asked for; the tour goes on
 * without it and says so. */
static json_t *make_box(struct tour *t, struct err *e)
{
    json_t *answer = call(
        t, "create_sandbox",
        json_pack("{s:s, s:i, s:s}", "name", "demo", "timeout", BOX_LIFE_S, "memory", MEMORY_ASKED),
        e);

    t->memory_limited = answer != NULL;
    if (answer || e->kind != ERR_UNSUPPORTED) {
        return answer;
    }
    detail(t, "with a memory limit: %s", e->msg);
    return call(t, "create_sandbox", json_pack("{s:s, s:i}", "name", "demo", "timeout", BOX_LIFE_S),
                e);
}

static int create_box(struct tour *t, struct err *e)
{
    json_t *answer own_json = make_box(t, e);

    if (!answer) {
        return -1;
    }
    if (js_str(js_get(answer, "sandbox_id")).len == 0) {
        return unexpected(e, "a sandbox_id", answer);
    }
    struct str isolation = js_str(js_get(answer, "isolation"));
    struct str network = js_str(js_get(answer, "network"));
    struct buf limits own_buf = {0};
    buf_init(&limits, 1024);
    js_dump(js_get(answer, "limits"), &limits);
    detail(t, "isolation: %.*s; network: %.*s", STR_ARG(isolation), STR_ARG(network));
    detail(t, "limits: %s", limits.len > 0 ? limits.p : "none");
    detail(t, "it ends by itself after %d s, whatever happens to this program", BOX_LIFE_S);
    return 0;
}

static int run_shell(struct tour *t, struct err *e)
{
    json_t *answer own_json = shell(
        t, "id; uname -sr; if command -v python3 >/dev/null; then python3 -c 'print(6 * 7)'; fi",
        json_object(), e);

    if (!answer) {
        return -1;
    }
    return exit_code_of(answer) == 0 ? 0 : unexpected(e, "exit_code 0", answer);
}

static int exceed_memory(struct tour *t, struct err *e)
{
    if (!t->memory_limited) {
        detail(t, "left out: this machine gave the sandbox no memory limit");
        return 0;
    }
    json_t *answer own_json = shell(t, "head -c 1G /dev/zero | tail > /dev/null", json_object(), e);
    if (!answer) {
        return -1;
    }
    if (exit_code_of(answer) <= 0) {
        return unexpected(e, "that 1 GiB does not fit into " MEMORY_ASKED, answer);
    }
    detail(t, "exit_code %lld, oom_killed %s: the sandbox lives on",
           (long long)exit_code_of(answer),
           json_is_true(js_get(answer, "oom_killed")) ? "true" : "not told (no cgroup)");
    return 0;
}

static int fill_disk(struct tour *t, struct err *e)
{
    json_t *answer own_json =
        shell(t, "head -c 1T /dev/zero > big; ls -sh big; rm big", json_object(), e);

    if (!answer) {
        return -1;
    }
    if (js_str(js_get(answer, "stderr")).len == 0) {
        return unexpected(e, "that the disk limit stops the file", answer);
    }
    return 0;
}

static int miss_network(struct tour *t, struct err *e)
{
    json_t *answer own_json = shell(t, "exec 3<>/dev/tcp/1.1.1.1/443", json_object(), e);

    if (!answer) {
        return -1;
    }
    return exit_code_of(answer) > 0 ? 0 : unexpected(e, "that no address can be reached", answer);
}

static int move_file(struct tour *t, struct err *e)
{
    static const char text[] = "written by the agent\n";
    json_t *written own_json =
        call(t, "write_remote_file",
             json_pack("{s:s, s:s}", "remote_path", "notes/today.txt", "content", text), e);

    if (!written) {
        return -1;
    }
    json_t *read own_json =
        call(t, "read_remote_file", json_pack("{s:s}", "remote_path", "notes/today.txt"), e);
    if (!read) {
        return -1;
    }
    struct str content = js_str(js_get(read, "content"));
    if (!str_eq(content, str_from(text))) {
        return unexpected(e, "the text that was written", read);
    }
    detail(t, "notes/today.txt, %zu bytes:", content.len);
    detail_output(t, content);
    return 0;
}

static int miss_home(struct tour *t, struct err *e)
{
    const char *home = getenv("HOME");
    struct str secret = arena_printf(&t->arena, "%.*s/" SECRET_FILE, STR_ARG(t->home));
    char token[33];

    id_hex(token, 16);
    if (fd_replace_file(AT_FDCWD, secret.p, str_from(token), 0644, e) < 0) {
        return -1;
    }
    json_t *env = json_pack("{s:o, s:o}", "HOST_HOME", js_string(str_from(home ? home : "/root")),
                            "HOST_FILE", js_string(secret));
    json_t *answer own_json = shell(
        t, "ls -A \"$HOST_HOME/.ssh\"; cat \"$HOST_FILE\"; env | cut -d= -f1 | sort | tr '\\n' ' '",
        json_pack("{s:o}", "env", env), e);
    if (!answer) {
        return -1;
    }
    struct buf all own_buf = {0};
    buf_init(&all, TEXT_MAX);
    js_dump(answer, &all);
    if (strstr(all.p, token)) {
        return err_set(e, ERR_PROTOCOL, "the sandbox could read a file of the host");
    }
    return 0;
}

static int run_out_of_time(struct tour *t, struct err *e)
{
    json_t *answer own_json =
        shell(t, "echo started; sleep 60", json_pack("{s:i}", "timeout_s", 1), e);

    if (!answer) {
        return -1;
    }
    if (!json_is_true(js_get(answer, "timed_out")) ||
        !str_starts(js_str(js_get(answer, "stdout")), S("started"))) {
        return unexpected(e, "timed_out and what was printed before", answer);
    }
    return 0;
}

static int list_boxes(struct tour *t, struct err *e)
{
    json_t *answer own_json = call(t, "list_sandboxes", json_object(), e);

    if (!answer) {
        return -1;
    }
    const json_t *first = json_array_get(js_get(answer, "sandboxes"), 0);
    struct str name = js_str(js_get(first, "name"));
    struct str status = js_str(js_get(first, "status"));
    if (json_array_size(js_get(answer, "sandboxes")) != 1 || !str_eq(name, S("demo"))) {
        return unexpected(e, "one sandbox named demo", answer);
    }
    detail(t, "%.*s: %.*s", STR_ARG(name), STR_ARG(status));
    return 0;
}

static int delete_box(struct tour *t, struct err *e)
{
    json_t *answer own_json =
        call(t, "delete_sandbox", json_pack("{s:s}", "sandbox_name", "demo"), e);

    if (!answer) {
        return -1;
    }
    json_t *left own_json = call(t, "list_sandboxes", json_object(), e);
    if (!left) {
        return -1;
    }
    if (json_array_size(js_get(left, "sandboxes")) != 0) {
        return unexpected(e, "no sandbox any more", left);
    }
    t->cleared = true;
    detail(t, "its processes, mounts and files are gone");
    return 0;
}

const struct demo_step demo_steps[] = {
    {"A client starts the server and says hello (initialize)", say_hello},
    {"It asks what there is (tools/list)", list_tools},
    {"It makes a sandbox (create_sandbox)", create_box},
    {"It runs a shell command (exec_bash)", run_shell},
    {"A command that wants too much memory", exceed_memory},
    {"A file that wants too much disk", fill_disk},
    {"The network that is not there", miss_network},
    {"A file written and read (write_remote_file, read_remote_file)", move_file},
    {"The host's home, files and environment are not there", miss_home},
    {"A command that takes too long (timeout_s 1)", run_out_of_time},
    {"What exists now (list_sandboxes)", list_boxes},
    {"And it is deleted (delete_sandbox)", delete_box},
};

const size_t demo_n_steps = COUNTOF(demo_steps);
