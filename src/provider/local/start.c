/* Starting boxinit: the spec it reads, the descriptors it gets, the report it gives. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/proto.h"
#include "agent/wire.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/proc.h"
#include "provider/local/making.h"
#include "provider/local/view.h"

#define START_MS   30000
#define REPORT_MAX 4096

/* A label of a host name: letters, digits and '-'. */
static struct str hostname(struct arena *a, const struct box_spec *spec)
{
    struct str name = spec->name.len > 0 ? spec->name : spec->id;
    char *label = arena_alloc(a, 1, 64);
    size_t n = 0;
    for (size_t i = 0; i < name.len && n < 63; i++) {
        char c = name.p[i];
        bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (fine) {
            label[n++] = c;
        } else if (n > 0) {
            label[n++] = '-';
        }
    }
    while (n > 0 && label[n - 1] == '-') {
        n--;
    }
    return n > 0 ? (struct str){label, n} : S("sandbox");
}

static void add_limits(struct wire_out *w, const struct making *m, const struct limits *rlimits)
{
    struct str procs[CGROUPS_MAX];
    const struct limits *force = &m->meta.limits;
    size_t n_procs = 0;
    for (size_t i = 0; i < m->cgroups.n_dirs; i++) {
        struct str dir = m->cgroups.dirs[i];
        /* In a scope boxinit is from the first moment. */
        if (!scope_is_ours(dir, m->spec->id)) {
            procs[n_procs++] = arena_printf(m->ctx->arena, "%.*s/cgroup.procs", STR_ARG(dir));
        }
    }
    bool counted = m->cgroups.version[CONTROL_MEMORY] != 0;
    wire_u64(w, (uint64_t)force->disk_bytes);
    wire_u64(w, (uint64_t)rlimits->memory_bytes);
    wire_u32(w, (uint32_t)rlimits->pids);
    wire_u32(w, (uint32_t)rlimits->open_files);
    wire_list(w, procs, n_procs);
    wire_str(w, m->cgroups.oom_file);
    wire_str(w, m->cgroups.memory_file);
    wire_u64(w, counted ? (uint64_t)force->memory_bytes : 0);
    wire_u64(w, (uint64_t)force->lifetime_s * 1000);
    wire_u64(w, (uint64_t)force->idle_s * 1000);
}

static int add_network(struct wire_out *w, struct arena *a, struct err *e)
{
    struct str program;
    struct names own;
    if (!network_find(a, &program)) {
        return err_set(e, ERR_UNSUPPORTED, NETWORK_PROGRAM " is not on this machine any more");
    }
    if (network_own_addresses(a, &own, e) < 0) {
        return -1;
    }
    wire_str(w, program);
    wire_list(w, own.items, own.n);
    return 0;
}

static int write_spec(const struct making *m, const struct limits *rlimits, struct buf *out,
                      struct err *e)
{
    struct arena *a = m->ctx->arena;
    struct names env = view_env(a, m->spec);
    struct names binds = view_folders(a);
    struct names etc = view_etc(a);
    struct wire_out w = wire_begin(out, FRAME_SPEC);
    wire_str(&w, hostname(a, m->spec));
    wire_u8(&w, (uint8_t)m->uids.mode);
    wire_u32(&w, m->uids.uid);
    wire_u32(&w, m->uids.gid);
    wire_u32(&w, m->uids.count);
    wire_list(&w, env.items, env.n);
    wire_list(&w, binds.items, binds.n);
    wire_list(&w, etc.items, etc.n);
    add_limits(&w, m, rlimits);
    wire_u8(&w, m->spec->network == NETWORK_INTERNET ? 1 : 0);
    wire_u8(&w, m->uids.lock >= 0 ? 1 : 0);
    if (m->spec->network == NETWORK_INTERNET && add_network(&w, a, e) < 0) {
        return -1;
    }
    if (!wire_end(&w)) {
        return err_set(e, ERR_LIMIT,
                       "the environment that was asked for is too large: at most %u bytes",
                       FRAME_MAX);
    }
    return 0;
}

/* The spec as a file in memory: unlike a pipe it takes any size at once. */
static int spec_fd(struct str spec, struct err *e)
{
    int fd own_fd = memfd_create("anybox-spec", MFD_CLOEXEC);
    if (fd < 0) {
        return err_sys(e, errno, "cannot make a file in memory");
    }
    if (fd_write_all(fd, spec, e) < 0) {
        return -1;
    }
    if (lseek(fd, 0, SEEK_SET) < 0) {
        return err_sys(e, errno, "cannot rewind a file in memory");
    }
    return take_fd(&fd);
}

/* The limits that a scope is to have: those with a controller for it. */
static struct limits limits_of_v2(const struct making *m)
{
    const int *version = m->cgroups.version;
    const struct limits *force = &m->meta.limits;
    return (struct limits){
        .memory_bytes = version[CONTROL_MEMORY] == 2 ? force->memory_bytes : 0,
        .cpu_millis = version[CONTROL_CPU] == 2 ? force->cpu_millis : 0,
        .pids = version[CONTROL_PIDS] == 2 ? force->pids : 0,
    };
}

