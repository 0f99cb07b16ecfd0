/*
 * stack.c - starts slirp4netns for a box that has a network.
 *
 * It lives on the host's side: in the host's network and pid namespaces, but in the box's
 * cgroups (which the outer process has joined) and in its user namespace, as the box's
 * root: even root's slirp4netns is not root. It takes its end of the interface from the
 * box's network and then shuts itself up: an almost empty mount namespace, no capability
 * but one, a filter (--enable-sandbox, --enable-seccomp). Where the box has but one uid there
 * is no root to be, and the first of the two fails. There it keeps two capabilities over
 * the box's namespaces (none over the host's), and we hide what people own.
 *
 * It ends when the pipe whose other end only PID 1 holds is hung up: whatever ends the box
 * ends it. Whatever ends it costs the box its network, and nothing else.
 */
#include "boxinit/stack.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "boxinit/net.h"

#define TEXT_OF(n)  #n
#define NUMBER(n)   TEXT_OF(n)
#define STACK_FILES 1024 /* one for each connection */
#define STACK_SPACE (512u << 20)

/* Its descriptors by number. */
#define NET_NS 3
#define LIVES  4
#define READY  5

static int open_ns(pid_t pid, const char *name, struct err *e)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? err_sys(e, errno, "open %s", path) : fd;
}

int stack_open(struct stack *s, pid_t init, struct err *e)
{
    s->net_ns = open_ns(init, "net", e);
    if (s->net_ns < 0) {
        return -1;
    }
    s->user_ns = open_ns(init, "user", e);
    return s->user_ns < 0 ? -1 : 0;
}

static bool limit(int what, rlim_t most)
{
    struct rlimit now;

    if (getrlimit((__rlimit_resource_t)what, &now) < 0) {
        return false;
    }
    now.rlim_max = now.rlim_max < most ? now.rlim_max : most;
    now.rlim_cur = now.rlim_max;
    return setrlimit((__rlimit_resource_t)what, &now) == 0;
}

/* Where slirp4netns cannot make a mount namespace for itself: one without the places where
 * people keep things. It needs its own libraries and /etc/resolv.conf, perhaps in /run. */
static bool hide_files(void)
{
    static const char *const places[] = {"/home", "/root",  "/tmp", "/var", "/run/user",
                                         "/mnt",  "/media", "/srv", "/opt", "/boot"};

    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        return false;
    }
    for (size_t i = 0; i < COUNTOF(places); i++) {
        if (mount("tmpfs", places[i], "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY,
                  "size=4k,nr_inodes=2,mode=555") < 0 &&
            errno != ENOENT) {
            return false;
        }
    }
    return true;
}

/* To enter the box's network and to take the interface, without being root. */
static bool keep_two_caps(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    uint32_t bits = (1u << CAP_SYS_ADMIN) | (1u << CAP_NET_ADMIN);
    struct __user_cap_data_struct data[2] = {{bits, bits, bits}};

    return syscall(SYS_capset, &header, data) == 0 &&
           prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0) == 0 &&
           prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_ADMIN, 0, 0) == 0;
}

static bool enter(int user_ns, enum uid_mode mode)
{
    if (setns(user_ns, CLONE_NEWUSER) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        return false;
    }
    if (mode == UIDS_ONE) {
        return hide_files() && keep_two_caps();
    }
    return setgroups(0, NULL) == 0 && setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0;
}

/* Moved out of the way first: one may have another's number. */
static bool place(const int *from, size_t n)
{
    int moved[3];

    for (size_t i = 0; i < n; i++) {
        moved[i] = fcntl(from[i], F_DUPFD_CLOEXEC, READY + 1);
        if (moved[i] < 0) {
            return false;
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (dup2(moved[i], NET_NS + (int)i) < 0) {
            return false;
        }
    }
    return close_range(READY + 1, ~0u, 0) == 0;
}

NORETURN static void become(const struct stack *s, const struct spec *spec, int ready, int said)
{
    static char *const no_env[] = {NULL};
    static char args[][48] = {
        "slirp4netns",       "--mtu=" NUMBER(NET_MTU),        "--disable-host-loopback",
        "--enable-seccomp",  "--exit-fd=" NUMBER(LIVES),      "--ready-fd=" NUMBER(READY),
        "--netns-type=path", "/proc/self/fd/" NUMBER(NET_NS), NET_TAP,
        "--enable-sandbox", /* last: left out with one uid */
    };
    char *argv[COUNTOF(args) + 1] = {NULL};
    size_t n = spec->uid_mode == UIDS_ONE ? COUNTOF(args) - 1 : COUNTOF(args);
    const int fds[] = {s->net_ns, s->box_lives, ready};

    for (size_t i = 0; i < n; i++) {
        argv[i] = args[i];
    }
    if (enter(s->user_ns, spec->uid_mode) && dup2(said, STDERR_FILENO) >= 0 &&
        place(fds, COUNTOF(fds)) && limit(RLIMIT_CORE, 0) && limit(RLIMIT_NOFILE, STACK_FILES) &&
        limit(RLIMIT_AS, STACK_SPACE)) {
        (void)execve(spec->net_program, argv, no_env);
    }
    _exit(127);
}

/* It has ended, or closed its pipe: what it said last tells why. */
static int explain(const char *program, int said, struct err *e)
{
    struct err ignored;
    char text[512];
    size_t len = 0;

    while (len < sizeof(text)) {
        ssize_t n = fd_read(said, text + len, sizeof(text) - len, &ignored);

        if (n <= 0) {
            break;
        }
        len += (size_t)n;
    }
    return err_set(e, ERR_UNSUPPORTED,
                   "the network could not be started: %s said \"%.*s\". Ask for network \"none\", "
                   "or see \"anybox doctor\"",
                   program, STR_ARG(str_trim((struct str){text, len})));
}

int stack_start(const struct stack *s, const struct spec *spec, struct err *e)
{
    int ready[2];
    int said[2];
    char byte;
    pid_t child;
    ssize_t n;

    if (pipe2(ready, O_CLOEXEC) < 0 || pipe2(said, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "pipe");
    }
    int ready_end own_fd = ready[0];
    int said_end own_fd = said[0];
    child = fork();
    if (child == 0) {
        become(s, spec, ready[1], said[1]);
    }
    (void)close(ready[1]);
    (void)close(said[1]);
    if (child < 0) {
        return err_sys(e, errno, "fork");
    }
    n = fd_read(ready_end, &byte, 1, e);
    if (n == 0) {
        return explain(spec->net_program, said_end, e);
    }
    return n < 0 ? -1 : 0;
}
