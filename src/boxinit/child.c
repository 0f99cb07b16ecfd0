/* child.c - between fork and exec. */
#include "boxinit/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "boxinit/ids.h"
#include "boxinit/limits.h"

/* ---- pipes ----------------------------------------------------------------- */

static void close_pipe(int fds[2])
{
    for (int i = 0; i < 2; i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
            fds[i] = -1;
        }
    }
}

void child_pipes_close(struct child_pipes *p)
{
    close_pipe(p->in);
    close_pipe(p->out);
    close_pipe(p->err);
    close_pipe(p->report);
}

/* /dev/stdout and the like open the pipe again, by its inode, which is ours: it must let
 * the payload in. Nobody else can reach it. */
static int let_payload_reopen(int fd, const struct spec *spec)
{
    return spec_shares_uid(spec) || fd < 0 ? 0 : fchmod(fd, 0666);
}

int child_report_open(int report[2], struct err *e)
{
    if (pipe2(report, O_CLOEXEC) < 0 || fcntl(report[0], F_SETFL, O_NONBLOCK) < 0) {
        return err_sys(e, errno, "make the command's pipes");
    }
    return 0;
}

int child_pipes_open(struct child_pipes *p, bool with_input, const struct spec *spec, struct err *e)
{
    if ((with_input && pipe2(p->in, O_CLOEXEC) < 0) || pipe2(p->out, O_CLOEXEC) < 0 ||
        pipe2(p->err, O_CLOEXEC) < 0 || let_payload_reopen(p->in[0], spec) < 0 ||
        let_payload_reopen(p->out[0], spec) < 0 || let_payload_reopen(p->err[0], spec) < 0) {
        return err_sys(e, errno, "make the command's pipes");
    }
    /* Only our ends: a program may not expect EAGAIN on its own. */
    if ((with_input && fcntl(p->in[1], F_SETFL, O_NONBLOCK) < 0) ||
        fcntl(p->out[0], F_SETFL, O_NONBLOCK) < 0 || fcntl(p->err[0], F_SETFL, O_NONBLOCK) < 0) {
        return err_sys(e, errno, "make the command's pipes");
    }
    return child_report_open(p->report, e);
}

/* ---- becoming the command -------------------------------------------------- */

struct child_failure child_become(const struct spec *spec)
{
    sigset_t none;
    int rc;

    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (setsid() < 0) {
        return (struct child_failure){STEP_SESSION, errno};
    }
    rc = limits_apply(spec);
    if (rc != 0) {
        return (struct child_failure){STEP_LIMITS, rc};
    }
    return (struct child_failure){STEP_IDS, ids_become_payload(spec)};
}

/* Returns only when nothing could be run. */
static struct child_failure exec_first(const struct child_order *o)
{
    struct child_failure why = {STEP_EXEC, ENOENT};

    for (const char *const *file = o->files; *file != NULL; file++) {
        int errnum;

        (void)execve(*file, o->argv, o->env);
        errnum = errno;
        if (errnum == ENOENT && access(*file, F_OK) == 0) {
            return (struct child_failure){STEP_INTERPRETER, ENOENT};
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

static void say(const struct child_pipes *p, struct child_failure what)
{
    (void)!write(p->report[1], &what, sizeof(what));
}

void child_give_up(const struct child_pipes *p, struct child_failure why)
{
    say(p, why);
    _exit(127);
}

void child_run(const struct child_order *order, const struct child_pipes *p)
{
    /* PID 1's own stdin is /dev/null, and we have inherited it. */
    if ((order->with_input && dup2(p->in[0], STDIN_FILENO) < 0) ||
        dup2(p->out[1], STDOUT_FILENO) < 0 || dup2(p->err[1], STDERR_FILENO) < 0) {
        child_give_up(p, (struct child_failure){STEP_PIPES, errno});
    }
    if (chdir(order->cwd) < 0) {
        child_give_up(p, (struct child_failure){STEP_CWD, errno});
    }
    say(p, (struct child_failure){STEP_READY, 0});
    child_give_up(p, exec_first(order)); /* everything else is close-on-exec */
}

/* ---- orders as bytes ------------------------------------------------------- */

/* Each text with its terminator; an empty line would do for the end of a list, but an
 * argument may be empty: every text has a letter in front, every list ends with '.'. */
static void put_text(struct buf *to, const char *s)
{
    buf_addc(to, '=');
    buf_add(to, (struct str){s, strlen(s) + 1});
}

static void put_list(struct buf *to, const char *const *items)
{
    for (; *items != NULL; items++) {
        put_text(to, *items);
    }
    buf_addc(to, '.');
}

void child_put_order(struct buf *to, const struct child_order *order)
{
    buf_addc(to, order->with_input ? 'i' : 'n');
    put_text(to, order->cwd);
    put_list(to, order->files);
    put_list(to, (const char *const *)order->argv);
    put_list(to, (const char *const *)order->env);
}

/* A copy of the next text, or NULL at the end of a list. */
static char *get_text(struct str *rest, bool *bad)
{
    struct str text;
    struct str after;

    if (rest->len == 0 || rest->p[0] != '=') {
        *bad |= rest->len == 0 || rest->p[0] != '.';
        *rest = str_skip(*rest, 1);
        return NULL;
    }
    text = str_cut(str_skip(*rest, 1), '\0', &after);
    *bad |= after.p == NULL;
    *rest = after;
    return *bad ? NULL : xmemdup(text.p, text.len);
}

static char **get_list(struct str *rest, bool *bad)
{
    char **items = NULL;
    size_t n = 0;
    size_t cap = 0;

    do {
        if (n == cap) {
            cap = cap > 0 ? cap * 2 : 64;
            items = xrealloc(items, cap, sizeof(*items));
        }
        items[n] = get_text(rest, bad);
    } while (items[n++] != NULL);
    return items;
}

bool child_get_order(struct str bytes, struct child_order *out)
{
    bool bad = bytes.len == 0;

    if (bad) {
        return false;
    }
    out->with_input = bytes.p[0] == 'i';
    bytes = str_skip(bytes, 1);
    out->cwd = get_text(&bytes, &bad);
    out->files = (const char *const *)get_list(&bytes, &bad);
    out->argv = get_list(&bytes, &bad);
    out->env = get_list(&bytes, &bad);
    return !bad && out->cwd != NULL && bytes.len == 0;
}

void child_run_bytes(struct str bytes, const struct child_pipes *p)
{
    struct child_order order;

    if (!child_get_order(bytes, &order)) {
        child_give_up(p, (struct child_failure){STEP_ORDER, EPROTO});
    }
    child_run(&order, p);
}
