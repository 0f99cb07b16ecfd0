/* Starting boxinit: the spec it reads, the descriptors it gets, what is said on its control. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/proto.h"
#include "agent/wire.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/own.h"
#include "base/proc.h"
#include "provider/local/blank.h"
#include "provider/local/maker.h"
#include "provider/local/obstacle.h"
#include "provider/local/view.h"

#define START_MS 30000
#define MAKER_MS 5000 /* until PID 1 is born */
#define ORDER_MS 2000 /* it has been made: what is left is nothing */
#define PIECE    1024

#define HOST_FILE_MAX (256u << 10) /* of /etc; both fit the box's root */

static bool has_scope(const struct blank *b)
{
    return b->cgroups.manager.dir.len > 0;
}

/* ---- what is written ------------------------------------------------------------------ */

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

static void add_cgroups(struct wire_out *w, struct blank *b)
{
    struct str procs[CGROUPS_MAX];
    size_t n_procs = 0;
    for (size_t i = 0; i < b->cgroups.n_dirs; i++) {
        struct str dir = b->cgroups.dirs[i];
        /* In a scope boxinit is from the first moment. */
        if (!scope_is_ours(dir)) {
            procs[n_procs++] = arena_printf(&b->arena, "%.*s/cgroup.procs", STR_ARG(dir));
        }
    }
    wire_list(w, procs, n_procs);
    wire_str(w, b->cgroups.oom_file);
    wire_str(w, b->cgroups.memory_file);
    wire_str(w, b->cgroups.pids_file);
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

/* What resolving names takes, as the host has it now. */
static void add_host_names(struct wire_out *w, struct arena *a)
{
    static const char *const paths[] = {"/etc/resolv.conf", "/etc/hosts"};
    for (size_t i = 0; i < COUNTOF(paths); i++) {
        struct str text = STR_EMPTY;
        struct err why;
        if (fd_read_file(AT_FDCWD, paths[i], HOST_FILE_MAX, a, &text, &why) < 0) {
            log_line(LOG_INFO, "local", "the sandbox has nothing of %s: %s", paths[i], why.msg);
            text = STR_EMPTY;
        }
        wire_str(w, text);
    }
}

static int write_spec(struct blank *b, struct buf *out, struct err *e)
{
    bool internet = b->kind.network == NETWORK_INTERNET;
    bool host = b->kind.network == NETWORK_HOST;
    bool image = b->kind.image.len > 0;
    struct names binds = image ? (struct names){0} : view_folders(&b->arena);
    struct names etc = image ? (struct names){0} : b->here->etc;
    struct wire_out w = wire_begin(out, FRAME_SPEC);
    wire_u8(&w, (uint8_t)b->uids.mode);
    wire_u32(&w, b->uids.uid);
    wire_u32(&w, b->uids.gid);
    wire_u32(&w, b->uids.count);
    wire_list(&w, binds.items, binds.n);
    wire_list(&w, etc.items, etc.n);
    add_cgroups(&w, b);
    wire_u8(&w, internet ? 1 : host ? 2 : 0);
    wire_u8(&w, b->uids.lock >= 0 ? 1 : 0);
    wire_u8(&w, b->scoped ? 1 : 0);
    wire_str(&w, b->kind.image);
    if (internet && add_network(&w, &b->arena, e) < 0) {
        return -1;
    }
    if (host) {
        add_host_names(&w, &b->arena);
    }
    return wire_end(&w) ? 0 : err_set(e, ERR_BUG, "the spec does not fit a frame");
}

static int write_order(struct blank *b, const struct box_spec *spec, const struct limits *force,
                       struct buf *out, struct err *e)
{
    const int *version = b->cgroups.version;
    struct names env = view_env(&b->arena, spec);
    struct wire_out w = wire_begin(out, FRAME_ORDER);
    wire_str(&w, hostname(&b->arena, spec));
    wire_list(&w, env.items, env.n);
    wire_u64(&w, (uint64_t)force->disk_bytes);
    /* As rlimits, where no cgroup does it. */
    wire_u64(&w, version[CONTROL_MEMORY] == 0 ? (uint64_t)force->memory_bytes : 0);
    wire_u32(&w, version[CONTROL_PIDS] == 0 ? (uint32_t)force->pids : 0);
    wire_u32(&w, (uint32_t)force->open_files);
    wire_u64(&w, version[CONTROL_MEMORY] != 0 ? (uint64_t)force->memory_bytes : 0);
    wire_u32(&w, version[CONTROL_PIDS] != 0 ? (uint32_t)force->pids : 0);
    wire_u64(&w, (uint64_t)force->lifetime_s * 1000);
    wire_u64(&w, (uint64_t)force->idle_s * 1000);
    if (!wire_end(&w)) {
        return err_set(e, ERR_LIMIT,
                       "the environment that was asked for is too large: at most %u bytes",
                       FRAME_MAX);
    }
    return 0;
}

/* ---- the process ------------------------------------------------------------------------ */

/* A file that only this process and its child can see. */
static int spec_fd(struct str spec, struct err *e)
{
    int fd own_fd = memfd_create("anybox-spec", MFD_CLOEXEC);
    if (fd < 0) {
        return err_sys(e, errno, "cannot make a memory file");
    }
    if (fd_write_all(fd, spec, e) < 0) {
        return -1;
    }
    if (lseek(fd, 0, SEEK_SET) < 0) {
        return err_sys(e, errno, "cannot rewind a memory file");
    }
    return take_fd(&fd);
}

/* What the scope enforces. */
static struct limits limits_of_v2(const struct blank *b)
{
    const int *version = b->cgroups.version;
    const struct limits *want = &b->kind.limits;
    return (struct limits){
        .memory_bytes = version[CONTROL_MEMORY] == 2 ? want->memory_bytes : 0,
        .cpu_millis = version[CONTROL_CPU] == 2 ? want->cpu_millis : 0,
        .pids = version[CONTROL_PIDS] == 2 ? want->pids : 0,
    };
}

static int spawn(struct blank *b, const char *program, struct str spec, int control, int folder,
                 struct err *e)
{
    int spec_in own_fd = spec_fd(spec, e);
    if (spec_in < 0) {
        return -1;
    }
    const char *const argv[] = {BOXINIT, "box", NULL};
    struct proc_fd fds[] = {
        {spec_in, SPEC_FD}, {control, CONTROL_FD}, {folder, FOLDER_FD}, {b->uids.lock, KEEP_FD}};
    struct proc_spec start = {
        .file = program,
        .argv = argv,
        .fds = fds,
        .n_fds = b->uids.lock >= 0 ? COUNTOF(fds) : COUNTOF(fds) - 1,
        .new_session = true,
    };
    if (has_scope(b)) {
        struct limits in_scope = limits_of_v2(b);
        start.file = SYSTEMD_RUN;
        start.argv = scope_argv(&b->arena, str_from(b->id), &in_scope, program, argv[1]);
        start.envp = scope_envp(&b->arena, &b->cgroups.manager);
    }
    return proc_spawn(&start, &b->outer, e);
}

/* See boxinit/maker.c for what it can do. */
static bool is_plain(const struct blank *b)
{
    bool own_ids = b->uids.mode == UID_ROOT || (b->uids.mode == UID_ONE && geteuid() != 0);
    return own_ids && !has_scope(b) && b->kind.network != NETWORK_INTERNET &&
           b->kind.image.len == 0 && !b->kind.alone;
}

/* One way or the other boxinit gets the spec and the descriptors. */
static int hand_over(struct blank *b, const char *program, struct str spec, int control,
                     struct err *e)
{
    /* Opened once more: the lock must not live on in PID 1. */
    int folder own_fd = openat(b->folder, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        return err_sys(e, errno, "cannot open the sandbox's folder");
    }
    const int fds[] = {control, folder, b->uids.lock};
    size_t n = b->uids.lock >= 0 ? COUNTOF(fds) : COUNTOF(fds) - 1;
    b->by_maker = is_plain(b) && maker_send(b->local->maker, program, spec, fds, n);
    return b->by_maker ? 0 : spawn(b, program, spec, control, folder, e);
}

/* boxinit's outer process ends by itself once PID 1 is born, and its network made. */
static int wait_outer(struct blank *b, const struct ctx *ctx, int *status, struct err *e)
{
    if (proc_wait(ctx, b->outer, status, e) < 0) {
        return -1;
    }
    b->outer = 0;
    return 0;
}

static int reap_outer(struct blank *b, const struct ctx *ctx, struct err *e)
{
    int status = 0;
    return b->outer > 0 ? wait_outer(b, ctx, &status, e) : 0;
}

/* ---- the control ------------------------------------------------------------------------- */

/* 1: the next frame, whose fields are good until the next call; 0: the other end is closed. */
static int next_frame(struct blank *b, const struct ctx *ctx, struct frame *out, struct err *e)
{
    for (;;) {
        ssize_t size = wire_parse(buf_str(&b->said), out, e);
        if (size != 0) {
            return size < 0 ? -1 : 1;
        }
        struct pollfd readable = {.fd = b->control, .events = POLLIN};
        char *room = buf_room(&b->said, PIECE);
        if (room == NULL) {
            return err_set(e, ERR_PROTOCOL, "boxinit says too much");
        }
        if (ctx_wait(ctx, &readable, 1, 0, e) < 0) {
            return -1;
        }
        ssize_t n = recv(b->control, room, PIECE, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            continue;
        }
        if (n <= 0) {
            return 0;
        }
        b->said.len += (size_t)n;
    }
}

/* Why the machine refuses it, where that can be told, and what to do. */
static int explain(struct blank *b, uint8_t step, struct err *e)
{
    const char *program = NULL;
    struct err ignored;
    struct facts facts;
    struct obstacle o;
    (void)!local_find_boxinit(b->local, &b->arena, &program, &ignored);
    facts_read(&b->arena, program, &facts);
    if (!obstacle_find(&facts, (enum setup_step)step, e->sys, &b->arena, &o)) {
        return -1;
    }
    return err_set(e, ERR_UNSUPPORTED, "%.*s" OBSTACLE_FIX "%.*s", STR_ARG(o.found),
                   STR_ARG(o.fix));
}

static int take_fail(struct blank *b, struct frame f, struct err *e)
{
    struct wire_in r = wire_read(f.fields);
    uint8_t kind = wire_get_u8(&r);
    uint32_t errnum = wire_get_u32(&r);
    struct str text = wire_get_str(&r);
    bool known = kind > ERR_NONE && kind < ERR_KINDS;
    (void)err_set(e, known ? (enum err_kind)kind : ERR_SYSTEM, "%.*s", STR_ARG(text));
    e->sys = (int)(errnum & 0xfff);
    uint8_t step = wire_get_u8(&r);
    if (step >= SETUP_NAMESPACES && step <= SETUP_INSIDE) {
        (void)!explain(b, step, e);
    }
    return err_wrap(e, "the sandbox could not be set up");
}

/* The frame that must come now: 1 it is there, 0 the other end is closed. */
static int expect(struct blank *b, const struct ctx *ctx, uint8_t type, struct wire_in *fields,
                  struct err *e)
{
    struct frame f;
    int got = next_frame(b, ctx, &f, e);
    if (got < 0) {
        return err_wrap(e, "the sandbox did not start");
    }
    if (got == 0) {
        return 0;
    }
    if (f.type == FRAME_FAIL) {
        return take_fail(b, f, e);
    }
    if (f.type != type) {
        return err_set(e, ERR_PROTOCOL, "boxinit cannot be understood; build anybox again");
    }
    *fields = wire_read(f.fields);
    return 1;
}

static void forget_frame(struct blank *b)
{
    struct frame f;
    struct err ignored;
    ssize_t size = wire_parse(buf_str(&b->said), &f, &ignored);
    buf_drop(&b->said, size > 0 ? (size_t)size : 0);
}

static int silent(struct blank *b, const struct ctx *ctx, struct err *e)
{
    int status = 0;
    if (b->by_maker) {
        return err_set(e, ERR_UNREACHABLE, "the sandbox ended while the maker made it");
    }
    if (b->pid > 0) {
        return err_set(e, ERR_SYSTEM, "the sandbox's first process died while it was set up");
    }
    if (wait_outer(b, ctx, &status, e) < 0) {
        return -1;
    }
    /* boxinit says why it fails. */
    b->refused = has_scope(b) && WIFEXITED(status) && WEXITSTATUS(status) != 0;
    if (WIFSIGNALED(status)) {
        return err_set(e, ERR_SYSTEM, "boxinit was killed by signal %d while it made the sandbox",
                       WTERMSIG(status));
    }
    return err_set(e, ERR_SYSTEM, "boxinit ended with status %d and without a word",
                   WEXITSTATUS(status));
}

static int wait_born(struct blank *b, const struct ctx *ctx, struct err *e)
{
    struct wire_in r;
    int got = expect(b, ctx, FRAME_BORN, &r, e);
    if (got <= 0) {
        return got < 0 ? -1 : silent(b, ctx, e);
    }
    uint32_t pid = wire_get_u32(&r);
    if (!wire_done(&r) || pid < 2 || pid > INT32_MAX) {
        return err_set(e, ERR_PROTOCOL, "boxinit cannot be understood; build anybox again");
    }
    forget_frame(b);
    b->start = proc_start_time((pid_t)pid);
    if (b->start < 0) {
        /* Why is perhaps the next word. */
        got = expect(b, ctx, FRAME_PREPARED, &r, e);
        return got < 0 ? -1 : err_set(e, ERR_SYSTEM, "the sandbox ended as soon as it was made");
    }
    b->pid = (pid_t)pid;
    return 0;
}

/* 0: it has come; 1: PID 1 is gone. */
static int wait_word(struct blank *b, const struct ctx *ctx, uint8_t type, struct err *e)
{
    struct wire_in r;
    int got = expect(b, ctx, type, &r, e);
    if (got > 0) {
        forget_frame(b);
    }
    return got < 0 ? -1 : got == 0;
}

static struct ctx within(const struct ctx *ctx, int64_t ms)
{
    struct ctx shorter = *ctx;
    int64_t until_ms = clock_mono_ms() + ms;
    if (shorter.deadline_ms == 0 || shorter.deadline_ms > until_ms) {
        shorter.deadline_ms = until_ms;
    }
    return shorter;
}

/* A maker that says nothing is none. */
static int hear_born(struct blank *b, const struct ctx *ctx, struct err *e)
{
    struct ctx shorter = within(ctx, b->by_maker ? MAKER_MS : START_MS);
    struct err ours;
    int rc = wait_born(b, &shorter, e);
    if (rc < 0 && b->by_maker && e->kind == ERR_TIMEOUT && ctx_check(ctx, &ours) == 0) {
        maker_drop(b->local->maker);
        return err_set(e, ERR_UNREACHABLE, "the maker of sandboxes does not answer");
    }
    return rc;
}

int blank_start(struct blank *b, const struct ctx *ctx, const char *program, struct err *e)
{
    struct buf spec own_buf = {0};
    int ends[2];
    buf_init(&spec, FRAME_MAX + FRAME_HEADER);
    if (write_spec(b, &spec, e) < 0) {
        return -1;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        return err_sys(e, errno, "cannot make a pair of sockets");
    }
    int theirs own_fd = ends[1];
    drop_fd(&b->control);
    b->control = ends[0];
    buf_clear(&b->said);
    if (hand_over(b, program, buf_str(&spec), theirs, e) < 0) {
        return -1;
    }
    (void)close(take_fd(&theirs));
    return hear_born(b, ctx, e);
}

int blank_prepare(struct blank *b, const struct ctx *ctx, struct err *e)
{
    struct ctx shorter = within(ctx, START_MS);
    int gone = wait_word(b, &shorter, FRAME_PREPARED, e);
    if (gone != 0) {
        return gone < 0 ? -1 : silent(b, &shorter, e);
    }
    return reap_outer(b, &shorter, e);
}

static int send_all(struct blank *b, const struct ctx *ctx, struct str bytes, struct err *e)
{
    while (bytes.len > 0) {
        ssize_t n = send(b->control, bytes.p, bytes.len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n >= 0) {
            bytes = str_skip(bytes, (size_t)n);
            continue;
        }
        struct pollfd writable = {.fd = b->control, .events = POLLOUT};
        if (errno != EAGAIN && errno != EINTR) {
            return err_set(e, ERR_UNREACHABLE, "the prepared sandbox has ended");
        }
        if (ctx_wait(ctx, &writable, 1, 0, e) < 0) {
            return -1;
        }
    }
    return 0;
}

/* 0: it serves; 1: it is gone. A fresh one may say first that it is prepared. */
static int wait_ready(struct blank *b, const struct ctx *ctx, struct err *e)
{
    struct frame f;
    int got = b->in_advance ? 1 : next_frame(b, ctx, &f, e);
    if (got > 0 && !b->in_advance && f.type == FRAME_PREPARED) {
        forget_frame(b);
    }
    if (got < 0) {
        return err_wrap(e, "the sandbox did not start");
    }
    return got > 0 ? wait_word(b, ctx, FRAME_READY, e) : 1;
}

static int obey(struct blank *b, const struct ctx *ctx, struct str order, struct err *e)
{
    /* One that has ended may have said why. */
    if (send_all(b, ctx, order, e) < 0 && e->kind != ERR_UNREACHABLE) {
        return -1;
    }
    int gone = wait_ready(b, ctx, e);
    if (gone > 0 && !b->in_advance) {
        return silent(b, ctx, e);
    }
    return gone == 0 ? reap_outer(b, ctx, e) : gone;
}

int blank_order(struct blank *b, const struct ctx *ctx, const struct box_spec *spec,
                const struct limits *limits, struct err *e)
{
    struct buf order own_buf = {0};
    struct ctx shorter = within(ctx, b->in_advance ? ORDER_MS : START_MS);
    buf_init(&order, FRAME_MAX + FRAME_HEADER);
    if (write_order(b, spec, limits, &order, e) < 0) {
        return -1;
    }
    int gone = obey(b, &shorter, buf_str(&order), e);
    struct err ours;
    bool stuck = gone < 0 && e->kind == ERR_TIMEOUT && ctx_check(ctx, &ours) == 0;
    if (gone > 0 || (stuck && b->in_advance)) {
        return err_set(e, ERR_UNREACHABLE, "the prepared sandbox does not answer");
    }
    return gone;
}
