/*
 * Which way a call takes: over the host's agent where there is one, else over plain channels
 * and SFTP. Both give the same results.
 *
 * The way is chosen before anything is sent: a conversation with the agent is opened first, and
 * when that fails the other way is taken. After that a command stays where it is. When the
 * connection breaks while it runs, the agent goes on with it, and we wait a little for
 * the next connection and go on reading where we were; what cannot be found again is told as
 * a lost connection. It is never sent again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/thread.h"
#include "provider/over_agent.h"
#include "provider/ssh/ahead.h"
#include "provider/ssh/hostagent.h"
#include "provider/ssh/lanes.h"
#include "provider/ssh/own.h"
#include "provider/ssh/pump.h"
#include "provider/ssh/relay.h"
#include "provider/ssh/trees.h"

#define BACK_MS      8000 /* for a connection to come back while a command runs */
#define LONG_BYTES   (4 << 20)
#define BACK_GAP_MS  100
#define START_GAP_MS 20

/* ---- a way over the agent ------------------------------------------------------------------ */

/* One call's: what over_agent.h takes for a box. */
struct way {
    struct agent_box agent;
    struct machine *machine;
    struct chan *relay;
    bool is_foreseen; /* it may take the conversation that was begun ahead */
    int first;        /* the conversation that was opened to see whether it works; or -1 */
};

static int way_connect(struct box *b, const struct ctx *ctx, struct err *e)
{
    struct way *w = CONTAINER_OF(b, struct way, agent.box);

    (void)ctx;
    if (w->first >= 0) {
        int fd = w->first;

        w->first = -1;
        return fd;
    }
    return relay_connect(w->relay, e);
}

static int way_lane(struct box *b, unsigned i)
{
    return machine_lane(CONTAINER_OF(b, struct way, agent.box)->machine, i);
}

static void way_end(struct way *w)
{
    if (w->first >= 0) {
        (void)close(w->first);
    }
    if (w->relay != NULL) {
        chan_unref(w->relay);
    }
}

#define WAY_NONE     ((struct way){.first = -1})
#define WAY_FORESEEN ((struct way){.first = -1, .is_foreseen = true})
#define own_way      CLEANUP(way_end)

/* False: the other one it is. */
static bool way_open(struct way *w, struct box *b)
{
    struct err ignored = {0};

    w->machine = machine_of(b);
    w->relay = hostagent_take(w->machine);
    if (w->relay == NULL) {
        return false;
    }
    w->agent.box.provider = b->provider;
    w->agent.box.ref = b->ref;
    w->agent.connect = way_connect;
    atomic_init(&w->agent.box.refs, 1);
    w->first = w->is_foreseen ? ahead_take(w->machine) : -1;
    if (w->first < 0) {
        w->first = relay_connect(w->relay, &ignored);
    }
    return w->first >= 0;
}

/* A host does not end with its agent: what over_agent.h takes for the end of a box is a lost
 * connection here. */
static int way_failed(int rc, struct err *e)
{
    if (rc < 0 && (e->kind == ERR_GONE || e->kind == ERR_PROTOCOL)) {
        e->kind = ERR_UNREACHABLE;
        return err_wrap(e, "the agent on the host");
    }
    return rc;
}

/* ---- commands ------------------------------------------------------------------------------ */

/* Counts what was read, to go on from there. */
struct counted {
    const struct sink *sink;
    uint64_t bytes[2];
};

static int count_write(void *arg, enum stream from, struct str bytes, struct err *e)
{
    struct counted *c = arg;

    c->bytes[from] += bytes.len;
    return c->sink->write(c->sink->arg, from, bytes, e);
}

static void count_lost(void *arg, enum stream from, uint64_t n)
{
    struct counted *c = arg;

    c->bytes[from] += n;
    if (c->sink->lost != NULL) {
        c->sink->lost(c->sink->arg, from, n);
    }
}

/* Opens a way again, once the host has one. */
static bool way_open_again(struct way *w, struct box *b, const struct ctx *ctx)
{
    int64_t until_ms = clock_mono_ms() + BACK_MS;
    struct err e = {0};

    while (clock_mono_ms() < until_ms) {
        way_end(w);
        *w = WAY_NONE;
        if (ssh_reach(machine_of(b), ctx, &e) == 0 && way_open(w, b)) {
            return true;
        }
        if (ctx_wait(ctx, NULL, 0, clock_mono_ms() + BACK_GAP_MS, &e) < 0) {
            return false;
        }
    }
    return false;
}

/* The connection ended, as opposed to a host that says nothing. */
static bool way_is_lost(const struct way *w)
{
    struct chan_news news;

    chan_take(w->relay, NULL, &news);
    return news.state == CHAN_ENDED;
}

