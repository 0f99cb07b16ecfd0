/*
 * image_run.c - work on the files of an image as their root.
 *
 * unshare(1) gives the script mounts and processes of its own: whatever it mounts is gone
 * when it ends, and when it is killed all of its processes are. A user with subuids gets a
 * user namespace around that. Its map is the one of boxes (boxinit/ids.c), or the image
 * would have other owners inside a box, so it is written here by newuidmap and not by
 * unshare, whose choice depends on its version: the first shell says that it is in the
 * new namespace, waits for the map and becomes what is to be run.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/proc.h"
#include "provider/local/image.h"

#define ARGS_MAX 32
#define CHUNK    2048 /* what has no end by then is a line, too */
#define JOB_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define KEEP_AT  9
#define END_MS   10000

static const char wait_for_map[] = "echo mapped? && read -r go && exec \"$@\" </dev/null";

int image_uids(struct arena *a, struct uid_range *out, struct err *e)
{
    if (uids_mode(a, out, e) < 0) {
        return -1;
    }
    if (out->mode == UID_ONE && geteuid() == 0) {
        return err_set(e, ERR_UNSUPPORTED,
                       "images need a range of user ids, which root has not here, as in most "
                       "containers; run anybox outside, or leave image out");
    }
    if (out->mode == UID_ONE) {
        return err_set(
            e, ERR_UNSUPPORTED,
            "images need a range of user ids, and this user has none: run " IMAGE_UIDS_FIX
            ", or leave image out");
    }
    out->count = UID_RANGE;
    return 0;
}

/* ---- the command line --------------------------------------------------------------- */

struct words {
    const char *items[ARGS_MAX];
    size_t n;
};

static void add(struct words *to, const char *const *words)
{
    for (; *words != NULL && to->n + 1 < ARGS_MAX; words++) {
        to->items[to->n++] = *words;
    }
}

static struct words command(const struct uid_range *who, const struct image_job *job)
{
    static const char *const own_user[] = {"unshare", "--user",     "--", "sh",
                                           "-c",      wait_for_map, "sh", NULL};
    static const char *const own_rest[] = {"unshare",      "--mount", "--pid", "--fork",
                                           "--kill-child", "--",      NULL};
    const char *const script[] = {"sh", "-c", job->script, "sh", NULL};
    struct words out = {0};
    if (who->mode == UID_SUBUIDS) {
        add(&out, own_user);
    }
    add(&out, own_rest);
    add(&out, script);
    add(&out, job->args);
    return out;
}

/* Downloads go the way that the user's own go. */
static struct words environment(struct arena *a)
{
    static const char *const always[] = {
        JOB_PATH, "LC_ALL=C", "HOME=/root", "DEBIAN_FRONTEND=noninteractive",
        /* To debootstrap this says: no device nodes can be made, which holds in a user
         * namespace and on file systems that are mounted nodev. */
        "container=lxc", NULL};
    static const char *const passed[][2] = {{"http_proxy", "HTTP_PROXY"},
                                            {"https_proxy", "HTTPS_PROXY"},
                                            {"ftp_proxy", "FTP_PROXY"},
                                            {"no_proxy", "NO_PROXY"}};
    struct words out = {0};
    add(&out, always);
    for (size_t i = 0; i < COUNTOF(passed); i++) {
        const char *value = getenv(passed[i][0]);
        value = value != NULL ? value : getenv(passed[i][1]);
        if (value != NULL) {
            out.items[out.n++] = arena_printf(a, "%s=%s", passed[i][0], value).p;
        }
    }
    return out;
}

/* ---- the map ---------------------------------------------------------------------------- */

static int run_mapper(const struct ctx *ctx, const char *program, pid_t pid, uint32_t own,
                      uint32_t first, struct err *e)
{
    struct arena *a = ctx->arena;
    const char *argv[] = {program,
                          arena_printf(a, "%d", (int)pid).p,
                          "0",
                          arena_printf(a, "%u", own).p,
                          "1",
                          "1",
                          arena_printf(a, "%u", first).p,
                          arena_printf(a, "%u", UID_RANGE - 1).p,
                          NULL};
    const struct proc_spec spec = {.file = program, .argv = argv};
    pid_t mapper;
    int status = 0;
    if (proc_spawn(&spec, &mapper, e) < 0 || proc_wait(ctx, mapper, &status, e) < 0) {
        return -1;
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return err_set(e, ERR_SYSTEM, "%s refused the range %u to %u of this user", program, first,
                       first + UID_RANGE - 2);
    }
    return 0;
}

/* ---- running it -------------------------------------------------------------------------- */

