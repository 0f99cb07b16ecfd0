/*
 * boxinit.c - makes a box and stays in it.
 *
 * "boxinit box" is two processes. The outer one reads the spec, joins the cgroups, opens
 * what must be opened on the host's side (the listening socket, the file that tells why
 * the box ended, the cgroup's counters), clones the inner one into new namespaces, maps
 * its uids, tells the server of its birth and exits. The inner one is PID 1 of the box: it
 * builds the file system, says that it is prepared and waits for the order, which names
 * what is different from box to box. Then it finishes the file system, gives up what it
 * does not need and serves (serve.c) until the box ends. When PID 1 is gone, the kernel has
 * removed everything of the box but its folder and its cgroup on the host, which belong to
 * the server.
 *
 * The inner process is never left without somebody who wants it: it waits for a byte of
 * the outer one after the maps are written and for the order of the server after that, and
 * a closed pipe or control instead of it is the end. A box that nobody knows of cannot come
 * to be, and prepared ones end with their server.
 *
 * "boxinit maker" makes the plain ones of these boxes for one server, without an outer process
 * and without the start of a program for each (maker.c).
 *
 * A box with a network has a third process, slirp4netns, which the outer one starts when
 * the inner one has made its side (stack.c); the inside is net.c.
 *
 * "boxinit serve" and "boxinit relay" are for where others have made the box: see agent.h.
 */
#include <stdio.h>
#include <string.h>

#include "agent/proto.h"
#include "base/attr.h"
#include "boxinit/agent.h"
#include "boxinit/box.h"

#define MARKER_MAX   64
#define SECONDS_MOST ((int64_t)10 * 366 * 24 * 3600)

/* Inside the box everyone can read PID 1's command line: it must not tell where on the
 * host this program lies. */
static void replace(char *arg, const char *by)
{
    size_t len = strlen(arg);

    memset(arg, 0, len);
    for (size_t i = 0; i < len && by[i] != '\0'; i++) {
        arg[i] = by[i];
    }
}

static void hide_path(char **argv)
{
    replace(argv[0], "init");
    replace(argv[1], "box");
}

static bool is_hex(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (strchr("0123456789abcdefABCDEF", s.p[i]) == NULL || s.p[i] == '\0') {
            return false;
        }
    }
    return s.len > 0 && s.len <= MARKER_MAX;
}

static int take_folder(const char *value, const char **out, struct err *e)
{
    *out = value;
    return value[0] == '/' ? 0 : err_set(e, ERR_INVALID, "a folder is an absolute path");
}

static int take_option(const char *name, const char *value, struct agent_args *out, struct err *e)
{
    const struct {
        const char *name;
        int64_t *to;
        int64_t most;
    } numbers[] = {
        {"--idle", &out->idle_s, SECONDS_MOST},
        {"--lifetime", &out->lifetime_s, SECONDS_MOST},
        {"--memory", &out->memory, (int64_t)1 << 50},
        {"--pids", &out->pids, INT32_MAX},
    };

    for (size_t i = 0; i < COUNTOF(numbers); i++) {
        if (strcmp(name, numbers[i].name) == 0) {
            out->idle = numbers[i].to == &out->idle_s ? value : out->idle;
            return str_to_i64(str_from(value), 1, numbers[i].most, numbers[i].to, e);
        }
    }
    if (strcmp(name, "--socket") == 0) {
        out->dir = value;
        return 0;
    }
    if (strcmp(name, "--home") == 0) {
        return take_folder(value, &out->home, e);
    }
    if (strcmp(name, "--work") == 0) {
        return take_folder(value, &out->work, e);
    }
    if (strcmp(name, "--marker") == 0) {
        out->marker = str_from(value);
        return is_hex(out->marker)
                   ? 0
                   : err_set(e, ERR_INVALID, "--marker takes 1 to %d hex digits", MARKER_MAX);
    }
    return err_set(e, ERR_INVALID,
                   "unknown option %.60s; --socket, --idle, --marker, --home, --work, --lifetime, "
                   "--memory and --pids are known",
                   name);
}

static int take_args(int argc, char **argv, struct agent_args *out, struct err *e)
{
    for (int i = 2; i < argc; i += 2) {
        if (i + 1 == argc) {
            return err_set(e, ERR_INVALID, "%.60s needs a value", argv[i]);
        }
        if (take_option(argv[i], argv[i + 1], out, e) < 0) {
            return -1;
        }
    }
    return out->dir != NULL ? 0 : err_set(e, ERR_INVALID, "--socket FOLDER is missing");
}

static int run_agent(int argc, char **argv, int (*run)(const struct agent_args *args))
{
    struct agent_args args = {.idle = "1800", .idle_s = 1800};
    struct err e;

    if (take_args(argc, argv, &args, &e) < 0) {
        (void)fprintf(stderr, "boxinit %s: %s\n", argv[1], e.msg);
        return 2;
    }
    return run(&args);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "box") == 0) {
        hide_path(argv);
        return box_make();
    }
    if (argc == 2 && strcmp(argv[1], "maker") == 0) {
        hide_path(argv);
        return maker_run();
    }
    if (argc >= 2 && strcmp(argv[1], "serve") == 0) {
        return run_agent(argc, argv, agent_serve);
    }
    if (argc >= 2 && strcmp(argv[1], "relay") == 0) {
        return run_agent(argc, argv, agent_relay);
    }
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        (void)printf("boxinit %s, agent protocol %d\n", ANYBOX_VERSION, AGENT_VERSION);
        return 0;
    }
    (void)fprintf(stderr, "boxinit is started by anybox: \"boxinit box\" with a spec on "
                          "descriptor 3, \"boxinit serve\" and \"boxinit relay\" with --socket "
                          "FOLDER.\n");
    return 2;
}