struct job {
    struct way *way;
    struct box *box;
    const struct ctx *ctx;
    struct exec_req req;
    int64_t due_ms; /* when its time is over; 0: never */
    struct counted counted;
};

/* Goes on with a command whose connection was lost, as often as it is. */
static int go_on(struct job *j, const struct sink *sink, struct exec_result *out, struct err *e)
{
    while (way_is_lost(j->way) && way_open_again(j->way, j->box, j->ctx)) {
        struct attach_req rest = {.id = j->req.id,
                                  .from_out = j->counted.bytes[STREAM_OUT],
                                  .from_err = j->counted.bytes[STREAM_ERR],
                                  .window_ms = j->req.window_ms,
                                  .due_ms = j->due_ms};
        struct err why = {0};
        int rc = tasks_over_agent.attach(&j->way->agent.box, j->ctx, &rest, sink, out, &why);

        if (way_failed(rc, &why) == 0) {
            return 0;
        }
        if (why.kind != ERR_NOT_FOUND) { /* then the first reason is the better one */
            *e = why;
        }
        if (why.kind != ERR_UNREACHABLE) {
            return -1;
        }
    }
    return -1;
}

static int exec_over_agent(struct job *j, const struct sink *output, struct exec_result *out,
                           struct err *e)
{
    const struct sink sink = {.write = count_write, .lost = count_lost, .arg = &j->counted};
    struct facts facts;
    char minted[33];

    if (ssh_facts(j->way->machine, j->ctx, &facts, e) < 0) {
        return -1;
    }
    j->counted.sink = output;
    if (j->req.shell == SHELL_BASH && !facts.has_bash) {
        j->req.shell = SHELL_SH;
    }
    if (j->req.id.len == 0) {
        id_hex(minted, 16);
        j->req.id = str_from(minted);
    }
    j->due_ms = j->req.timeout_ms > 0 ? clock_mono_ms() + j->req.timeout_ms : 0;
    int rc = way_failed(agent_exec(&j->way->agent.box, j->ctx, &j->req, &sink, out, e), e);
    if (rc < 0 && out->timed_out) {
        return err_set(e, ERR_UNREACHABLE,
                       "the host took the command but has not answered for %d s",
                       (int)(j->req.timeout_ms / 1000));
    }
    return rc < 0 && e->kind == ERR_UNREACHABLE && j->req.input == NULL ? go_on(j, &sink, out, e)
                                                                        : rc;
}

int ssh_exec(struct box *b, const struct ctx *ctx, const struct exec_req *req,
             const struct sink *output, struct exec_result *out, struct err *e)
{
    struct way w own_way = WAY_NONE;

    while (!way_open(&w, b)) {
        int rc = ssh_exec_plain(b, ctx, req, output, out, e);

        /* It still waited for a channel when the agent came. */
        bool is_moved = rc < 0 && e->kind == ERR_GONE && out->not_sent;
        if (!is_moved) {
            hostagent_poke(machine_of(b)); /* for the next one */
            return rc;
        }
        way_end(&w);
        w = WAY_NONE;
    }
    *out = (struct exec_result){0};
    struct job j = {.way = &w, .box = b, .ctx = ctx, .req = *req};
    return exec_over_agent(&j, output, out, e);
}

/* ---- tasks --------------------------------------------------------------------------------- */

static int no_tasks(struct box *b, struct err *e)
{
    struct err why = {0};
    enum hostagent_state state = hostagent_state(machine_of(b), &why);

    if (state != HOSTAGENT_OFF || why.kind == ERR_NONE) {
        return err_set(e, ERR_UNREACHABLE,
                       "commands that go on by themselves are looked after by the agent on the "
                       "host, which is being started; try again in a moment");
    }
    return err_set(e, ERR_UNSUPPORTED,
                   "commands that go on by themselves are looked after by the agent on the host, "
                   "and there is none: %s",
                   why.msg);
}

static int task_attach(struct box *b, const struct ctx *ctx, const struct attach_req *req,
                       const struct sink *output, struct exec_result *out, struct err *e)
{
    struct way w own_way = WAY_NONE;

    return way_open(&w, b) || way_open_again(&w, b, ctx)
               ? way_failed(tasks_over_agent.attach(&w.agent.box, ctx, req, output, out, e), e)
               : no_tasks(b, e);
}

static int task_state(struct box *b, const struct ctx *ctx, struct str id, task_state_fn *each,
                      void *arg, struct err *e)
{
    struct way w own_way = WAY_NONE;

    return way_open(&w, b)
               ? way_failed(tasks_over_agent.state(&w.agent.box, ctx, id, each, arg, e), e)
               : no_tasks(b, e);
}

