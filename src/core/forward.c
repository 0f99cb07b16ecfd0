#include "core/forward.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/duplex.h"
#include "base/list.h"
#include "base/own.h"
#include "base/thread.h"
#include "provider/provider.h"

#define BACKLOG      64
#define LOOK_MS      2000 /* between looks whether the box is still there */
#define DIAL_MS      20000
#define ARENA_MAX    (8u << 20)
#define LOOK_ARENA   (1u << 20)
#define NO_SOCKET_MS 100 /* to wait when there is no descriptor left */

struct forwards {
    pthread_mutex_t lock; /* guards the list */
    struct list all;      /* struct forward.link */
    unsigned n;
    struct pool *pool;
};

struct forward {
    struct list link;
    struct forwards *all;
    struct box *box;
    char id[80];
    uint16_t port, local;
    forward_problem_fn *problem;
    void *arg;
    int listener;
    struct cancel cancel; /* ends everything of it */
    struct cancel ended;  /* it ended by itself, and .why says why */
    int left;             /* eventfd: a connection has ended */
    pthread_t thread;
    pthread_mutex_t lock;
    unsigned n_conns; /* guarded by lock */
    struct err why;   /* guarded by lock; ERR_NONE: it goes on */
};

/* One connection. */
struct passage {
    struct forward *forward;
    int client;
};

/* ---- its end --------------------------------------------------------------- */

static void end_forward(struct forward *f, const struct err *why)
{
    lock(&f->lock);
    if (f->why.kind == ERR_NONE) {
        f->why = *why;
    }
    unlock(&f->lock);
    cancel_fire(&f->ended);
    cancel_fire(&f->cancel);
}

void forwards_box_ended(void *arg, struct str id, struct str why)
{
    struct forwards *all = arg;
    struct list *pos;
    struct err e;

    (void)err_set(&e, ERR_GONE, "the sandbox is gone: %.*s", STR_ARG(str_head(why, 300)));
    LOCKED(&all->lock);
    list_each (pos, &all->all) {
        struct forward *f = list_entry(pos, struct forward, link);

        if (str_eq(str_from(f->id), id)) {
            end_forward(f, &e);
        }
    }
}

/* Whether the provider knows that the box has ended. A host is never asked: it has no end,
 * and would have to be reached for that. */
static void look_after_box(struct forward *f)
{
    struct arena a own_arena = {0};
    struct ctx ctx = {.arena = &a, .cancel = &f->cancel, .deadline_ms = clock_mono_ms() + DIAL_MS};
    struct box_info info;
    struct err e;

    if (f->box->provider->ops->factory == NULL) {
        return;
    }
    arena_init(&a, LOOK_ARENA);
    if (box_info(f->box, &ctx, &info, &e) < 0) {
        if (e.kind == ERR_GONE) {
            end_forward(f, &e);
        }
        return;
    }
    if (info.state == BOX_GONE) {
        (void)err_set(&e, ERR_GONE, "the sandbox is gone%s%.*s", info.ended.len > 0 ? ": " : "",
                      STR_ARG(str_head(info.ended, 300)));
        end_forward(f, &e);
    }
}

/* ---- connections ----------------------------------------------------------- */

