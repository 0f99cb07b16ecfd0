/*
 * spawn.c - starts the process of a command.
 *
 * The child is forked, not vforked: with its memory shared PID 1 would sleep until the
 * child execs, and from the moment it has the payload's uid any process of the box may
 * stop it. So nobody waits for it: what it could not do it writes into a close-on-exec
 * pipe, whose end after "ready" means that the program runs. Most commands do not even
 * wait for the fork (spare.c).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/own.h"
#include "boxinit/child.h"
#include "boxinit/command.h"
#include "boxinit/fds.h"
#include "boxinit/keep.h"
#include "boxinit/server.h"

static void write_oom_adj(int fd, int value)
{
    char text[16];
    int len = snprintf(text, sizeof(text), "%d", value);

    if (fd >= 0) {
        (void)!pwrite(fd, text, (size_t)len, 0);
    }
}

/* The child inherits the value; it could not write its own, since a process that is not
 * dumpable does not own its files in /proc. */
pid_t spawn_fork(struct server *s)
{
    pid_t pid;
    int why;

    keep_reserve(s);
    write_oom_adj(s->fds.oom_adj, s->oom_adj_payload);
    pid = fork();
    if (pid != 0) {
        why = errno;
        write_oom_adj(s->fds.oom_adj, s->oom_adj_own);
        errno = why;
    }
    return pid;
}

/* There is no limit of ours: it is the machine's, or the user's. */
static int plain_fork_failed(int errnum, struct err *e)
{
    if (errnum == ENOMEM) {
        err_set(e, ERR_LIMIT, "the machine has no memory left to start a process");
    } else {
        err_set(e, ERR_LIMIT,
                "the user has no process left on this machine (ulimit -u, or a limit of the "
                "session): end some");
    }
    e->sys = errnum;
    return -1;
}

int spawn_fork_failed(const struct server *s, int errnum, struct err *e)
{
    uint32_t pids = s->spec->pids_limit > 0 ? s->spec->pids_limit : s->spec->pids;
    uint64_t memory = s->spec->memory_limit > 0 ? s->spec->memory_limit : s->spec->memory_bytes;

    if (s->spec->is_plain && !s->spec->is_container && (errnum == ENOMEM || errnum == EAGAIN)) {
        return plain_fork_failed(errnum, e);
    }
    if (errnum == ENOMEM) {
        err_set(e, ERR_LIMIT,
                "the sandbox has no memory left to start a process (limit %llu MiB): end some of "
                "its processes or remove files, or make a sandbox with more",
                (unsigned long long)(memory >> 20));
    } else if (errnum == EAGAIN) {
        err_set(e, ERR_LIMIT,
                "the sandbox has no process left (limit %u): end some of its processes, or make a "
                "sandbox with a higher limit",
                pids);
    } else {
        return err_sys(e, errnum, "fork");
    }
    e->sys = errnum;
    return -1;
}

/* The pipes are PID 1's own: its descriptors, not those of the commands. */
static int pipes_failed(struct err *e)
{
    int errnum = e->sys;
    struct rlimit files = {0};

    if (errnum == EMFILE) {
        (void)getrlimit(RLIMIT_NOFILE, &files);
        err_set(e, ERR_LIMIT,
                "the sandbox's first process has no descriptor left for another command (limit "
                "%llu): wait for one to end, or kill it",
                (unsigned long long)files.rlim_cur);
    } else if (errnum == ENFILE) {
        err_set(e, ERR_LIMIT,
                "the machine has no open file left (fs.file-max) to start a command with: end "
                "what holds so many");
    }
    e->sys = errnum;
    return -1;
}

/* The text of "sh -c text", else the program: on one line, for who looks at it later. */
static const char *head_of(struct arena *a, const struct request *r)
{
    bool is_shell = r->n_argv == 3 && str_eq(r->argv[1], S("-c"));
    struct str text = str_head(is_shell ? r->argv[2] : r->argv[0], 120);
    char *head = arena_alloc(a, text.len + 1, 1);

    for (size_t i = 0; i < text.len; i++) {
        head[i] = (char)((unsigned char)text.p[i] < 32 || text.p[i] == 127 ? ' ' : text.p[i]);
    }
    return head;
}

