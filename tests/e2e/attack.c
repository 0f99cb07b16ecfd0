/*
 * attack.c - runs inside a box and tries what must not work. test_attacks.py compiles it.
 *
 *   attack calls        one line for each try: its group, its name, "worked" or the errno
 *   attack inspect      looks into every process of ours that is still boxinit, for 2 s
 *   attack hold COMM    traces the first process with that name, and never takes note
 *                       of its end
 *   attack stop COMM    the same, and it is stopped on its way out
 *   attack storm        leaves orphans, each in a session of its own, for 1.5 s
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/kcmp.h>
#include <linux/nsfs.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HIGH 0x100000000ul /* a bit that the kernel does not look at */

static void tell(const char *group, const char *name, long rc)
{
    printf("%s %s %s\n", group, name, rc < 0 ? strerrorname_np(errno) : "worked");
}

#define TRY(group, name, expression) (errno = 0, tell(group, name, (long)(expression)))

/* ---- system calls ----------------------------------------------------------- */

static void try_init(void)
{
    struct rlimit64 few = {1, 1};
    struct sched_param none = {0};
    unsigned long cpus = 1;
    char byte;
    struct iovec here = {&byte, 1};
    struct iovec there = {(void *)0x400000, 1};
    int init = (int)syscall(SYS_pidfd_open, 1, 0);

    TRY("init", "prlimit-read", syscall(SYS_prlimit64, 1, RLIMIT_NOFILE, NULL, &few));
    few = (struct rlimit64){20000, 20000};
    TRY("init", "prlimit", syscall(SYS_prlimit64, 1, RLIMIT_NOFILE, &few, NULL));
    TRY("init", "prlimit-high-bits", syscall(SYS_prlimit64, HIGH | 1, RLIMIT_NPROC, &few, NULL));
    TRY("init", "affinity", syscall(SYS_sched_setaffinity, 1, sizeof(cpus), &cpus));
    TRY("init", "scheduler", syscall(SYS_sched_setscheduler, 1, SCHED_IDLE, &none));
    TRY("init", "scheduler-param", syscall(SYS_sched_setparam, 1, &none));
    TRY("init", "nice", syscall(SYS_setpriority, PRIO_PROCESS, 1, 19));
    TRY("init", "nice-group", syscall(SYS_setpriority, PRIO_PGRP, 1, 19));
    TRY("init", "ioprio", syscall(SYS_ioprio_set, 1, 1, 3 << 13));
    TRY("init", "ioprio-group", syscall(SYS_ioprio_set, 2, 1, 3 << 13));
    TRY("init", "ptrace-attach", ptrace(PTRACE_ATTACH, 1, 0, 0));
    TRY("init", "ptrace-seize", ptrace(PTRACE_SEIZE, 1, 0, 0));
    TRY("init", "read-memory", process_vm_readv(1, &here, 1, &there, 1, 0));
    TRY("init", "write-memory", process_vm_writev(1, &here, 1, &there, 1, 0));
    TRY("init", "compare", syscall(SYS_kcmp, 1, getpid(), KCMP_FILES, 0, 0));
    TRY("init", "robust-list", syscall(SYS_get_robust_list, 1, &there.iov_base, &there.iov_len));
    TRY("init", "advise-memory", syscall(SYS_process_madvise, init, &there, 1, MADV_COLD, 0));
    TRY("init", "migrate-pages", syscall(SYS_migrate_pages, 1, 8 * sizeof(cpus), &cpus, &cpus));
    TRY("init", "move-pages", syscall(SYS_move_pages, 1, 0, NULL, NULL, NULL, 0));
    for (int fd = 0; fd < 12; fd++) {
        TRY("init", "take-descriptor", syscall(SYS_pidfd_getfd, init, fd, 0));
    }
}

