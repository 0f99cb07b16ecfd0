/*
 * image_make.c - the default image without a registry: debootstrap in a folder of ours, then the
 * folder as one tar into the engine's import. It is what images/python-sandbox/Dockerfile makes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/percent.h"
#include "base/plain.h"
#include "base/proc.h"
#include "provider/docker/docker.h"

#define SUITE "bookworm"
#define PACKAGES                                                                                   \
    "ca-certificates,curl,fonts-wqy-zenhei,git,less,procps,python3,python3-pip,python3-venv,"      \
    "xz-utils"
#define OUTPUT_MAX (8u << 20)
#define TAIL       300
#define IMPORT_MS  600000
#define ENV_PATH                                                                                   \
    "ENV PATH=/app/.venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* $1 the folder, $2 the suite, $3 packages, $4 the archive or "". */
static const char make_script[] =
    "set -eu\n"
    "exec 2>&1\n"
    "debootstrap --variant=minbase --include=\"$3\" \"$2\" \"$1/root\" ${4:+\"$4\"} </dev/null\n"
    "cd \"$1/root\"\n"
    "chroot . useradd --uid 1000 --create-home --shell /bin/bash python\n"
    "mkdir -p app/results\n"
    "chroot . python3 -m venv /app/.venv\n"
    "chroot . chown -R python:python /app\n"
    "ln -s /app/results workspace\n"
    "umount proc sys 2>/dev/null || true\n"
    "rm -rf var/lib/apt/lists/* var/cache/apt/* var/cache/debconf/*-old var/log/bootstrap.log\n"
    "rm -f etc/hostname etc/resolv.conf\n";

static bool is_word(struct str s, const char *more)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.p[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        if (!word && (c == '\0' || strchr(more, c) == NULL)) {
            return false;
        }
    }
    return s.len < 2000 && (s.len == 0 || s.p[0] != '-');
}

static int check_order(const struct image_order *o, struct str name, struct err *e)
{
    struct str tag;
    struct str repo = str_cut(name, ':', &tag);

    if (image_check(name, e) < 0) {
        return -1;
    }
    if (str_has(name, '@') || str_has(tag, '/') || str_has(tag, ':') || repo.len == 0) {
        return err_set(e, ERR_INVALID, "an image that is made here is called NAME or NAME:TAG");
    }
    if (!is_word(o->suite, ".-") || !is_word(o->packages, ".+-,") ||
        !is_word(o->mirror, ":/.-_~%")) {
        return err_set(
            e, ERR_INVALID,
            "--suite, --include and --mirror take a name such as bookworm, packages with "
            "commas between them, and a URL");
    }
    if (geteuid() != 0) {
        return err_set(
            e, ERR_DENIED,
            "to make an image here takes root: run it with sudo, or build it with docker "
            "build -t python-sandbox:latest images/python-sandbox");
    }
    if (access("/usr/sbin/debootstrap", X_OK) < 0) {
        return err_set(e, ERR_UNSUPPORTED,
                       "debootstrap is missing: sudo apt-get install debootstrap, or pull an image "
                       "(anybox image pull)");
    }
    return 0;
}

static int run_script(const struct ctx *ctx, const struct image_order *o, const char *folder,
                      struct err *e)
{
    struct arena *a = ctx->arena;
    struct str packages =
        o->packages.len > 0 ? arena_printf(a, PACKAGES ",%.*s", STR_ARG(o->packages)) : S(PACKAGES);
    const char *const argv[] = {"sh",        "-c",
                                make_script, "sh",
                                folder,      o->suite.len > 0 ? arena_cstr(a, o->suite) : SUITE,
                                packages.p,  o->mirror.len > 0 ? arena_cstr(a, o->mirror) : "",
                                NULL};
    static const char *const env[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C",
                                      "DEBIAN_FRONTEND=noninteractive", NULL};
    struct buf said own_buf = {0};
    struct buf text own_buf = {0};
    int status = 0;

