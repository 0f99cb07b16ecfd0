/*
 * local.h - inside the local provider: boxes on this machine's own kernel.
 *
 * What the world knows of a box is its folder, <state>/boxes/<id>/ (0700):
 *   agent.sock   where its PID 1 listens
 *   end          why PID 1 ended, when it could tell, or that somebody deletes the box
 *   info         its meta, below; replaced atomically
 * Processes, mounts and files of the box vanish with PID 1, and the lock of its uid range.
 * The folder and the cgroups that `info` names are removed by destroy(), else by any later
 * sweep(). While a box is being made the maker holds a flock on the
 * folder; a folder without a living process and without that lock is garbage. Boxes that
 * are made in advance have their folders in <state>/pool/<id>/ until somebody wants them.
 */
#ifndef PROVIDER_LOCAL_LOCAL_H
#define PROVIDER_LOCAL_LOCAL_H

#include <unistd.h>

#include "base/buf.h"
#include "provider/local/cgroup.h"
#include "provider/local/snapshot.h"
#include "provider/local/uids.h"
#include "provider/over_agent.h"
#include "provider/usage_text.h"

#define BOX_ID_SIZE 33 /* 32 hex digits and the terminator */
#define INFO_FILE   "info"
#define INFO_MAX    (16u << 10)
#define BOXINIT     "boxinit"

struct blank_pool;
struct maker;

struct local {
    struct provider provider;
    struct limits defaults;
    _Atomic int64_t memory_here; /* 0: not looked up yet */
    char *name, *state_dir, *program_dir, *boxes_dir, *pool_dir;
    struct blank_pool *pool; /* NULL: none */
    struct maker *maker;
    struct snapshots snapshots;
    bool host_network; /* allowed */
    char *config_file; /* where it would be */
};

struct local_box {
    struct agent_box agent;
    char id[BOX_ID_SIZE];
    int folder; /* O_PATH: the fast way to the socket */
    pid_t pid;  /* of its PID 1, as the host sees it */
    long long start;
    int64_t uid_base; /* first of its range; 0: none */
};

extern const struct provider_ops local_ops;

static inline struct local *local_of(struct provider *p)
{
    return CONTAINER_OF(p, struct local, provider);
}

static inline struct local_box *local_box_of(struct box *b)
{
    return CONTAINER_OF(b, struct local_box, agent.box);
}

/* Closes a descriptor of a struct before its end; -1 is none. */
static inline void drop_fd(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
    }
    *fd = -1;
}

/* ---- info.c: what is written down about a box ---------------------------------- */

struct meta {
    struct str name, boot, tier;
    struct str image; /* its folder; empty: none */
    pid_t pid;        /* 0: still being made */
    long long start;
    int64_t created_at, expires_at;
    struct limits limits; /* in force */
    enum network network;
    int64_t uid_base;
    struct str cgroups[CGROUPS_MAX];
    size_t n_cgroups;
};

void meta_write(const struct meta *m, struct buf *out);
/* Strings are views into `text`. ERR_PROTOCOL when it is not one of ours. */
int meta_parse(struct str text, struct meta *out, struct err *e) MUST_CHECK;
int meta_load(int folder, struct arena *a, struct meta *out, struct err *e) MUST_CHECK;
int meta_save(int folder, const struct meta *m, struct err *e) MUST_CHECK;

/* Is that very process alive (not a zombie, not another one with its number)? One that
 * cannot be looked at for now counts as alive: what belongs to a dead one is removed. */
bool meta_alive(const struct meta *m, struct arena *a);
/* Made since the machine was started, as far as can be told. */
bool meta_this_boot(const struct meta *m, struct arena *a);
/* Why it ended, as a phrase: "it was idle for 30 min". */
struct str meta_reason(const struct meta *m, int folder, struct arena *a, enum box_end *kind);
/* Before a box is killed for good: whoever is just using it can say why it ended. */
void meta_mark_deleted(int folder);

/* "90 s", "30 min", "2 h" */
struct str span_text(struct arena *a, int64_t seconds);

/* ---- limits.c: what a box gets --------------------------------------------------- */

/* Checks what was asked for, fills in defaults; *out is what should be in force. */
int limits_settle(struct local *l, const struct limits *asked, struct arena *a, struct limits *out,
                  struct err *e) MUST_CHECK;

/* ---- network.c ------------------------------------------------------------------- */

#define NETWORK_PROGRAM "slirp4netns"
#define NETWORK_FIX     "sudo apt-get install slirp4netns"

struct names;

/* False: it is not on this machine. */
bool network_find(struct arena *a, struct str *program);
/* Can a box have it here, with this version of Landlock (facts_landlock())? */
int network_check(const struct local *l, enum network network, int landlock, struct arena *a,
                  struct err *e) MUST_CHECK;
/* The IPv4 addresses of this machine's interfaces now. */
int network_own_addresses(struct arena *a, struct names *out, struct err *e) MUST_CHECK;

/* ---- create.c, sweep.c, doctor.c, usage.c ------------------------------------------ */

struct box *local_create(struct provider *p, const struct ctx *ctx, const struct box_spec *spec,
                         struct err *e);
/* The path of boxinit, or ERR_NOT_FOUND with where it was looked for. */
int local_find_boxinit(const struct local *l, struct arena *a, const char **out, struct err *e)
    MUST_CHECK;

/* The descriptor of a folder of the state, made when it is missing. */
int local_open_dir(const char *path, struct err *e) MUST_CHECK;
/* A handle; takes over the folder's descriptor. */
struct box *local_box_new(struct local *l, struct str id, int folder, const struct meta *m);
bool local_id_ok(struct str id);

/* Kills the box that `m` describes and waits for its end. Success when none lives. */
int local_kill(const struct meta *m, const struct ctx *ctx, struct err *e) MUST_CHECK;
/* Removes cgroups, uid lock and the folder `id` in `home` of a box whose processes are dead. */
int local_remove(const char *home, const struct ctx *ctx, struct str id, const struct meta *m,
                 struct err *e) MUST_CHECK;
int local_sweep(struct provider *p, const struct ctx *ctx, struct err *e);
int local_doctor(struct provider *p, const struct ctx *ctx, check_fn *each, void *arg,
                 struct err *e);
int local_usage(struct box *b, const struct ctx *ctx, struct usage *out, struct err *e);

/* Total memory of this machine in bytes; 0: not known. */
int64_t usage_host_memory(struct arena *a);

#endif
