/*
 * spawn.c - starts the process of a command.
 *
 * The child is forked, not vforked: with its memory shared PID 1 would sleep until the
 * child execs, and from the moment it has the payload's uid any process of the box may
 * stop it. So nobody waits for it: what it could not do it writes into a close-on-exec
 * pipe, whose end without a word means that the program runs.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "boxinit/command.h"
#include "boxinit/ids.h"
#include "boxinit/limits.h"
#include "boxinit/server.h"

enum step {
    STEP_SESSION,
    STEP_LIMITS,
    STEP_IDS,
    STEP_PIPES,
    STEP_CWD,
    STEP_EXEC,
    STEP_INTERPRETER, /* the file is there, what would run it is not */
};

struct failure {
    int step, errnum;
};

/* Everything the child needs, made before the fork. */
struct child {
    const struct spec *spec;
    char **argv, **env;
    const char **files;
    const char *cwd;
    int fds[3]; /* what becomes stdin, stdout, stderr */
    int report;
};

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

    write_oom_adj(s->fds.oom_adj, s->oom_adj_payload);
    pid = fork();
    if (pid != 0) {
        why = errno;
        write_oom_adj(s->fds.oom_adj, s->oom_adj_own);
        errno = why;
    }
    return pid;
}

/* Returns only when nothing could be run. */
static struct failure exec_first(const struct child *c)
{
    struct failure why = {STEP_EXEC, ENOENT};

    for (const char **file = c->files; *file != NULL; file++) {
        int errnum;

        (void)execve(*file, c->argv, c->env);
        errnum = errno;
        if (errnum == ENOENT && access(*file, F_OK) == 0) {
            return (struct failure){STEP_INTERPRETER, ENOENT};
        }
        if (errnum == EACCES) {
            why.errnum = EACCES; /* like a shell: look further, but tell this in the end */
        } else if (errnum != ENOENT && errnum != ENOTDIR && errnum != ENAMETOOLONG) {
            why.errnum = errnum;
            return why;
        }
    }
    return why;
}

/* In the child. Everything else is close-on-exec. */
static struct failure become(const struct child *c)
{
    sigset_t none;
    int rc;

    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (setsid() < 0) {
        return (struct failure){STEP_SESSION, errno};
    }
    rc = limits_apply(c->spec);
    if (rc != 0) {
        return (struct failure){STEP_LIMITS, rc};
    }
    rc = ids_become_payload(c->spec->uid_mode);
    if (rc != 0) {
        return (struct failure){STEP_IDS, rc};
    }
    for (int i = 0; i < 3; i++) {
        if (c->fds[i] != i && dup2(c->fds[i], i) < 0) {
            return (struct failure){STEP_PIPES, errno};
        }
    }
    if (chdir(c->cwd) < 0) {
        return (struct failure){STEP_CWD, errno};
    }
    return exec_first(c);
}

NORETURN static void run_child(const struct child *c)
{
    struct failure why = become(c);

    (void)!write(c->report, &why, sizeof(why));
    _exit(127);
}

static int fork_failed(const struct server *s, int errnum, struct err *e)
{
    if (errnum != EAGAIN && errnum != ENOMEM) {
        return err_sys(e, errnum, "fork");
    }
    e->sys = errnum;
    if (errnum == ENOMEM) {
        err_set(e, ERR_LIMIT, "the sandbox has no memory left to start a process");
    } else if (s->spec->pids > 0) {
        err_set(e, ERR_LIMIT,
                "the sandbox has no process left (limit %u): end some of its processes, or make a "
                "sandbox with a higher limit",
                s->spec->pids);
    } else {
        err_set(e, ERR_LIMIT,
                "the sandbox has no process left: end some of its processes, or make a sandbox "
                "with a higher limit");
    }
    e->sys = errnum;
    return -1;
}

struct pipes {
    int in[2], out[2], err[2], report[2];
};

static void close_pipe(int fds[2])
{
    for (int i = 0; i < 2; i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
            fds[i] = -1;
        }
    }
}

static void pipes_close(struct pipes *p)
{
    close_pipe(p->in);
    close_pipe(p->out);
    close_pipe(p->err);
    close_pipe(p->report);
}

/* /dev/stdout and the like open the pipe again, by its inode, which is ours: it must let
 * the payload in. Nobody else can reach it. */
static int let_payload_reopen(int fd, enum uid_mode mode)
{
    return mode == UIDS_ONE || fd < 0 ? 0 : fchmod(fd, 0666);
}

