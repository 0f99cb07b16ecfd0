/*
 * machine.h - one host, its connections and the channels that calls have on them.
 *
 * Theory of operation. Each connection (struct session) has one owner thread, and only that
 * thread calls libssh on it. A call makes a channel (struct chan), which waits in the
 * machine's queue until a connection has room for it; from then on the call and the owner
 * thread exchange bytes through bounded buffers: the call sleeps on the channel's eventfd,
 * the owner on the session's. A call may leave at any time: the channel has two references,
 * and the owner thread closes what nobody wants any more.
 *
 * Connections are opened one after another, at most SESSIONS_MAX, and only while channels
 * wait that no open connection has room for. How many channels fit is learned from the
 * server: a refused channel goes back into the queue. A host that could not be reached is
 * remembered as dead for DEAD_MS: calls fail at once, with the reason.
 *
 * Locks: machine.lock guards the queue, the list of sessions and the facts; chan.lock guards
 * what the two sides of a channel exchange. chan.lock may be taken with machine.lock held,
 * never the other way round. No lock is held across anything that waits.
 */
#ifndef PROVIDER_SSH_MACHINE_H
#define PROVIDER_SSH_MACHINE_H

#include <pthread.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/ctx.h"
#include "base/list.h"
#include "provider/hosts.h"
#include "provider/ssh/libssh.h"

#define SESSIONS_MAX   8
#define LANES          3          /* connections for large files, see lanes.h */
#define CHANNELS_GUESS 10         /* sshd's MaxSessions by default */
#define CHAN_OUT_MAX   (1u << 20) /* bytes of one stream that wait for the call */
#define CHAN_BULK_MAX  (5u << 20) /* the same of a channel that carries files */
#define CHAN_IN_MAX    (1u << 20) /* bytes that wait for the host */
#define CHAN_TRIES     3          /* connections that may be lost before it is opened */
#define REFUSALS_MAX   20
#define REST_MS        25
#define LIMIT_KEPT_MS  10000 /* then it is tried again whether more channels fit */
#define DEAD_MS        5000
#define KEEPALIVE_MS   30000 /* without a word of the host until we ask for one */
#define ANSWER_MS      15000 /* how long it may then take */
#define LEFTOVER_MS    150   /* after the end of a command whose children keep its output open */
#define LAST_WORDS_MS  5000  /* the agent's scripts leave none behind: sshd is slow then */

/* What a host told about itself when it was first asked. */
struct facts {
    bool known;
    struct str home;     /* in the machine's arena */
    struct str shell;    /* the login shell's path */
    struct str system;   /* "Linux x86_64", or empty */
    bool has_bash;       /* else commands run in sh */
    bool has_timeout;    /* "timeout -k" works */
    bool is_plain_shell; /* the login shell reads what is quoted for sh */
};

/* The agent on the host: see hostagent.h. */
enum hostagent_state {
    HOSTAGENT_OFF,
    HOSTAGENT_TRYING, /* the thread is at work */
    HOSTAGENT_UP,
};

struct hostagent {
    enum hostagent_state state;
    struct chan *relay; /* HOSTAGENT_UP */
    struct err why;     /* HOSTAGENT_OFF; ERR_NONE: not tried yet */
    int64_t again_ms;   /* not tried before */
    int64_t since_ms;   /* it is up */
    uint32_t version;   /* of the protocol that it speaks */
    unsigned failures;  /* to start it, one after another */
    bool has_failed;    /* the last one ended soon */
    bool has_thread;
    pthread_t thread;
    struct cancel stop;
};

struct machine {
    struct str name;      /* conf.name, which never changes: any thread may read it */
    struct ssh_host conf; /* strings in the arena; changed once, by machine_resolve() */
    bool is_resolved;     /* guarded by lock */
    struct arena arena;   /* guarded by lock once sessions run */
    struct machine *jump; /* through which it is reached, or NULL; set once, before is_resolved */
    struct machine *own_jump;     /* the same where it is this machine's alone, or NULL */
    const struct machine *behind; /* which is reached through this one; of own_jump only */
    struct cancel *resolving;     /* guarded by lock: ends machine_resolve(), or NULL */
    pthread_mutex_t lock;
    struct list queue; /* struct chan.link: wait for a connection with room */
    struct session *sessions[SESSIONS_MAX];
    bool is_connecting;
    bool is_closing;
    unsigned max_sessions; /* fewer when the server let no more in */
    struct facts facts;
    const char *program_dir; /* where agents lie; of the provider */
    bool is_once;            /* of the provider: see struct provider_conf */
    struct hostagent agent;
    int gnu_tools; /* find, tar...: 1 there, -1 not, 0 not asked yet; see trees.h */
    int64_t dead_until_ms;
    struct err dead;
    struct list idle_sftp; /* struct sftp.link, see sftp.h */
    unsigned n_idle_sftp;
    struct list pumps; /* struct pump.link, see pump.h */
    unsigned n_pumps;
    bool is_lane;                 /* of another machine; see lanes.h */
    struct machine *lanes[LANES]; /* this one's, or NULL */
    uint32_t rtt_us;              /* how long a round trip takes; 0: not known */
    int ahead_fd;                 /* a conversation for the next call, or -1; see ahead.h */
    int64_t ahead_ms;             /* when it was begun */
};

