/*
 * server.h - PID 1 of a box: its loop, its connections, its commands. The agent that has no
 * box of its own (agent.h) is the same with another spec.
 *
 * One thread, one epoll. Everything that waits is a `struct watch` inside the thing it
 * belongs to; handlers never free that thing but mark it dead, and the end of the turn
 * sweeps, so that events of the same turn cannot hit freed memory.
 */
#ifndef BOXINIT_SERVER_H
#define BOXINIT_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/proto.h"
#include "agent/request.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/capture.h"
#include "base/list.h"
#include "boxinit/spare.h"
#include "boxinit/spec.h"

#define CONNS_MAX      (TASKS_MAX + 64) /* to kill what runs must always be possible */
#define WORKERS_MAX    32               /* for files */
#define TCP_MAX        64               /* connections to ports and sockets */
#define DRAINS_MAX     32               /* pipes of ended commands that are still read */
#define INPUT_MAX      (1u << 20)       /* of stdin, waiting for the command to read it */
#define BACKLOG_MAX    (512u << 10)     /* not yet sent to the attached client: stop reading */
#define OUT_HIGH       (256u << 10)     /* in a connection's buffer: add no more data */
#define OUT_MAX        (1u << 20)
#define CONN_IDLE_MS   60000 /* a connection that neither asks nor is attached */
#define ACCEPTS_A_TURN 16    /* others have their turn then */
#define REAPS_A_TURN   256

struct server;

struct watch {
    int fd; /* -1: closed */
    uint32_t events;
    void (*ready)(struct server *s, struct watch *w, uint32_t events);
};

/* Descriptors that PID 1 was born with. -1: none. */
struct box_fds {
    int listener, end, oom, memory, pids, keep;
    int net;     /* end of a pipe: the network lives as long as it is open */
    int oom_adj; /* its own oom_score_adj, for writing */
};

#define BOX_NO_FDS                                                                                 \
    {                                                                                              \
        -1, -1, -1, -1, -1, -1, -1, -1                                                             \
    }

/* How a command ended. */
struct ending {
    uint8_t how; /* END_* */
    uint32_t code;
    bool timed_out;
    uint8_t oom;    /* OOM_* */
    uint8_t limits; /* LIMITED_* */
    uint64_t wall_ms;
};

/* How often the box's limits were reached so far. */
struct limit_counts {
    uint64_t oom_kills;
    uint64_t memory; /* the same, and allocations that failed */
    uint64_t pids;
};

struct proc_id {
    pid_t pid;
    unsigned long long start; /* with it a reused pid is told apart */
};

/* Killing takes time: TERM, a grace, KILL until nothing is left. */
enum kill_phase {
    KILL_NONE,
    KILL_ASKED, /* TERM was sent */
    KILL_FORCED,
};

struct task {
    struct list link; /* server.tasks */
    char id[ID_MAX + 1];
    pid_t pid;
    bool started, reaped, finished, dead, input_ended;
    bool keep;               /* EXEC_KEEP, see keep.h */
    bool is_delivered;       /* somebody was told of the end */
    struct watch start;      /* tells that exec succeeded, or why it did not */
    bool is_ready;           /* that exec was next was told there */
    struct buf order;        /* what a spare was told; empty once it has started */
    struct child_pipes ends; /* the command's, for as long */
    struct watch output[2];  /* read ends of stdout and stderr */
    struct watch input;      /* write end of stdin */
    struct buf waiting;      /* for stdin */
    struct capture spool[2];
    struct conn *client;
    int64_t started_ms, started_wall_ms, finished_ms;
    int64_t deadline_ms;        /* 0: none */
    struct limit_counts before; /* when it started */
    uint32_t grace_ms;
    enum kill_phase kill;
    int64_t kill_since_ms, kill_next_ms, kill_force_ms;
    struct proc_id *seen; /* every process that was in its tree when we looked */
    size_t n_seen;
    int wait_status;
    struct ending ending;
    struct {
        uint64_t at[2];      /* offset behind the last byte that was written, or given up */
        uint64_t lost[2];    /* bytes that were given up */
        uint64_t look_at[2]; /* total of the stream when the disk is looked at again */
        int dir, fd[2];
        bool is_begun, is_told;
        bool is_tight; /* there was little room at that look */
    } kept;
    const char *program, *cwd, *path, *head; /* for messages; in .text */
    struct arena text;
};

struct conn {
    struct list link; /* server.conns */
    struct watch watch;
    struct buf in, out;
    size_t sent;       /* of out */
    struct task *task; /* attached to it */
    uint64_t at[2];    /* next byte of each stream to send */
    bool told_start, told_end;
    bool closing; /* when out is sent */
    bool dead;
    int64_t heard_ms;
};

/* A pipe whose command has ended but that a leftover process still holds. */
struct drain {
    struct list link; /* server.drains, oldest first */
    struct watch watch;
    bool dead;
};