/* The client sees a connection that was reset, and no empty answer. */
static void reset_client(int *fd)
{
    struct linger at_once = {.l_onoff = 1};

    (void)setsockopt(*fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    (void)close(take_fd(fd));
}

static void move_bytes(const struct ctx *ctx, int client, int port)
{
    struct pollfd fds[2];
    struct duplex d;
    struct err e;

    duplex_init(&d, client, port);
    while (duplex_wants(&d, fds)) {
        int wait = duplex_wait_ms(&d);

        if (ctx_wait(ctx, fds, 2, wait < 0 ? 0 : clock_mono_ms() + wait, &e) <= 0) {
            break;
        }
        (void)duplex_move(&d, fds);
    }
    duplex_fini(&d);
}

static void pass(struct forward *f, int given)
{
    struct arena a own_arena = {0};
    struct ctx ctx = {.arena = &a, .cancel = &f->cancel, .deadline_ms = clock_mono_ms() + DIAL_MS};
    int client own_fd = given;
    struct err e;

    arena_init(&a, ARENA_MAX);
    int port own_fd = box_port_dial(f->box, &ctx, f->port, &e);
    if (port < 0) {
        if (e.kind == ERR_GONE) {
            end_forward(f, &e);
        } else if (e.kind != ERR_CANCELLED && f->problem != NULL) {
            f->problem(f->arg, &e);
        }
        reset_client(&client);
        return;
    }
    ctx.deadline_ms = 0;
    move_bytes(&ctx, client, port);
}

static void count_conn(struct forward *f, int more)
{
    LOCKED(&f->lock);
    f->n_conns = (unsigned)((int)f->n_conns + more);
}

static unsigned conns_now(struct forward *f)
{
    LOCKED(&f->lock);
    return f->n_conns;
}

static void run_passage(void *arg)
{
    struct passage *p = arg;
    struct forward *f = p->forward;
    uint64_t one = 1;

    pass(f, p->client);
    free(p);
    /* Under the lock: who waits for us sees the count only when we are done with it. */
    LOCKED(&f->lock);
    f->n_conns--;
    (void)!write(f->left, &one, sizeof(one));
}

static void start_passage(struct forward *f, int given)
{
    int client own_fd = given;
    int on = 1;
    struct passage *p;
    struct err e;

    if (conns_now(f) >= FORWARD_CONNS) {
        (void)err_set(&e, ERR_LIMIT, "%d connections are open, which is the most; one was refused",
                      FORWARD_CONNS);
        if (f->problem != NULL) {
            f->problem(f->arg, &e);
        }
        reset_client(&client);
        return;
    }
    (void)setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    p = xcalloc(1, sizeof(*p));
    *p = (struct passage){.forward = f, .client = client};
    count_conn(f, 1);
    if (pool_run(f->all->pool, run_passage, p, &e) < 0) {
        count_conn(f, -1);
        free(p);
        reset_client(&client);
        return;
    }
    (void)take_fd(&client);
}

/* ---- the thread ------------------------------------------------------------ */

static void accept_all(struct forward *f)
{
    for (;;) {
        int fd = accept4(f->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0) {
            const struct ctx ctx = {.cancel = &f->cancel};
            struct err ignored;

            if (errno == EMFILE || errno == ENFILE) {
                (void)!ctx_wait(&ctx, NULL, 0, clock_mono_ms() + NO_SOCKET_MS, &ignored);
            }
            return;
        }
        start_passage(f, fd);
    }
}

static void wait_for_conns(struct forward *f)
{
    const struct ctx ctx = {0};
    struct err ignored;

    while (conns_now(f) > 0) {
        struct pollfd left = {.fd = f->left, .events = POLLIN};
        uint64_t times;

        (void)!ctx_wait(&ctx, &left, 1, 0, &ignored);
        (void)!read(f->left, &times, sizeof(times));
    }
}

static void *run_forward(void *arg)
{
    struct forward *f = arg;
    const struct ctx ctx = {.cancel = &f->cancel};
    int64_t look_ms = clock_mono_ms() + LOOK_MS;
    struct err e;

    for (;;) {
        struct pollfd ready = {.fd = f->listener, .events = POLLIN};

        if (ctx_wait(&ctx, &ready, 1, look_ms, &e) < 0) {
            break;
        }
        if (ready.revents != 0) {
            accept_all(f);
        }
        if (clock_mono_ms() >= look_ms) {
            look_after_box(f);
            look_ms = clock_mono_ms() + LOOK_MS;
        }
    }
    (void)close(take_fd(&f->listener)); /* nobody can connect while the rest ends */
    wait_for_conns(f);
    return NULL;
}

/* ---- opening and closing --------------------------------------------------- */

static int listen_here(uint16_t *port, struct err *e)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(*port)};
    socklen_t len = sizeof(at);
    int on = 1;
    int fd own_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0) {
        return err_sys(e, errno, "make a socket");
    }
    if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, BACKLOG) < 0) {
        if (errno == EADDRINUSE) {
            return err_set(e, ERR_EXISTS,
                           "port %u of this machine is taken; name another one, or "
                           "0 for any",
                           *port);
        }
        if (errno == EACCES) {
            return err_set(e, ERR_DENIED,
                           "port %u of this machine is for root; name one from 1024 "
                           "on, or 0 for any",
                           *port);
        }
        return err_sys(e, errno, "listen on port %u of this machine", *port);
    }
    if (getsockname(fd, (struct sockaddr *)&at, &len) < 0) {
        return err_sys(e, errno, "ask which port it is");
    }
    *port = ntohs(at.sin_port);
    return take_fd(&fd);
}