    buf_init(&said, OUTPUT_MAX);
    buf_init(&text, TAIL);
    if (proc_output(ctx, argv, env, &said, &status, e) < 0) {
        return -1;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        return 0;
    }
    struct str all = buf_str(&said);
    plain_text(str_skip(all, all.len > TAIL ? all.len - TAIL : 0), &text);
    return err_set(e, ERR_SYSTEM, "the image could not be made; the last words were: %.*s",
                   STR_ARG(str_trim(buf_str(&text))));
}

/* The folder as a tar, read by the engine while it is written. */
static int import(struct docker *d, const struct ctx *ctx, const char *folder, struct str name,
                  struct err *e)
{
    struct buf path own_buf = {0};
    struct str tag;
    struct str repo = str_cut(name, ':', &tag);
    const char *const argv[] = {"tar", "-C", folder, "--numeric-owner", "--one-file-system",
                                "-c",  ".",  NULL};
    static const char *const env[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    struct http_answer answer = {0};
    int ends[2];
    int status = 0;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "cannot make a pipe");
    }
    int from own_fd = ends[0];
    int to own_fd = ends[1];
    const struct proc_fd fds[] = {{to, STDOUT_FILENO}};
    const struct proc_spec spec = {
        .file = "tar", .argv = argv, .envp = env, .fds = fds, .n_fds = 1};
    if (fd_set_nonblock(from, true, e) < 0 || proc_spawn(&spec, &pid, e) < 0) {
        return -1;
    }
    (void)close(take_fd(&to));
    buf_init(&path, 4096);
    buf_add(&path, S("/images/create?fromSrc=-&repo="));
    percent_add(&path, repo, false);
    buf_add(&path, S("&tag="));
    percent_add(&path, tag.len > 0 ? tag : S("latest"), false);
    static const char *const changes[] = {ENV_PATH, "ENV VIRTUAL_ENV=/app/.venv", "USER 1000:1000",
                                          "WORKDIR /app/results", "CMD [\"sleep\",\"infinity\"]"};
    for (size_t i = 0; i < COUNTOF(changes); i++) {
        buf_add(&path, S("&changes="));
        percent_add(&path, str_from(changes[i]), false);
    }
    struct http_req req = {.method = "POST",
                           .path = buf_str(&path),
                           .type = "application/x-tar",
                           .body_fd = from,
                           .silent_ms = IMPORT_MS};
    int rc = engine_call(d, ctx, &req, &answer, e);
    (void)close(take_fd(&from)); /* so that tar ends in any case */
    struct err ignored;
    (void)!proc_wait(ctx, pid, &status, &ignored);
    if (rc < 0) {
        return -1;
    }
    bool is_whole = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (answer.status != 200 || memmem(answer.body.p, answer.body.len, "\"error\"", 7) != NULL) {
        return engine_fail(&answer, ctx->arena, "cannot import the image", e);
    }
    return is_whole ? 0 : err_set(e, ERR_SYSTEM, "tar could not read the image's files");
}

int docker_image_make(struct provider *p, const struct ctx *ctx, const struct image_order *order,
                      image_phase_fn *phase, void *arg, struct err *e)
{
    struct docker *d = docker_of(p);
    struct str name = order->name.len > 0 ? order->name : d->conf.image;
    struct engine_facts facts;
    struct err ignored;
    char folder[] = "/var/tmp/anybox-image-XXXXXX";

    /* That there is an engine is known before a minute was spent. */
    if (check_order(order, name, e) < 0 || engine_facts(d, ctx, &facts, e) < 0) {
        return -1;
    }
    if (mkdtemp(folder) == NULL) {
        return err_sys(e, errno, "cannot make a folder in /var/tmp");
    }
    phase(arg, S("installing a Debian with Python by debootstrap; this takes a minute or two"));
    int rc = run_script(ctx, order, folder, e);
    if (rc == 0) {
        phase(arg, arena_printf(ctx->arena, "importing it as %.*s", STR_ARG(name)));
        rc = import(d, ctx, arena_printf(ctx->arena, "%s/root", folder).p, name, e);
    }
    (void)!fd_remove_tree(AT_FDCWD, folder, &ignored);
    return rc;
}
