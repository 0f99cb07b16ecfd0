#include "boxinit/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/proto.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"

#define MAP_SIZE 64

static int write_proc(pid_t pid, const char *name, const char *text, struct err *e)
{
    char path[64];
    size_t len = strlen(text);

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    int fd own_fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return err_sys(e, errno, "open %s", path);
    }
    /* One write: the kernel takes a map only as a whole. */
    if (write(fd, text, len) != (ssize_t)len) {
        return err_sys(e, errno, "write \"%s\" to %s", text, path);
    }
    return 0;
}

static int map_one(pid_t pid, struct err *e)
{
    char uids[MAP_SIZE];
    char gids[MAP_SIZE];

    (void)snprintf(uids, sizeof(uids), "%d %u 1", BOX_UID, (unsigned)geteuid());
    (void)snprintf(gids, sizeof(gids), "%d %u 1", BOX_UID, (unsigned)getegid());
    if (write_proc(pid, "setgroups", "deny", e) < 0 || write_proc(pid, "uid_map", uids, e) < 0) {
        return -1;
    }
    return write_proc(pid, "gid_map", gids, e);
}

static int map_range(const struct spec *spec, pid_t pid, struct err *e)
{
    char uids[MAP_SIZE];
    char gids[MAP_SIZE];

    (void)snprintf(uids, sizeof(uids), "0 %u %u", spec->first_uid, spec->range);
    (void)snprintf(gids, sizeof(gids), "0 %u %u", spec->first_gid, spec->range);
    if (write_proc(pid, "uid_map", uids, e) < 0) {
        return -1;
    }
    return write_proc(pid, "gid_map", gids, e);
}

/* Everything the helper says, at most as much as an error message holds. */
static void read_all(int fd, struct buf *to)
{
    struct err ignored;

    while (true) {
        char bytes[256];
        ssize_t n = fd_read(fd, bytes, sizeof(bytes), &ignored);

        if (n <= 0) {
            return;
        }
        buf_add(to, (struct str){bytes, (size_t)n});
    }
}

NORETURN static void exec_helper(const char *program, const char *const *argv, int said)
{
    static char *const no_env[] = {NULL};
    char *args[16] = {NULL};

    for (size_t i = 0; argv[i] != NULL && i + 1 < COUNTOF(args); i++) {
        args[i] = strdup(argv[i]);
    }
    if (dup2(said, STDOUT_FILENO) >= 0 && dup2(said, STDERR_FILENO) >= 0) {
        (void)execve(program, args, no_env);
    }
    _exit(127);
}

static int run_helper(const char *program, const char *const *argv, struct err *e)
{
    struct buf said own_buf = {0};
    int pipe_fds[2];
    int status = 0;
    pid_t child;

    if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "pipe");
    }
    int from own_fd = pipe_fds[0];
    child = fork();
    if (child == 0) {
        exec_helper(program, argv, pipe_fds[1]);
    }
    (void)close(pipe_fds[1]);
    if (child < 0) {
        return err_sys(e, errno, "fork");
    }
    buf_init(&said, 300);
    read_all(from, &said);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        return 0;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127 && said.len == 0) {
        return err_set(e, ERR_UNSUPPORTED, "%s cannot be run; install the package uidmap", program);
    }
    return err_set(e, ERR_SYSTEM, "%s: %.*s", program, STR_ARG(str_trim(buf_str(&said))));
}

static int map_by_helper(const char *program, pid_t pid, uint32_t own, uint32_t first,
                         uint32_t range, struct err *e)
{
    char pid_text[16];
    char own_text[16];
    char first_text[16];
    char rest_text[16];
    const char *argv[] = {program, pid_text, "0", own_text, "1", "1", first_text, rest_text, NULL};

    (void)snprintf(pid_text, sizeof(pid_text), "%d", (int)pid);
    (void)snprintf(own_text, sizeof(own_text), "%u", own);
    (void)snprintf(first_text, sizeof(first_text), "%u", first);
    (void)snprintf(rest_text, sizeof(rest_text), "%u", range - 1);
    return run_helper(program, argv, e);
}

int ids_map(const struct spec *spec, pid_t pid, struct err *e)
{
    int rc = -1;

    switch (spec->uid_mode) {
    case UIDS_ONE: rc = map_one(pid, e); break;
    case UIDS_WRITE: rc = map_range(spec, pid, e); break;
    case UIDS_HELPER:
        rc = map_by_helper("/usr/bin/newuidmap", pid, geteuid(), spec->first_uid, spec->range, e);
        if (rc == 0) {
            rc = map_by_helper("/usr/bin/newgidmap", pid, getegid(), spec->first_gid, spec->range,
                               e);
        }
        break;
    }
    return rc < 0 ? err_wrap(e, "map the sandbox's uids") : 0;
}

int ids_enter(const struct spec *spec, struct err *e)
{
    if (spec->uid_mode == UIDS_ONE) {
        return 0;
    }
    if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0) {
        return err_sys(e, errno, "become the sandbox's root");
    }
    return 0;
}

/* Whoever changes its uid can be traced by its new self on a host with
 * fs.suid_dumpable=1, unless it holds a capability that the tracer lacks. So they are kept
 * until tracing is forbidden again; giving them up does not change that. */
int ids_become_payload(const struct spec *spec)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {0};

    if (spec_shares_uid(spec)) {
        return 0;
    }
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || setresgid(BOX_UID, BOX_UID, BOX_UID) < 0 ||
        setresuid(BOX_UID, BOX_UID, BOX_UID) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
        syscall(SYS_capset, &header, none) < 0 || prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) < 0) {
        return errno;
    }
    return 0;
}