static void fill_order(struct child_order *o, struct arena *a, const struct server *s,
                       struct task *t, const struct request *r)
{
    struct str path;

    o->with_input = r->with_input;
    o->argv = arena_alloc(a, r->n_argv + 1, sizeof(*o->argv));
    for (size_t i = 0; i < r->n_argv; i++) {
        o->argv[i] = arena_alloc(a, r->argv[i].len + 1, 1);
        if (r->argv[i].len > 0) {
            memcpy(o->argv[i], r->argv[i].p, r->argv[i].len);
        }
    }
    o->env = command_env(a, s->spec->env, s->spec->n_env, r->env, r->n_env);
    path = command_var(o->env, S("PATH"));
    path = path.len > 0 ? path : S(BOX_PATH);
    o->files = command_files(a, r->argv[0], path);
    o->cwd = command_path(s->spec, a, r->cwd);
    t->program = arena_cstr(&t->text, str_head(r->argv[0], 120));
    t->head = head_of(&t->text, r);
    t->path = arena_cstr(&t->text, str_head(path, 200));
    t->cwd = arena_cstr(&t->text, str_head(str_from(o->cwd), 200));
}

/* Before it has the payload's uid: what is PID 1's must not be in its reach. */
static void become(const struct spec *spec, const struct child_pipes *p)
{
    int keep[] = {p->in[0], p->out[1], p->err[1], p->report[1]};
    struct child_failure why = {STEP_PIPES, 0};
    struct err ignored;

    if (fds_close_others(keep, COUNTOF(keep), &ignored) < 0) {
        why.errnum = errno;
    } else {
        why = child_become(spec);
    }
    if (why.errnum != 0) {
        child_give_up(p, why);
    }
}

static pid_t fork_child(struct server *s, const struct child_order *order, struct child_pipes *p,
                        struct err *e)
{
    pid_t pid;

    if (child_pipes_open(p, order->with_input, s->spec, e) < 0) {
        return pipes_failed(e);
    }
    pid = spawn_fork(s);
    if (pid == 0) {
        become(s->spec, p);
        child_run(order, p);
    }
    return pid < 0 ? spawn_fork_failed(s, errno, e) : pid;
}

int spawn(struct server *s, struct task *t, const struct request *r, struct err *e)
{
    struct arena a own_arena = {0};
    struct child_pipes p = CHILD_NO_PIPES;
    struct child_order order = {0};

    arena_init(&a, 64u << 20);
    fill_order(&order, &a, s, t, r);
    t->pid = spare_use(s, &order, &p, &t->order);
    if (t->pid == 0) {
        t->pid = fork_child(s, &order, &p, e);
    }
    if (t->pid > 0) {
        t->input.fd = take_fd(&p.in[1]);
        t->output[0].fd = take_fd(&p.out[0]);
        t->output[1].fd = take_fd(&p.err[0]);
        t->start.fd = take_fd(&p.report[0]);
    }
    if (t->order.len > 0) {
        t->ends = p;
        return 0;
    }
    child_pipes_close(&p);
    return t->pid > 0 ? 0 : -1;
}

void spawn_settled(struct task *t)
{
    child_pipes_close(&t->ends);
    buf_fini(&t->order);
}

/* Its spare died before it could run anything. The streams stay as they are: whatever is in
 * stdin's pipe nobody has read. */
static int run_again(struct server *s, struct task *t, struct err *e)
{
    pid_t pid;

    watch_close(s, &t->start);
    if (child_report_open(t->ends.report, e) < 0) {
        return pipes_failed(e);
    }
    pid = spawn_fork(s);
    if (pid == 0) {
        become(s->spec, &t->ends);
        child_run_bytes(buf_str(&t->order), &t->ends);
    }
    if (pid < 0) {
        return spawn_fork_failed(s, errno, e);
    }
    t->pid = pid;
    t->reaped = false;
    t->start.fd = take_fd(&t->ends.report[0]);
    spawn_settled(t);
    return 0;
}