static void try_paths(void)
{
    static const char *const closed[] = {
        "/proc/1/fd",        "/proc/1/fd/0",      "/proc/1/fdinfo",  "/proc/1/root",
        "/proc/1/cwd",       "/proc/1/exe",       "/proc/1/mem",     "/proc/1/maps",
        "/proc/1/auxv",      "/proc/1/environ",   "/proc/1/ns/mnt",  "/proc/1/ns/user",
        "/proc/1/ns/pid",    "/proc/1/stack",     "/proc/1/syscall", "/proc/1/pagemap",
        "/proc/1/map_files", "/proc/1/task/1/fd",
    };
    static const char *const fixed[] = {
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/hostname",
        "/proc/sys/vm/drop_caches",
        "/proc/sys/user/max_user_namespaces",
        "/proc/sys/net/ipv4/ip_forward",
        "/proc/sys/net/ipv4/ping_group_range",
        "/proc/sysrq-trigger",
        "/proc/1/oom_score_adj",
        "/proc/1/clear_refs",
        "/proc/1/sched",
        "/proc/1/comm",
        "/proc/1/uid_map",
        "/proc/self/uid_map",
        "/proc/self/gid_map",
        "/proc/irq/default_smp_affinity",
        "/proc/mtrr",
        "/etc/passwd",
        "/etc/ld.so.cache",
        "/usr/bin/env",
        "/dev/mem",
        "/dev/kmsg",
        "/dev/fuse",
        "/dev/loop-control",
    };

    for (size_t i = 0; i < sizeof(closed) / sizeof(closed[0]); i++) {
        TRY("look", closed[i], open(closed[i], O_RDONLY));
    }
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
        int fd = open(fixed[i], O_WRONLY);

        TRY("write", fixed[i], fd < 0 ? fd : write(fd, "1", 1));
    }
    TRY("write", "memory-device", mknod("/tmp/mem", S_IFCHR | 0666, makedev(1, 1)));
    TRY("write", "disk-device", mknod("/tmp/disk", S_IFBLK | 0666, makedev(8, 0)));
    TRY("write", "set-user-id-root", chown("/tmp", 0, 0));
}

static void try_clone(const char *name, unsigned long flags)
{
    long pid;

    errno = 0;
    pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        _exit(0);
    }
    tell("namespace", name, pid);
}

static void try_namespaces(void)
{
    static const struct {
        const char *name;
        unsigned long flag;
    } kinds[] = {{"mnt", CLONE_NEWNS},    {"cgroup", CLONE_NEWCGROUP},
                 {"uts", CLONE_NEWUTS},   {"ipc", CLONE_NEWIPC},
                 {"user", CLONE_NEWUSER}, {"pid", CLONE_NEWPID},
                 {"net", CLONE_NEWNET},   {"time", 0x80}};
    unsigned long clone3[11] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        char path[64];

        if (kinds[i].flag != 0x80) { /* there it is part of the signal's number */
            try_clone(kinds[i].name, kinds[i].flag);
            try_clone(kinds[i].name, kinds[i].flag | HIGH);
        }
        TRY("namespace", kinds[i].name, syscall(SYS_unshare, kinds[i].flag));
        snprintf(path, sizeof(path), "/proc/self/ns/%s", kinds[i].name);
        TRY("namespace", kinds[i].name, syscall(SYS_setns, open(path, O_RDONLY), 0));
    }
    TRY("namespace", "parent-of-user", ioctl(open("/proc/self/ns/user", O_RDONLY), NS_GET_PARENT));
    TRY("namespace", "parent-of-pid", ioctl(open("/proc/self/ns/pid", O_RDONLY), NS_GET_PARENT));
    TRY("namespace", "setns-by-process",
        syscall(SYS_setns, syscall(SYS_pidfd_open, 1, 0), CLONE_NEWNS | CLONE_NEWUSER));
    TRY("namespace", "clone3", syscall(SYS_clone3, clone3, 64));
}

static void try_mounts(void)
{
    TRY("mount", "tmpfs", syscall(SYS_mount, "x", "/tmp", "tmpfs", 0, NULL));
    TRY("mount", "cgroup", syscall(SYS_mount, "x", "/tmp", "cgroup2", 0, NULL));
    TRY("mount", "proc", syscall(SYS_mount, "x", "/tmp", "proc", 0, NULL));
    TRY("mount", "bind", syscall(SYS_mount, "/", "/tmp", NULL, 4096, NULL));
    TRY("mount", "remount", syscall(SYS_mount, NULL, "/usr", NULL, 32 | 4096, NULL));
    TRY("mount", "umount", syscall(SYS_umount2, "/proc/sys", 2));
    TRY("mount", "pivot_root", syscall(SYS_pivot_root, "/tmp", "/tmp"));
    TRY("mount", "chroot", syscall(SYS_chroot, "/tmp"));
    TRY("mount", "open_tree", syscall(SYS_open_tree, AT_FDCWD, "/", 1));
    TRY("mount", "fsopen", syscall(SYS_fsopen, "tmpfs", 0));
    TRY("mount", "move_mount", syscall(SYS_move_mount, AT_FDCWD, "/tmp", AT_FDCWD, "/run", 0));
    TRY("mount", "mount_setattr", syscall(SYS_mount_setattr, AT_FDCWD, "/usr", 0, NULL, 0));
}