enum chan_kind {
    CHAN_HELLO, /* only to connect, or to hear from the host */
    CHAN_EXEC,
    CHAN_SFTP,
    CHAN_TCP,
    CHAN_RELAY, /* as CHAN_EXEC; its bytes are the relay's */
};

enum chan_state {
    CHAN_QUEUED,
    CHAN_OPENING,
    CHAN_ASKING, /* open; the command was sent and may run */
    CHAN_OPEN,
    CHAN_ENDED,
};

struct chan {
    struct list link; /* in machine.queue or in session.chans */
    struct machine *machine;
    enum chan_kind kind;
    char *what; /* the command, or the host to reach */
    int port;
    struct relay *relay; /* CHAN_RELAY: see relay.h */
    pthread_mutex_t lock;
    /* guarded by lock: */
    enum chan_state state;
    struct session *session; /* that serves it, or NULL */
    int refs;
    bool is_abandoned; /* the call has left */
    bool is_left;      /* and the command is to go on without it */
    bool is_movable;   /* while it waits in the queue its command may be taken elsewhere */
    bool has_started;  /* CHAN_ASKING was reached: it may have run */
    struct buf out[2]; /* from the host: stdout, stderr */
    size_t out_max;    /* of either */
    struct buf in;     /* for the host */
    bool is_in_ended;  /* no more will come */
    bool is_eof;       /* CHAN_TCP: no more will come from the host */
    bool has_exit;     /* exit_code or exit_signal is known */
    int exit_code;
    char exit_signal[16];
    struct err why; /* CHAN_ENDED: .kind is ERR_NONE when it ended as it should */
    int event;      /* wakes the call */
    /* of the owner thread alone: */
    ssh_channel channel;
    struct ssh_channel_callbacks_struct callbacks;
    struct buf came[2]; /* as out[], not handed over yet */
    bool is_held[2];    /* libssh has more, for which there was no room */
    size_t since_grown; /* bytes since the host was last let send more */
    bool got_exit, is_eof_sent, has_asked;
    int got_code;
    char got_signal[16];
    int64_t quiet_since_ms; /* since the command ended and nothing came any more; 0: no */
    int tries;              /* connections that were lost before it was opened */
    int refusals;           /* by servers that had no other channel of ours open */
};

struct session {
    struct machine *machine;
    const struct libssh *lib;
    pthread_t thread;
    int wake; /* eventfd */
    /* guarded by machine.lock: */
    bool is_ready, is_done, is_closing;
    unsigned n_chans, max_chans;
    int64_t limited_ms;    /* when max_chans was learned */
    int64_t rest_until_ms; /* no channel is tried before */
    /* of the owner thread alone: */
    ssh_session ssh;
    ssh_event event;
    struct ssh_counter_struct count;
    struct list chans; /* struct chan.link */
    ssh_channel spare; /* opened in advance for the next command, or NULL */
    bool is_spare_open, wants_spare;
    int64_t spare_after_ms; /* none is opened before */
    int fd;                 /* the socket, before libssh has it */
    struct pump *pump;      /* moves bytes when a jump host is between, or NULL */
    pid_t proxy;            /* the ProxyCommand's process, or 0 */
    int64_t heard_ms;
    uint64_t heard_packets;
    bool is_asked;   /* a keepalive is out */
    int64_t used_ms; /* of a lane: something went over it, or could have */
};

/* ---- machine.c --------------------------------------------------------------- */