static int cwd_failed(const struct task *t, int errnum, struct err *e)
{
    switch (errnum) {
    case ENOENT:
        return err_set(e, ERR_NOT_FOUND,
                       "cwd \"%s\" does not exist in the sandbox; make it first, or leave cwd out",
                       t->cwd);
    case ENOTDIR:
        return err_set(e, ERR_INVALID, "cwd \"%s\" is not a folder in the sandbox", t->cwd);
    case EACCES:
        return err_set(e, ERR_DENIED, "cwd \"%s\": the sandbox's user may not enter it", t->cwd);
    default: return err_sys(e, errnum, "cwd \"%s\"", t->cwd);
    }
}

static int exec_failed(const struct server *s, const struct task *t, int errnum, struct err *e)
{
    switch (errnum) {
    case ENOENT:
    case ENOTDIR:
        if (strchr(t->program, '/') != NULL) {
            return err_set(e, ERR_NOT_FOUND, "\"%s\": no such program in the sandbox", t->program);
        }
        return err_set(e, ERR_NOT_FOUND, "\"%s\": no such program in the sandbox (PATH=%s)",
                       t->program, t->path);
    case EACCES:
        return err_set(e, ERR_DENIED, "\"%s\" is not executable for the sandbox's user",
                       t->program);
    case ENOEXEC:
        return err_set(e, ERR_INVALID, "\"%s\" is not a program: no #! line and no binary",
                       t->program);
    case E2BIG:
        return err_set(e, ERR_LIMIT,
                       "arguments and environment of \"%s\" are too long for the kernel "
                       "(128 KiB each, 2 MiB in all); put the text in a file",
                       t->program);
    case EAGAIN:
    case ENOMEM: return spawn_fork_failed(s, errnum, e);
    default: return err_sys(e, errnum, "\"%s\"", t->program);
    }
}

static int step_failed(const struct server *s, const struct task *t, struct child_failure why,
                       struct err *e)
{
    switch ((enum child_step)why.step) {
    case STEP_SESSION: return err_sys(e, why.errnum, "make a session");
    case STEP_LIMITS: return err_sys(e, why.errnum, "set the command's limits");
    case STEP_IDS: return err_sys(e, why.errnum, "become the sandbox's user");
    case STEP_PIPES: return err_sys(e, why.errnum, "give the command its pipes");
    case STEP_CWD: return cwd_failed(t, why.errnum, e);
    case STEP_EXEC: return exec_failed(s, t, why.errnum, e);
    case STEP_READY: break;
    case STEP_ORDER: return err_set(e, ERR_BUG, "the command was not understood");
    case STEP_INTERPRETER:
        return err_set(e, ERR_NOT_FOUND,
                       "\"%s\": the program that its #! line names, or its loader, is not in the "
                       "sandbox",
                       t->program);
    }
    return err_set(e, ERR_BUG, "the start of the command was reported wrongly");
}

static int explain(const struct server *s, const struct task *t, struct child_failure why,
                   struct err *e)
{
    int rc = step_failed(s, t, why, e);

    e->sys = why.errnum;
    return rc;
}

/* 1: there is nothing more to come; 0: there may be; -1: it failed. */
static int read_report(const struct server *s, struct task *t, struct err *e)
{
    struct child_failure why;

    for (;;) {
        ssize_t n = read(t->start.fd, &why, sizeof(why));

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return errno == EAGAIN ? 0 : err_sys(e, errno, "read the start");
        }
        if (n == 0) {
            return 1;
        }
        if ((size_t)n != sizeof(why)) {
            return err_set(e, ERR_BUG, "the start of the command was reported by half");
        }
        if (why.step != STEP_READY || t->is_ready) {
            return explain(s, t, why, e);
        }
        t->is_ready = true;
    }
}

int spawn_result(struct server *s, struct task *t, struct err *e)
{
    int rc = read_report(s, t, e);

    if (rc < 0 || (rc == 0 && !t->reaped)) {
        return rc;
    }
    /* One that we were asked to kill has ended as it should. */
    if (!t->is_ready && t->order.len > 0 && t->kill == KILL_NONE) {
        return run_again(s, t, e);
    }
    return 1;
}
