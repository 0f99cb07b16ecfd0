/*
 * spare.c - a process that was forked before it is needed.
 *
 * To fork costs a fifth of a short command. So when a command has started, PID 1 forks
 * the process of the next one, a moment after all that is to be answered was sent. The spare
 * becomes the payload, closes what is not its own and waits for an order in a pipe.
 *
 * It is an ordinary process of the payload's then: any other may stop or end it. A
 * stopped one is continued before it gets its order; one that has ended is noticed when
 * the order cannot be written, and the command is forked as if there had been none. An
 * order that does not fit the pipe is not given to it either.
 *
 * One that was killed and has not yet closed its pipe still gets its order, and the kernel
 * may even read it on its behalf. So nobody asks the pipe: a spare says that it is about to
 * exec, and from one that ends without that word the command is taken back and given to a
 * process that is forked for it (spawn.c). For that PID 1 keeps the order and the command's
 * ends of the pipes until the command has started.
 */
#include "boxinit/spare.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/own.h"
#include "boxinit/fds.h"
#include "boxinit/process.h"
#include "boxinit/server.h"

#define ORDER_MAX (32u << 10)          /* a pipe holds 64 KiB, or 8 for who has many */
#define DELAY_MS  3                    /* let who got the answer have the processor first */
#define KEEP_MS   ((int64_t)60 * 1000) /* a box that rests has no spare */

static void close_one(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

static void forget(struct server *s)
{
    child_pipes_close(&s->spare.pipes);
    close_one(&s->spare.order);
    s->spare.pid = 0;
}

void spare_ended(struct server *s)
{
    forget(s);
}

static void let_go(struct server *s)
{
    (void)kill(s->spare.pid, SIGKILL); /* reaped as any other */
    forget(s);
}

/* False: the order is not the spare's. */
static bool tell(struct server *s, const struct buf *bytes)
{
    if (bytes->cut) {
        return false; /* it stays for a shorter one */
    }
    (void)kill(s->spare.pid, SIGCONT);
    if (write(s->spare.order, bytes->p, bytes->len) != (ssize_t)bytes->len) {
        let_go(s);
        return false;
    }
    return true;
}

pid_t spare_use(struct server *s, const struct child_order *order, struct child_pipes *p,
                struct buf *told)
{
    pid_t pid = s->spare.pid;

    if (pid == 0) {
        return 0;
    }
    buf_init(told, ORDER_MAX);
    child_put_order(told, order);
    if (!tell(s, told)) {
        buf_fini(told);
        return 0;
    }
    *p = s->spare.pipes;
    s->spare.pipes = (struct child_pipes)CHILD_NO_PIPES;
    forget(s);
    if (!order->with_input) {
        close_one(&p->in[0]);
        close_one(&p->in[1]);
    }
    return pid;
}

/* The order ends with its pipe: PID 1 closes it behind the last byte. */
static struct str read_order(int fd, char *to, size_t cap)
{
    size_t len = 0;

    while (len < cap) {
        ssize_t n = read(fd, to + len, cap - len);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            break;
        }
        len += (size_t)n;
    }
    return (struct str){to, len};
}

NORETURN static void wait_and_run(const struct spec *spec, struct child_pipes *p, int from)
{
    int keep[] = {p->in[0], p->out[1], p->err[1], p->report[1], from};
    char bytes[ORDER_MAX];
    struct child_failure why;
    struct str said;
    struct err ignored;

    if (fds_close_others(keep, COUNTOF(keep), &ignored) < 0) {
        _exit(127);
    }
    why = child_become(spec);
    said = read_order(from, bytes, sizeof(bytes));
    if (said.len == 0) {
        _exit(0); /* let go */
    }
    if (why.errnum != 0) {
        child_give_up(p, why);
    }
    child_run_bytes(said, p);
}

/* Failing is fine: commands are forked without it. */
static void make_one(struct server *s, int64_t now)
{
    struct child_pipes p = CHILD_NO_PIPES;
    int order[2] = {-1, -1};
    struct err ignored;
    pid_t pid = -1;

    if (child_pipes_open(&p, true, s->spec, &ignored) == 0 && pipe2(order, O_CLOEXEC) == 0 &&
        fcntl(order[1], F_SETFL, O_NONBLOCK) == 0) {
        pid = spawn_fork(s);
        if (pid == 0) {
            wait_and_run(s->spec, &p, order[0]);
        }
    }
    close_one(&order[0]);
    if (pid < 0) {
        close_one(&order[1]);
        child_pipes_close(&p);
        return;
    }
    close_one(&p.report[1]);
    s->spare.pid = pid;
    s->spare.order = order[1];
    s->spare.pipes = p;
    s->spare.made_ms = now;
}

void spare_turn(struct server *s, int64_t now)
{
    struct spare *spare = &s->spare;

    if (spare->wanted) {
        spare->wanted = false;
        spare->due_ms = now + DELAY_MS;
    }
    if (spare->pid != 0 && now - spare->made_ms >= KEEP_MS) {
        let_go(s);
        process_give_back();
    }
    if (spare->due_ms > 0 && now >= spare->due_ms) {
        spare->due_ms = 0;
        if (spare->pid == 0) {
            make_one(s, now);
        }
    }
}

int64_t spare_next_ms(const struct server *s)
{
    if (s->spare.due_ms > 0) {
        return s->spare.due_ms;
    }
    return s->spare.pid != 0 ? s->spare.made_ms + KEEP_MS : 0;
}