static int task_kill(struct box *b, const struct ctx *ctx, struct str id, int32_t grace_ms,
                     struct err *e)
{
    struct way w own_way = WAY_NONE;

    return way_open(&w, b)
               ? way_failed(tasks_over_agent.kill(&w.agent.box, ctx, id, grace_ms, e), e)
               : no_tasks(b, e);
}

const struct task_ops ssh_tasks = {
    .attach = task_attach,
    .state = task_state,
    .kill = task_kill,
};

/* ---- files --------------------------------------------------------------------------------- */

static int file_stat(struct box *b, const struct ctx *ctx, struct str path, struct file_info *out,
                     struct err *e)
{
    struct way w own_way = WAY_NONE;

    return way_open(&w, b) ? way_failed(files_over_agent.stat(&w.agent.box, ctx, path, out, e), e)
                           : ssh_files_plain.stat(b, ctx, path, out, e);
}

static int file_list(struct box *b, const struct ctx *ctx, const struct list_req *req,
                     file_info_fn *each, void *arg, bool *more, struct err *e)
{
    struct way w own_way = WAY_NONE;

    return way_open(&w, b)
               ? way_failed(files_over_agent.list(&w.agent.box, ctx, req, each, arg, more, e), e)
               : ssh_files_plain.list(b, ctx, req, each, arg, more, e);
}

struct passed_on {
    const struct sink *to;
    bool is_begun;
};

static int pass_on(void *arg, enum stream from, struct str bytes, struct err *e)
{
    struct passed_on *p = arg;

    p->is_begun = true;
    return p->to->write(p->to->arg, from, bytes, e);
}

/* A long file has a channel of its own by SFTP: no process of ours is between the server's and
 * this one, and no other conversation. */
static bool is_long(struct way *w, const struct ctx *ctx, struct str path, int64_t max)
{
    struct file_info info;
    struct err ignored = {0};

    return max > LONG_BYTES &&
           files_over_agent.stat(&w->agent.box, ctx, path, &info, &ignored) == 0 &&
           info.size > LONG_BYTES;
}

static int file_read(struct box *b, const struct ctx *ctx, struct str path, int64_t from,
                     int64_t max, const struct sink *to, struct file_info *out, struct err *e)
{
    struct way w own_way = WAY_NONE;

    if (!way_open(&w, b)) {
        return ssh_files_plain.read(b, ctx, path, from, max, to, out, e);
    }
    if (is_long(&w, ctx, path, max)) {
        struct passed_on passed = {.to = to};
        const struct sink sink = {.write = pass_on, .arg = &passed};
        int rc = ssh_files_plain.read(b, ctx, path, from, max, &sink, out, e);

        if (rc == 0 || passed.is_begun || ctx_check(ctx, e) < 0) {
            return rc;
        }
    }
    return way_failed(files_over_agent.read(&w.agent.box, ctx, path, from, max, to, out, e), e);
}

static int file_write(struct box *b, const struct ctx *ctx, struct str path, mode_t mode,
                      enum write_flags flags, const struct source *from, struct file_info *out,
                      struct err *e)
{
    struct way w own_way = WAY_NONE;

    return way_open(&w, b)
               ? way_failed(
                     files_over_agent.write(&w.agent.box, ctx, path, mode, flags, from, out, e), e)
               : ssh_files_plain.write(b, ctx, path, mode, flags, from, out, e);
}

static int file_mkdir(struct box *b, const struct ctx *ctx, struct str path, struct err *e)
{
    struct way w own_way = WAY_NONE;

    return way_open(&w, b) ? way_failed(files_over_agent.mkdir(&w.agent.box, ctx, path, e), e)
                           : ssh_files_plain.mkdir(b, ctx, path, e);
}

static int file_remove(struct box *b, const struct ctx *ctx, struct str path, struct err *e)
{
    struct way w own_way = WAY_NONE;

    return way_open(&w, b) ? way_failed(files_over_agent.remove(&w.agent.box, ctx, path, e), e)
                           : ssh_files_plain.remove(b, ctx, path, e);
}

const struct file_ops ssh_files = {
    .stat = file_stat,
    .list = file_list,
    .read = file_read,
    .write = file_write,
    .mkdir = file_mkdir,
    .remove = file_remove,
};

/* ---- trees --------------------------------------------------------------------------------- */