static int pipes_open(struct pipes *p, bool with_input, enum uid_mode mode, struct err *e)
{
    if ((with_input && pipe2(p->in, O_CLOEXEC) < 0) || pipe2(p->out, O_CLOEXEC) < 0 ||
        pipe2(p->err, O_CLOEXEC) < 0 || pipe2(p->report, O_CLOEXEC) < 0 ||
        let_payload_reopen(p->in[0], mode) < 0 || let_payload_reopen(p->out[0], mode) < 0 ||
        let_payload_reopen(p->err[0], mode) < 0) {
        return err_sys(e, errno, "make the command's pipes");
    }
    /* Only our ends: a program may not expect EAGAIN on its own. */
    if ((with_input && fcntl(p->in[1], F_SETFL, O_NONBLOCK) < 0) ||
        fcntl(p->out[0], F_SETFL, O_NONBLOCK) < 0 || fcntl(p->err[0], F_SETFL, O_NONBLOCK) < 0 ||
        fcntl(p->report[0], F_SETFL, O_NONBLOCK) < 0) {
        return err_sys(e, errno, "make the command's pipes");
    }
    return 0;
}

static void fill_child(struct child *c, struct arena *a, const struct server *s, struct task *t,
                       const struct request *r)
{
    struct str path;

    c->spec = s->spec;
    c->argv = arena_alloc(a, r->n_argv + 1, sizeof(*c->argv));
    for (size_t i = 0; i < r->n_argv; i++) {
        c->argv[i] = arena_alloc(a, r->argv[i].len + 1, 1);
        if (r->argv[i].len > 0) {
            memcpy(c->argv[i], r->argv[i].p, r->argv[i].len);
        }
    }
    c->env = command_env(a, s->spec->env, s->spec->n_env, r->env, r->n_env);
    path = command_var(c->env, S("PATH"));
    path = path.len > 0 ? path : S(BOX_PATH);
    c->files = command_files(a, r->argv[0], path);
    c->cwd = command_path(a, r->cwd);
    t->program = arena_cstr(&t->text, str_head(r->argv[0], 120));
    t->path = arena_cstr(&t->text, str_head(path, 200));
    t->cwd = arena_cstr(&t->text, str_head(str_from(c->cwd), 200));
}

int spawn(struct server *s, struct task *t, const struct request *r, struct err *e)
{
    struct arena a own_arena = {0};
    struct pipes p = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
    struct child c = {0};
    pid_t pid;

    arena_init(&a, 64u << 20);
    fill_child(&c, &a, s, t, r);
    if (pipes_open(&p, r->with_input, s->spec->uid_mode, e) < 0) {
        pipes_close(&p);
        return -1;
    }
    c.fds[0] = r->with_input ? p.in[0] : STDIN_FILENO; /* PID 1's own is /dev/null */
    c.fds[1] = p.out[1];
    c.fds[2] = p.err[1];
    c.report = p.report[1];
    pid = spawn_fork(s);
    if (pid == 0) {
        run_child(&c);
    }
    if (pid < 0) {
        int why = errno;

        pipes_close(&p);
        return fork_failed(s, why, e);
    }
    t->pid = pid;
    t->input.fd = take_fd(&p.in[1]);
    t->output[0].fd = take_fd(&p.out[0]);
    t->output[1].fd = take_fd(&p.err[0]);
    t->start.fd = take_fd(&p.report[0]);
    pipes_close(&p);
    return 0;
}

static int cwd_failed(const struct task *t, int errnum, struct err *e)
{
    switch (errnum) {
    case ENOENT:
        return err_set(e, ERR_NOT_FOUND, "cwd \"%s\" does not exist in the sandbox", t->cwd);
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
    case ENOMEM: return fork_failed(s, errnum, e);
    default: return err_sys(e, errnum, "\"%s\"", t->program);
    }
}

static int explain(const struct server *s, const struct task *t, struct failure why, struct err *e)
{
    int rc = -1;

    switch ((enum step)why.step) {
    case STEP_SESSION: rc = err_sys(e, why.errnum, "make a session"); break;
    case STEP_LIMITS: rc = err_sys(e, why.errnum, "set the command's limits"); break;
    case STEP_IDS: rc = err_sys(e, why.errnum, "become the sandbox's user"); break;
    case STEP_PIPES: rc = err_sys(e, why.errnum, "give the command its pipes"); break;
    case STEP_CWD: rc = cwd_failed(t, why.errnum, e); break;
    case STEP_EXEC: rc = exec_failed(s, t, why.errnum, e); break;
    case STEP_INTERPRETER:
        rc = err_set(e, ERR_NOT_FOUND,
                     "\"%s\": the program that its #! line names, or its loader, is not in the "
                     "sandbox",
                     t->program);
        break;
    }
    e->sys = why.errnum;
    return rc;
}

int spawn_result(const struct server *s, struct task *t, struct err *e)
{
    struct failure why;
    ssize_t n = read(t->start.fd, &why, sizeof(why));

    if (n < 0) {
        return errno == EAGAIN || errno == EINTR ? 0 : err_sys(e, errno, "read the start");
    }
    if (n == 0) {
        return 1;
    }
    if ((size_t)n != sizeof(why)) {
        return err_set(e, ERR_BUG, "the start of the command was reported by half");
    }
    return explain(s, t, why, e);
}