struct running {
    const struct ctx *ctx;
    const struct uid_range *who;
    const struct image_job *job;
    pid_t pid;
    int in, out; /* our ends of its stdin and of its stdout and stderr */
    struct buf text;
    bool mapped;
};

static int write_map(struct running *r, struct err *e)
{
    if (run_mapper(r->ctx, NEWUIDMAP, r->pid, geteuid(), r->who->uid, e) < 0 ||
        run_mapper(r->ctx, NEWGIDMAP, r->pid, getegid(), r->who->gid, e) < 0) {
        return -1;
    }
    r->mapped = true;
    return fd_write_all(r->in, S("go\n"), e);
}

static int on_line(struct running *r, char *line, size_t len, struct err *e)
{
    if (!r->mapped && r->who->mode == UID_SUBUIDS &&
        str_eq((struct str){line, len}, S("mapped?"))) {
        return write_map(r, e);
    }
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f) {
            line[i] = '?';
        }
    }
    if (r->job->line != NULL) {
        r->job->line(r->job->arg, (struct str){line, len});
    }
    return 0;
}

static int take_lines(struct running *r, struct err *e)
{
    for (;;) {
        char *end = r->text.len > 0 ? memchr(r->text.p, '\n', r->text.len) : NULL;
        bool full = r->text.len >= CHUNK;
        if (end == NULL && !full) {
            return 0;
        }
        size_t len = end != NULL ? (size_t)(end - r->text.p) : r->text.len;
        if (on_line(r, r->text.p, len, e) < 0) {
            return -1;
        }
        buf_drop(&r->text, end != NULL ? len + 1 : len);
    }
}

static int read_lines(struct running *r, struct err *e)
{
    for (;;) {
        struct pollfd ready = {.fd = r->out, .events = POLLIN};
        if (ctx_wait(r->ctx, &ready, 1, 0, e) < 0) {
            return -1;
        }
        char *room = buf_room(&r->text, CHUNK);
        ssize_t n = room != NULL ? fd_read(r->out, room, CHUNK, e) : 0;
        if (n <= 0) {
            return (int)n;
        }
        r->text.len += (size_t)n;
        if (take_lines(r, e) < 0) {
            return -1;
        }
    }
}

static int start(struct running *r, struct err *e)
{
    struct words argv = command(r->who, r->job);
    struct words env = environment(r->ctx->arena);
    int in[2];
    int out[2];
    if (pipe2(in, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "cannot make a pipe");
    }
    int in_theirs own_fd = in[0];
    r->in = in[1];
    if (pipe2(out, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "cannot make a pipe");
    }
    int out_theirs own_fd = out[1];
    r->out = out[0];
    const struct proc_fd fds[] = {{in_theirs, STDIN_FILENO},
                                  {out_theirs, STDOUT_FILENO},
                                  {out_theirs, STDERR_FILENO},
                                  {r->job->keep_fd, KEEP_AT}};
    const struct proc_spec spec = {
        .file = "/usr/bin/unshare",
        .argv = argv.items,
        .envp = env.items,
        .fds = fds,
        .n_fds = r->job->keep_fd >= 0 ? COUNTOF(fds) : COUNTOF(fds) - 1,
        .new_session = true, /* ^C comes to us, and we end it */
    };
    return proc_spawn(&spec, &r->pid, e);
}

static void running_fini(struct running *r)
{
    drop_fd(&r->in);
    drop_fd(&r->out);
    buf_fini(&r->text);
}

/* Its processes are a namespace of their own, whose first one goes with this one; the last
 * of them closes the pipe. */
static void end(const struct running *r, int *status)
{
    const struct ctx quiet = {.arena = r->ctx->arena, .deadline_ms = clock_mono_ms() + END_MS};
    struct pollfd ready = {.fd = r->out, .events = POLLIN};
    char ignored_text[256];
    struct err ignored;
    (void)kill(r->pid, SIGKILL);
    while (ctx_wait(&quiet, &ready, 1, 0, &ignored) > 0 &&
           fd_read(r->out, ignored_text, sizeof(ignored_text), &ignored) > 0) {
    }
    (void)!proc_wait(&quiet, r->pid, status, &ignored);
}

int image_run(const struct ctx *ctx, const struct uid_range *who, const struct image_job *job,
              int *status, struct err *e)
{
    struct running r CLEANUP(running_fini) = {
        .ctx = ctx, .who = who, .job = job, .in = -1, .out = -1};
    buf_init(&r.text, (size_t)4 * CHUNK);
    if (start(&r, e) < 0) {
        return -1;
    }
    int rc = read_lines(&r, e);
    if (rc == 0) {
        rc = proc_wait(ctx, r.pid, status, e);
    }
    if (rc < 0) {
        end(&r, status);
    }
    return rc;
}