static int spawn(struct making *m, const char *program, struct str spec, int report, struct err *e)
{
    int spec_in own_fd = spec_fd(spec, e);
    if (spec_in < 0) {
        return -1;
    }
    /* Opened once more: the lock must not live on in PID 1. */
    int folder own_fd = openat(m->folder, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        return err_sys(e, errno, "cannot open the sandbox's folder");
    }
    const char *const argv[] = {BOXINIT, "box", NULL};
    struct proc_fd fds[] = {
        {spec_in, SPEC_FD}, {report, REPORT_FD}, {folder, FOLDER_FD}, {m->uids.lock, KEEP_FD}};
    struct proc_spec start = {
        .file = program,
        .argv = argv,
        .fds = fds,
        .n_fds = m->uids.lock >= 0 ? COUNTOF(fds) : COUNTOF(fds) - 1,
        .new_session = true,
    };
    if (m->cgroups.manager.dir.len > 0) {
        struct limits in_scope = limits_of_v2(m);
        start.file = SYSTEMD_RUN;
        start.argv = scope_argv(m->ctx->arena, m->spec->id, &in_scope, program, argv[1]);
        start.envp = scope_envp(m->ctx->arena, &m->cgroups.manager);
    }
    return proc_spawn(&start, &m->outer, e);
}

/* The report as far as it has come, until it is whole or the other end is closed. */
static int read_report(const struct ctx *ctx, int report, struct buf *in, struct frame *out,
                       struct err *e)
{
    for (;;) {
        ssize_t size = wire_parse(buf_str(in), out, e);
        if (size != 0) {
            return size < 0 ? -1 : 1;
        }
        struct pollfd readable = {.fd = report, .events = POLLIN};
        char *room = buf_room(in, REPORT_MAX / 2);
        if (room == NULL) {
            return err_set(e, ERR_PROTOCOL, "boxinit's report is too long");
        }
        if (ctx_wait(ctx, &readable, 1, 0, e) < 0) {
            return -1;
        }
        ssize_t n = fd_read(report, room, REPORT_MAX / 2, e);
        if (n <= 0) {
            return (int)n;
        }
        in->len += (size_t)n;
    }
}

static int take_report(struct making *m, struct frame f, struct err *e)
{
    struct wire_in r = wire_read(f.fields);
    if (f.type == FRAME_FAIL) {
        uint8_t kind = wire_get_u8(&r);
        uint32_t errnum = wire_get_u32(&r);
        struct str text = wire_get_str(&r);
        bool known = kind > ERR_NONE && kind < ERR_KINDS;
        (void)err_set(e, known ? (enum err_kind)kind : ERR_SYSTEM, "%.*s", STR_ARG(text));
        e->sys = (int)(errnum & 0xfff);
        return err_wrap(e, "the sandbox could not be set up");
    }
    uint32_t pid = wire_get_u32(&r);
    if (f.type != FRAME_READY || !wire_done(&r) || pid < 2 || pid > INT32_MAX) {
        return err_set(e, ERR_PROTOCOL, "boxinit's report cannot be read; build anybox again");
    }
    m->meta.pid = (pid_t)pid;
    m->meta.start = proc_start_time(m->meta.pid);
    if (m->meta.start < 0) {
        return err_set(e, ERR_SYSTEM, "the sandbox ended as soon as it was made");
    }
    return 0;
}

/* boxinit's outer process ends by itself once PID 1 serves. */
static int reap_outer(struct making *m, const struct ctx *ctx, int *status, struct err *e)
{
    if (proc_wait(ctx, m->outer, status, e) < 0) {
        return -1;
    }
    m->outer = 0;
    return 0;
}

static int silent(struct making *m, const struct ctx *ctx, struct err *e)
{
    int status = 0;
    if (reap_outer(m, ctx, &status, e) < 0) {
        return -1;
    }
    /* boxinit says why it fails. */
    m->refused = m->cgroups.manager.dir.len > 0 && WIFEXITED(status) && WEXITSTATUS(status) != 0;
    if (WIFSIGNALED(status)) {
        return err_set(e, ERR_SYSTEM, "boxinit was killed by signal %d while it made the sandbox",
                       WTERMSIG(status));
    }
    return err_set(e, ERR_SYSTEM, "boxinit ended with status %d and without a word",
                   WEXITSTATUS(status));
}

int making_start(struct making *m, const char *program, const struct limits *rlimits, struct err *e)
{
    struct buf spec own_buf = {0};
    buf_init(&spec, FRAME_MAX + FRAME_HEADER);
    if (write_spec(m, rlimits, &spec, e) < 0) {
        return -1;
    }
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "cannot make a pipe");
    }
    int report own_fd = ends[0];
    int write_end own_fd = ends[1];
    if (spawn(m, program, buf_str(&spec), write_end, e) < 0) {
        return -1;
    }
    (void)close(take_fd(&write_end));
    struct ctx shorter = *m->ctx;
    int64_t until_ms = clock_mono_ms() + START_MS;
    if (shorter.deadline_ms == 0 || shorter.deadline_ms > until_ms) {
        shorter.deadline_ms = until_ms;
    }
    struct buf in own_buf = {0};
    buf_init(&in, REPORT_MAX);
    struct frame f;
    int got = read_report(&shorter, report, &in, &f, e);
    if (got < 0) {
        return err_wrap(e, "the sandbox did not start");
    }
    if (got == 0) {
        return silent(m, &shorter, e);
    }
    int status = 0;
    if (take_report(m, f, e) < 0) {
        return -1;
    }
    return reap_outer(m, &shorter, &status, e);
}