static void try_kernel(void)
{
    char handle[128] = {0};
    int id;
    int fds[2];

    TRY("kernel", "bpf", syscall(SYS_bpf, 0, NULL, 0));
    TRY("kernel", "perf", syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0));
    TRY("kernel", "userfaultfd", syscall(SYS_userfaultfd, 1));
    TRY("kernel", "io_uring", syscall(SYS_io_uring_setup, 1, handle));
    TRY("kernel", "aio", syscall(SYS_io_setup, 1, memset(handle, 0, sizeof(handle))));
    TRY("kernel", "huge-pages", memfd_create("huge", MFD_HUGETLB));
    TRY("kernel", "keyctl", syscall(SYS_keyctl, 0, -3, 0));
    TRY("kernel", "add_key", syscall(SYS_add_key, "user", "x", "x", 1, -3));
    TRY("kernel", "request_key", syscall(SYS_request_key, "user", "x", NULL, -3));
    TRY("kernel", "module", syscall(SYS_finit_module, 0, "", 0));
    TRY("kernel", "kexec", syscall(SYS_kexec_load, 0, 0, NULL, 0));
    TRY("kernel", "syslog", syscall(SYS_syslog, 3, handle, sizeof(handle)));
    TRY("kernel", "open_by_handle", syscall(SYS_open_by_handle_at, AT_FDCWD, handle, 0));
    TRY("kernel", "name_to_handle",
        syscall(SYS_name_to_handle_at, AT_FDCWD, "/usr", handle, &id, 0));
    TRY("kernel", "fanotify", syscall(SYS_fanotify_init, 0, 0));
    TRY("kernel", "clock", syscall(SYS_clock_settime, CLOCK_REALTIME, NULL));
    TRY("kernel", "acct", syscall(SYS_acct, "/tmp/x"));
    TRY("kernel", "reboot", syscall(SYS_reboot, 0xfee1dead, 672274793, 0, NULL));
    TRY("kernel", "swapon", syscall(SYS_swapon, "/tmp/x", 0));
    TRY("kernel", "hostname", sethostname("x", 1));
    TRY("kernel", "personality", syscall(SYS_personality, 0x0400000));
    TRY("kernel", "setuid", setuid(getuid() == 0 ? 1 : 0));
    TRY("kernel", "setgid", setgid(getgid() == 0 ? 1 : 0));
    TRY("kernel", "setgroups", syscall(SYS_setgroups, 0, NULL));
    TRY("kernel", "real-time",
        sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1}));
    TRY("kernel", "nice", setpriority(PRIO_PROCESS, 0, -5));
    if (openpty(&fds[0], &fds[1], NULL, NULL, NULL) == 0) {
        int line = 0;

        TRY("kernel", "TIOCSTI", syscall(SYS_ioctl, fds[1], TIOCSTI, "x"));
        TRY("kernel", "TIOCSTI-high-bits", syscall(SYS_ioctl, fds[1], HIGH | TIOCSTI, "x"));
        TRY("kernel", "TIOCLINUX", syscall(SYS_ioctl, fds[1], TIOCLINUX, "\2"));
        TRY("kernel", "line-discipline", syscall(SYS_ioctl, fds[1], TIOCSETD, &line));
        TRY("kernel", "line-discipline-high-bits",
            syscall(SYS_ioctl, fds[1], HIGH | TIOCSETD, &line));
    }
}

static int make_socket(int family, int type, int protocol)
{
    int fd = (int)syscall(SYS_socket, family, type, protocol);

    return fd < 0 ? -1 : close(fd);
}

static void try_sockets(void)
{
    char name[64];

    for (int family = 0; family <= 46; family++) {
        int fds[2];

        for (int type = SOCK_STREAM; type <= SOCK_PACKET; type++) {
            snprintf(name, sizeof(name), "%d/%d", family, type);
            TRY("socket", name, make_socket(family, type, 0));
            TRY("socketpair", name, syscall(SYS_socketpair, family, type, 0, fds));
        }
        snprintf(name, sizeof(name), "%d/high-bits", family);
        TRY("socketpair", name,
            syscall(SYS_socketpair, HIGH | (unsigned)family, SOCK_STREAM, 0, fds));
    }
    for (int protocol = 1; protocol <= 300; protocol++) {
        static const int families[] = {AF_INET, AF_INET6, AF_NETLINK};
        static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET};

        for (size_t i = 0; i < 12; i++) {
            snprintf(name, sizeof(name), "%d/%d/%d", families[i % 3], types[i / 3], protocol);
            TRY("protocol", name, make_socket(families[i % 3], types[i / 3], protocol));
        }
    }
}