/* A folder is worth some waiting for an agent that is just being started. */
static bool way_open_patiently(struct way *w, struct box *b, const struct ctx *ctx)
{
    struct machine *m = machine_of(b);
    int64_t until_ms = clock_mono_ms() + BACK_MS;
    struct err e = {0};
    bool is_open = way_open(w, b) || (ssh_reach(m, ctx, &e) == 0 && way_open(w, b));

    while (!is_open && clock_mono_ms() < until_ms) {
        struct err why = {0};

        if (hostagent_state(m, &why) == HOSTAGENT_OFF && why.kind != ERR_NONE) {
            break;
        }
        way_end(w);
        *w = w->is_foreseen ? WAY_FORESEEN : WAY_NONE;
        if (ctx_wait(ctx, NULL, 0, clock_mono_ms() + START_GAP_MS, &e) < 0) {
            break;
        }
        is_open = way_open(w, b);
    }
    w->agent.slow = true;
    w->agent.lane = is_open && machine_has_lanes(m) ? way_lane : NULL;
    return is_open;
}

static int tree_list(struct box *b, const struct ctx *ctx, const struct tree_req *req,
                     tree_entry_fn *each, void *arg, struct tree_facts *out, struct err *e)
{
    struct way w own_way = WAY_NONE;

    if (!way_open_patiently(&w, b, ctx)) {
        return ssh_tree_list(b, ctx, req, each, arg, out, e);
    }
    ahead_begin(w.machine, w.relay);
    return way_failed(trees_over_agent.list(&w.agent.box, ctx, req, each, arg, out, e), e);
}

static int tree_put(struct box *b, const struct ctx *ctx, struct str root,
                    const struct tree_source *from, struct put_result *out, struct err *e)
{
    struct way w own_way = WAY_FORESEEN;

    if (!way_open_patiently(&w, b, ctx)) {
        return ssh_tree_put(b, ctx, root, from, out, e);
    }
    if (from->share == TREE_FOLDERS) {
        ahead_begin(w.machine, w.relay);
    }
    return way_failed(trees_over_agent.put(&w.agent.box, ctx, root, from, out, e), e);
}

static bool tree_splits(struct box *b, uint64_t bytes)
{
    return machine_splits(machine_of(b), bytes);
}

static int tree_get(struct box *b, const struct ctx *ctx, struct str root, const struct str *paths,
                    size_t n, const struct tree_sink *to, struct err *e)
{
    struct way w own_way = WAY_NONE;

    return way_open_patiently(&w, b, ctx)
               ? way_failed(trees_over_agent.get(&w.agent.box, ctx, root, paths, n, to, e), e)
               : ssh_tree_get(b, ctx, root, paths, n, to, e);
}

static int tree_remove(struct box *b, const struct ctx *ctx, struct str root,
                       const struct str *paths, size_t n, struct prune_result *out, struct err *e)
{
    struct way w own_way = WAY_NONE;

    return way_open_patiently(&w, b, ctx)
               ? way_failed(trees_over_agent.prune(&w.agent.box, ctx, root, paths, n, out, e), e)
               : ssh_tree_prune(b, ctx, root, paths, n, out, e);
}

const struct tree_ops ssh_trees = {
    .list = tree_list,
    .put = tree_put,
    .splits = tree_splits,
    .get = tree_get,
    .prune = tree_remove,
};

/* ---- ports --------------------------------------------------------------------------------- */

/* By a channel of its own, which no server counts among its sessions, or over the agent where
 * the server lets nobody through. What listens may do so on either family's address, and not
 * every host's "localhost" means both. */
static int port_dial(struct box *b, const struct ctx *ctx, uint16_t port, struct err *e)
{
    struct way w own_way = WAY_NONE;

    if (port == 0) {
        return err_set(e, ERR_INVALID, "a port is a number from 1 to 65535");
    }
    int fd = pump_dial(machine_of(b), ctx, S("127.0.0.1"), port, e);
    if (fd < 0 && e->kind == ERR_NOT_FOUND) {
        fd = pump_dial(machine_of(b), ctx, S("::1"), port, e);
    }
    if (fd >= 0 || e->sys != EACCES) {
        return fd;
    }
    return way_open_patiently(&w, b, ctx)
               ? way_failed(ports_over_agent.dial(&w.agent.box, ctx, port, e), e)
               : err_set(e, ERR_DENIED,
                         "the server lets nobody through to its ports (AllowTcpForwarding in its "
                         "sshd_config), and there is no agent on the host that could");
}

/* Over the agent or not at all: who asks has another way. */
static int unix_dial(struct box *b, const struct ctx *ctx, struct str path, struct err *e)
{
    struct way w own_way = WAY_NONE;

    return way_open(&w, b) ? way_failed(ports_over_agent.dial_unix(&w.agent.box, ctx, path, e), e)
                           : err_set(e, ERR_UNSUPPORTED,
                                     "sockets are reached by the agent on the host, which "
                                     "is not there");
}

const struct port_ops ssh_ports = {.dial = port_dial, .dial_unix = unix_dial};