struct server {
    const struct spec *spec;
    struct box_fds fds;
    int epoll;
    int reserve; /* a descriptor for the moment when there is none left */
    struct watch listener, child, life;
    struct list conns, tasks, drains;
    unsigned n_conns, n_running, n_drains;
    pid_t workers[WORKERS_MAX + TCP_MAX]; /* 0: free; those for files first */
    struct spare spare;
    int64_t used_ms;                /* last request or end of a command */
    int64_t asked_before_ms;        /* used_ms before the request that is being answered */
    _Atomic int64_t *files_used_ms; /* the same by the workers; shared memory, NULL: none yet */
    int64_t idle_ms;
    int64_t ends_boot_ms; /* 0: no hard end */
    int oom_adj_own, oom_adj_payload;
    const char *end; /* why the loop must stop */
    bool shutdown_asked;
    bool reap_more;        /* more ended children than one turn takes */
    bool has_disk_reserve; /* see keep.h */
};

/* serve.c */
int server_prepare(struct server *s, const struct spec *spec, const struct box_fds *fds,
                   struct err *e) MUST_CHECK;
void server_run(struct server *s); /* until the box must end; the reason is in END_FILE then */
int64_t server_now(void);
/* How long nothing was asked and nothing ran, if the last request came at used_ms. */
int64_t server_idle_ms(const struct server *s, int64_t used_ms);
/* Whether a wait that was to take `wait` ms (-1: any time) says that we could not run. */
bool server_was_stopped(int wait, int64_t slept_ms);

/* watch.c */
int watch_open(struct server *s, struct watch *w, int fd, uint32_t events,
               void (*ready)(struct server *, struct watch *, uint32_t), struct err *e) MUST_CHECK;
void watch_want(struct server *s, struct watch *w, uint32_t events);
void watch_close(struct server *s, struct watch *w);

/* conn.c */
void conns_accept(struct server *s, struct watch *w, uint32_t events);
void conn_fail(struct conn *c, const struct err *why);
void conn_ok(struct conn *c, uint8_t more);
void conns_turn(struct server *s, int64_t now); /* send, sweep */

/* ask.c: one request, answered or handed on */
void ask(struct server *s, struct conn *c, const struct request *r);

/* task.c: start, streams, clients */
struct task *task_find(struct server *s, struct str id);
void task_exec(struct server *s, struct conn *c, const struct request *r);
void task_attach(struct server *s, struct conn *c, struct task *t, uint64_t from_out,
                 uint64_t from_err);
void task_detach(struct server *s, struct conn *c);
void task_input(struct server *s, struct task *t, struct str bytes);
/* Learns whether exec succeeded. False: it did not, and the task is dead. */
bool task_check_start(struct server *s, struct task *t, int64_t now);
/* When to look again, if that is not known yet; 0: not, the pipe will tell. */
int64_t task_start_due_ms(const struct task *t);
/* Reads what lies in the pipes now and lets go of them. */
void task_close_streams(struct server *s, struct task *t);
void task_free(struct server *s, struct task *t);

/* task_end.c: time-outs, killing, the end */
void task_exited(struct server *s, struct task *t, int status);
void task_kill(struct server *s, struct task *t, uint32_t grace_ms, bool timed_out);
void task_delivered(struct task *t);
void task_put_ending(const struct task *t, struct wire_out *w);
void tasks_turn(struct server *s, int64_t now);
int64_t tasks_next_ms(struct server *s); /* when tasks_turn() is due; 0: not */

/* spawn.c */
int spawn(struct server *s, struct task *t, const struct request *r, struct err *e) MUST_CHECK;
/* Reads what the child said before exec. 1: it runs; 0: not known yet, maybe of another
 * child, since the first had died too soon; -1: it failed. */
int spawn_result(struct server *s, struct task *t, struct err *e);
/* The command has started, or will not: what another start would need is let go. */
void spawn_settled(struct task *t);
/* fork() whose child is more likely to be ended for memory than PID 1. */
pid_t spawn_fork(struct server *s);
/* The sentence for when it failed: which limit was reached. */
int spawn_fork_failed(const struct server *s, int errnum, struct err *e);

/* drain.c */
void drain_add(struct server *s, int fd);
void drains_sweep(struct server *s);

/* usage.c */
struct limit_counts usage_limit_counts(const struct server *s);
/* The LIMITED_* that were reached since `before`, and whether the disk is full now. */
uint8_t usage_limits_hit(const struct spec *spec, const struct limit_counts *before,
                         const struct limit_counts *now);
void usage_answer(struct server *s, struct conn *c);

/* worker.c: the worker that this request is for; takes the connection over and never returns */
NORETURN void worker_run(const struct spec *spec, int fd, struct buf *in, _Atomic int64_t *used_ms,
                         bool is_dial);

#endif