/* ---- processes ---------------------------------------------------------------- */

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void name_of(pid_t pid, char *name, size_t cap)
{
    char path[64];
    int fd;
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/%d/comm", pid);
    fd = open(path, O_RDONLY);
    n = fd >= 0 ? read(fd, name, cap - 1) : 0;
    name[n > 0 ? n - 1 : 0] = '\0';
    close(fd);
}

static bool is_boxinit(pid_t pid)
{
    char name[32];

    name_of(pid, name, sizeof(name));
    return strcmp(name, "boxinit") == 0;
}

/* What is readable of a process must not have been boxinit's: its name is looked at once
 * more afterwards, for in between it may have become the command. Of one that has just
 * died files can be opened, but are empty. */
static long inspect_one(pid_t pid)
{
    static const char *const parts[] = {"mem", "maps", "environ", "exe", "cwd", "root"};
    long found = 0;
    int process;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        char path[64];
        char byte;
        int fd;

        snprintf(path, sizeof(path), "/proc/%d/%s", pid, parts[i]);
        fd = open(path, O_RDONLY);
        if (fd >= 0 && (read(fd, &byte, 1) == 1 || errno == EISDIR) && is_boxinit(pid)) {
            printf("opened %s\n", path);
            found++;
        }
        close(fd);
    }
    process = (int)syscall(SYS_pidfd_open, pid, 0);
    for (int i = 3; process >= 0 && i < 32; i++) {
        int fd = (int)syscall(SYS_pidfd_getfd, process, i, 0);
        char path[64];
        char to[64];

        snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, i);
        if ((fd >= 0 || readlink(path, to, sizeof(to)) > 0) && is_boxinit(pid)) {
            printf("took descriptor %d of %d\n", i, pid);
            found++;
        }
        close(fd);
    }
    close(process);
    return found;
}

static void inspect(void)
{
    double end = now() + 2;
    long tries = 0;
    long found = 0;

    puts("go");
    fflush(stdout);
    while (now() < end) {
        DIR *proc = opendir("/proc");

        for (struct dirent *d = readdir(proc); d != NULL; d = readdir(proc)) {
            pid_t pid = (pid_t)atoi(d->d_name);

            if (pid > 1 && is_boxinit(pid)) {
                tries++;
                found += inspect_one(pid);
            }
        }
        closedir(proc);
    }
    printf("tries %ld found %ld\n", tries, found);
}

static void hold(const char *comm, long options)
{
    puts("go");
    fflush(stdout);
    while (true) {
        DIR *proc = opendir("/proc");

        for (struct dirent *d = readdir(proc); d != NULL; d = readdir(proc)) {
            pid_t pid = (pid_t)atoi(d->d_name);
            char name[32] = "";

            if (pid > 1) {
                name_of(pid, name, sizeof(name));
            }
            if (strcmp(name, comm) == 0 && ptrace(PTRACE_SEIZE, pid, 0, options) == 0) {
                puts("held");
                fflush(stdout);
                sleep(600);
            }
        }
        closedir(proc);
    }
}

static void storm(void)
{
    double end = now() + 1.5;

    puts("go");
    fflush(stdout);
    while (now() < end) {
        pid_t pid = fork();

        if (pid == 0) {
            setsid();
            for (int i = 0; i < 8; i++) {
                if (fork() == 0) {
                    setsid();
                    _exit(0);
                }
            }
            _exit(0);
        }
        waitpid(pid, NULL, 0);
    }
    puts("done");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (strcmp(what, "calls") == 0) {
        try_init();
        try_paths();
        try_namespaces();
        try_mounts();
        try_kernel();
        try_sockets();
    } else if (strcmp(what, "inspect") == 0) {
        inspect();
    } else if (strcmp(what, "hold") == 0 && argc == 3) {
        hold(argv[2], 0);
    } else if (strcmp(what, "stop") == 0 && argc == 3) {
        hold(argv[2], PTRACE_O_TRACEEXIT);
    } else if (strcmp(what, "storm") == 0) {
        storm();
    } else {
        return 2;
    }
    return 0;
}