static void free_forward(struct forward *f)
{
    if (f->listener >= 0) {
        (void)close(f->listener);
    }
    if (f->left >= 0) {
        (void)close(f->left);
    }
    cancel_fini(&f->cancel);
    cancel_fini(&f->ended);
    (void)pthread_mutex_destroy(&f->lock);
    box_unref(f->box);
    free(f);
}

static struct forward *new_forward(struct forwards *all, const struct forward_req *req)
{
    struct forward *f = xcalloc(1, sizeof(*f));
    size_t len = req->id.len < sizeof(f->id) ? req->id.len : sizeof(f->id) - 1;

    f->all = all;
    f->box = box_ref(req->box);
    memcpy(f->id, req->id.p != NULL ? req->id.p : "", len);
    f->port = req->port;
    f->local = req->local;
    f->problem = req->problem;
    f->arg = req->arg;
    f->listener = f->left = f->cancel.fd = f->ended.fd = -1;
    list_init(&f->link);
    (void)pthread_mutex_init(&f->lock, NULL);
    return f;
}

static int start(struct forward *f, struct err *e)
{
    f->listener = listen_here(&f->local, e);
    if (f->listener < 0 || cancel_init(&f->cancel, e) < 0 || cancel_init(&f->ended, e) < 0) {
        return -1;
    }
    f->left = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (f->left < 0) {
        return err_sys(e, errno, "make an event");
    }
    return thread_start(&f->thread, "forward", run_forward, f, e);
}

/* A place among those of the process. */
static int take_place(struct forwards *all, struct err *e)
{
    LOCKED(&all->lock);
    if (all->n >= FORWARDS_MAX) {
        return err_set(e, ERR_LIMIT, "%d ports are forwarded, which is the most; close one",
                       FORWARDS_MAX);
    }
    all->n++;
    return 0;
}

struct forward *forward_open(struct forwards *all, const struct forward_req *req, struct err *e)
{
    struct forward *f;

    if (req->port == 0) {
        (void)err_set(e, ERR_INVALID, "0 is no port of a sandbox; 1 to 65535 are accepted");
        return NULL;
    }
    if (req->box->provider->ops->ports == NULL) {
        (void)err_set(e, ERR_UNSUPPORTED, "there is no way to ports of %.*s sandboxes",
                      STR_ARG(req->box->provider->name));
        return NULL;
    }
    if (take_place(all, e) < 0) {
        return NULL;
    }
    f = new_forward(all, req);
    if (start(f, e) < 0) {
        lock(&all->lock);
        all->n--;
        unlock(&all->lock);
        free_forward(f);
        return NULL;
    }
    lock(&all->lock);
    list_add_tail(&all->all, &f->link);
    unlock(&all->lock);
    return f;
}

void forward_close(struct forward *f)
{
    struct forwards *all = f->all;

    lock(&all->lock);
    list_del(&f->link);
    all->n--;
    unlock(&all->lock);
    cancel_fire(&f->cancel);
    (void)pthread_join(f->thread, NULL);
    free_forward(f);
}

uint16_t forward_local(const struct forward *f)
{
    return f->local;
}

int forward_wait(struct forward *f, const struct ctx *ctx, struct err *e)
{
    struct pollfd ended = {.fd = f->ended.fd, .events = POLLIN};

    if (ctx_wait(ctx, &ended, 1, 0, e) < 0) {
        return -1;
    }
    LOCKED(&f->lock);
    *e = f->why;
    return -1;
}

struct forwards *forwards_new(void)
{
    struct forwards *all = xcalloc(1, sizeof(*all));

    (void)pthread_mutex_init(&all->lock, NULL);
    list_init(&all->all);
    all->pool = pool_new("forwarded", FORWARDED_MAX);
    return all;
}

void forwards_free(struct forwards *all)
{
    if (all == NULL) {
        return;
    }
    while (!list_empty(&all->all)) {
        forward_close(list_entry(all->all.next, struct forward, link));
    }
    pool_free(all->pool);
    (void)pthread_mutex_destroy(&all->lock);
    free(all);
}