void machine_init(struct machine *m, const struct ssh_host *conf);
/* Tells its sessions to end; machine_join() waits for that. */
void machine_stop(struct machine *m);
void machine_join(struct machine *m);
void machine_fini(struct machine *m);
/* A connection is open, or was not used for so long that nobody knows better. */
bool machine_is_alive(struct machine *m);
bool machine_is_connected(const struct machine *m); /* the same with the lock held */
/* For owner threads. */
void machine_is_ready(struct session *s);
void machine_failed(struct session *s, const struct err *why); /* could not connect */
void machine_lost(struct session *s, const struct err *why);
/* The next channel that waits, when there is room. */
struct chan *machine_next(struct session *s);
/* The server refused one more channel: it goes back, or fails when there is no other. */
void machine_refused(struct session *s, struct chan *c, const char *why);
void machine_left(struct session *s); /* one channel less */
/* Commands that still wait for a channel end with ERR_GONE: there is a better way now. The lock
 * is held. */
void machine_move_queued(struct machine *m);
bool machine_has_room(struct session *s);

/* ---- resolve.c ---------------------------------------------------------------- */

void machine_keep(struct machine *m, const struct ssh_host *conf); /* copies */
/* What ~/.ssh/config adds and where secrets are kept: before the first connection. Commands of
 * the operator's run in here; machine_stop() ends them. */
int machine_resolve(struct machine *m, struct err *e) MUST_CHECK;

/* ---- learn.c ------------------------------------------------------------------- */

/* Fills in facts. ERR_UNSUPPORTED: this login runs no commands. */
int machine_learn(struct machine *m, const struct ctx *ctx, struct err *e) MUST_CHECK;

/* ---- chan.c ------------------------------------------------------------------ */

/* Queues a channel and connects when needed; returns at once. NULL: the host is dead. */
struct chan *chan_open(struct machine *m, enum chan_kind kind, struct str what, int port,
                       struct err *e) MUST_CHECK;
struct relay;
/* The same for an agent's relay, which is the channel's from here on, also when it fails. */
struct chan *chan_open_relay(struct machine *m, struct str command, struct relay *r, struct err *e)
    MUST_CHECK;
struct chan *chan_ref(struct chan *c);
void chan_close(struct chan *c); /* the call's reference; NULL is fine */
void chan_unref(struct chan *c);
static inline void chan_close_p(struct chan **c)
{
    chan_close(*c);
}

/* What the call sees. */
struct chan_news {
    enum chan_state state;
    bool has_started, has_exit, is_in_empty, is_eof;
    int exit_code;
    char exit_signal[16];
    struct err why;
};
/* Adds what came to out[] (NULL: it is left) and tells how things are. */
void chan_take(struct chan *c, struct buf *out, struct chan_news *news);
size_t chan_put(struct chan *c, struct str bytes); /* how many were taken */
void chan_put_end(struct chan *c);
/* Sleeps until there are news; `extra` is one more descriptor or NULL. As ctx_wait(). */
int chan_wait(struct chan *c, const struct ctx *ctx, struct pollfd *extra, int64_t until_ms,
              struct err *e) MUST_CHECK;
/* For owner threads: the lock is held. */
void chan_end(struct chan *c, const struct err *why);
void chan_tell(struct chan *c);

void event_add(int fd); /* an eventfd: wake who sleeps on it */
void event_clear(int fd);

/* ---- session.c --------------------------------------------------------------- */

/* Starts the owner thread, which connects. machine.lock is held. */
struct session *session_start(struct machine *m, struct err *e) MUST_CHECK;
void session_join(struct session *s); /* after is_done or is_closing; frees it */

/* ---- connect.c, trust.c, auth.c, dial.c: in the owner thread ------------------- */

int session_connect(struct session *s, struct err *e) MUST_CHECK;
/* Sleeps until the socket is ready. ERR_TIMEOUT, ERR_CANCELLED when the session is to end. */
int session_wait(struct session *s, int64_t until_ms, struct err *e) MUST_CHECK;
/* Before each sleep until the first channel is open: what came is acknowledged at once. sshd
 * turns Nagle's algorithm off only when a command starts; until then each of its packets waits
 * for the acknowledgement of the one before, which the kernel else puts off for 40 ms. */
void session_hurry(struct session *s);
const char *machine_known_hosts(const struct machine *m, struct arena *a); /* the file's path */
int session_check_key(struct session *s, struct err *e) MUST_CHECK;
int session_login(struct session *s, int64_t until_ms, struct err *e) MUST_CHECK;
int session_dial(struct session *s, int64_t until_ms, struct err *e) MUST_CHECK;
void session_hang_up(struct session *s); /* what dial made */
/* "user@host:port", into a text of that size. */
#define WHERE_SIZE 300
const char *machine_where(struct machine *m, char to[WHERE_SIZE]);
const char *machine_user(const struct machine *m, struct arena *a);
int machine_port(const struct machine *m);

#endif
