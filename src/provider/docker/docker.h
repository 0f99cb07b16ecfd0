/*
 * docker.h - inside the docker provider: boxes that are containers of an engine.
 *
 * Theory of operation. The engine (Docker or Podman, here or elsewhere) is asked by its HTTP
 * API (http.h, engine.c). A box is one container whose PID 1 is "boxinit serve": it runs commands,
 * reaps, and ends the box when its lifetime is over or nobody used it, whether an anybox runs or
 * not. Everything but the container's life goes through provider/over_agent.h: the first use of a
 * box opens one long exec of "boxinit relay" in it, with attached streams, over which all calls of
 * this process are conversations (relay.c). An engine's own exec costs some forty milliseconds,
 * a conversation one round trip through the engine.
 *
 * How boxinit gets there. An image is prepared once (prepare.c): a container of it that is never
 * started is given the agent, the work folder, a home and a user by the archive call, and is
 * committed as anybox/agent:<hash>, where the hash is of the image, the agent and what was asked. Boxes
 * are made of that, so that to make one costs what the engine's create and start cost; it works
 * with engines on other machines and with read-only roots. An image that changed has another hash;
 * the old one is removed then.
 *
 * Where the agent cannot be (plain.c), the engine's own exec and scripts in the image's sh do the same, slower.
 *
 * What is ours. Containers carry labels: anybox.id, which box it is, and anybox.instance, the
 * random id of the state folder that made it (state.c). A container without both, whatever its name, is
 * never used, stopped or removed. The label of a box is written by whoever may use the engine, who is root
 * there anyway.
 */
#ifndef PROVIDER_DOCKER_DOCKER_H
#define PROVIDER_DOCKER_DOCKER_H

#include <pthread.h>

#include "base/buf.h"
#include "provider/command.h"
#include "provider/docker/http.h"
#include "provider/docker/value.h"
#include "provider/docker_conf.h"
#include "provider/over_agent.h"

#define DOCKER_ID_SIZE  33 /* 32 hex digits and the terminator */
#define DOCKER_CID_SIZE 65 /* the engine's own ids */
#define NAME_PREFIX     "anybox-"
#define NAME_DIGITS     12
#define PREPARED_REPO   "anybox/agent"
#define AGENT_DIR       "/.anybox"

#define LABEL_ID       "anybox.id"
#define LABEL_INSTANCE "anybox.instance"
#define LABEL_NAME     "anybox.name"
#define LABEL_IMAGE    "anybox.image" /* as it was asked for; of prepared images: what they are of */
#define LABEL_CREATED  "anybox.created"
#define LABEL_IDLE     "anybox.idle"
#define LABEL_LIFETIME "anybox.lifetime"
#define LABEL_HOME     "anybox.home"
#define LABEL_USER     "anybox.user"
#define LABEL_WORK     "anybox.work"
#define LABEL_VIA      "anybox.via"      /* VIA_EXEC: without our agent; else empty */
#define LABEL_NO_AGENT "anybox.no_agent" /* why not */
#define LABEL_HELPER   "anybox.helper"   /* a container that only prepares an image */

#define VIA_EXEC "exec"

struct engine_facts { /* of GET /info */
    struct str version, driver, cgroup, machine, system, options;
    int64_t cpus, memory;
    bool memory_limit, swap_limit, cpu_limit, pids_limit;
    bool has_seccomp, is_rootless, is_podman;
};

struct docker {
    struct provider provider;
    struct provider plain; /* of boxes without our agent: plain.c */
    struct arena texts;    /* owns what conf names */
    struct docker_conf conf;
    struct limits defaults;
    const char *state_dir, *program_dir;
    struct str config_file;
    bool host_network;
    bool once;
    pthread_mutex_t lock; /* guards what follows */
    bool has_facts;
    struct engine_facts facts; /* texts in .texts */
    char instance[DOCKER_ID_SIZE];
    char agent_hash[DOCKER_ID_SIZE]; /* "": not read yet */
    char refused[80];                /* the prepared image whose agent could not be started last */
    char refused_why[160];
};

struct relay;

struct plain_facts { /* known as .shell says */
    struct shell_facts shell;
    char home[256], work[256];
};

struct docker_box {
    struct agent_box agent;
    char id[DOCKER_ID_SIZE];
    char cid[DOCKER_CID_SIZE];
    pthread_mutex_t lock; /* guards what follows */
    struct relay *relay;  /* NULL: none yet */
    bool is_opening;      /* somebody opens one */
    int64_t expires_at;   /* of an extension by this process; 0: none */
    struct plain_facts plain;
    bool has_tools; /* of a plain one: shell_way.has_tools */
};

extern const struct provider_ops docker_ops;
extern const struct provider_ops docker_plain_ops;

static inline struct docker *docker_of(struct provider *p)
{
    return p->ops == &docker_plain_ops ? CONTAINER_OF(p, struct docker, plain)
                                       : CONTAINER_OF(p, struct docker, provider);
}

static inline struct docker_box *docker_box_of(struct box *b)
{
    return CONTAINER_OF(b, struct docker_box, agent.box);
}

/* ---- engine.c: where it is, and asking it ------------------------------------------- */

/* ERR_INVALID for an address that cannot be one, ERR_UNREACHABLE where none is found. */
int engine_where(const struct docker *d, struct arena *a, struct where *out, struct err *e)
    MUST_CHECK;
/* Is it this machine's? */
bool engine_is_local(const struct where *w);
/* Whether the operator named an engine, or a socket of one is at a usual place. */
bool engine_is_likely(const struct docker *d);

int engine_call(const struct docker *d, const struct ctx *ctx, const struct http_req *req,
                struct http_answer *out, struct err *e) MUST_CHECK;
/* A request whose answer is JSON and has this status; other ones are engine_fail(). */
int engine_ask(const struct docker *d, const struct ctx *ctx, const struct http_req *req,
               struct value **out, struct err *e) MUST_CHECK;
/* -1 with "<doing>: <what the engine said>", of a kind that fits the status. */
int engine_fail(const struct http_answer *answer, struct arena *a, const char *doing,
                struct err *e);
/* What the engine said, harmless and on one line. */
struct str engine_said(const struct http_answer *answer, struct arena *a);
/* Asked once. */
int engine_facts(struct docker *d, const struct ctx *ctx, struct engine_facts *out, struct err *e)
    MUST_CHECK;

/* ---- state.c: what is ours ------------------------------------------------------------ */

enum container_state {
    CONTAINER_MADE, /* not started yet */
    CONTAINER_RUNNING,
    CONTAINER_PAUSED,
    CONTAINER_ENDED,
};

struct container {
    struct str cid, id, instance, name, image, home, user, work, version, no_agent;
    bool is_plain; /* without our agent, for the reason in no_agent */
    enum container_state state;
    int exit_code;
    bool is_oom, is_helper;
    struct limits limits;
    enum network network;
    int64_t created_at;
};

bool docker_id_ok(struct str id);
/* This state folder's id; made when `make` says so, else "" where there is none. */
int docker_instance(struct docker *d, bool make, char out[DOCKER_ID_SIZE], struct err *e)
    MUST_CHECK;
/* An answer of GET /containers/<id>/json. False: its labels do not make it a box. */
bool container_read(const struct value *v, struct container *out);
/* Asks for the box `id`. ERR_GONE when there is none, or when a container of that name is not ours. */
int container_find(struct docker *d, const struct ctx *ctx, struct str id, struct container *out,
                   struct err *e) MUST_CHECK;
/* 0: the engine says that it runs. Else why it cannot be used. */
int container_usable(struct docker *d, const struct ctx *ctx, struct str id, struct err *e)
    MUST_CHECK;
/* Why it ended, as a phrase. */
struct str container_reason(const struct container *c, struct arena *a, enum box_end *kind);
/* Removes it with its anonymous volumes. None there is success. */
int container_remove(const struct docker *d, const struct ctx *ctx, struct str cid, struct err *e)
    MUST_CHECK;
typedef int container_fn(void *arg, const struct value *row, struct err *e);
/* Each container of this state folder, as GET /containers/json has it; none: no engine is asked. */
int container_each(struct docker *d, const struct ctx *ctx, container_fn *each, void *arg,
                   struct err *e) MUST_CHECK;

/* ---- body.c: what a container is asked to be ------------------------------------------ */

struct body {
    const struct docker *docker;
    const struct box_spec *spec;
    struct limits limits; /* in force */
    struct str prepared;  /* image */
    struct str asked;     /* the image that was asked for, for people */
    struct str instance;
    struct str bind; /* folder of this machine for the work folder, or empty */
    struct str home; /* of a read-only root: where it is, and whose */
    uint32_t uid, gid;
    bool is_podman; /* the engine */
    bool is_plain;  /* without our agent, because of */
    struct str no_agent;
    int64_t now;
};

/* Of POST /containers/create. */
void body_write(const struct body *b, struct buf *to);
/* What was asked for and what the engine can do, with defaults; fails for what was asked and cannot
 * be kept. */
int body_limits(const struct docker *d, const struct engine_facts *facts,
                const struct limits *asked, struct limits *out, struct err *e) MUST_CHECK;

/* ---- image.c, prepare.c ---------------------------------------------------------------- */

/* Letters, digits and ./:@_- as registries have them. */
int image_check(struct str ref, struct err *e) MUST_CHECK;

struct image {
    struct str ref;  /* as asked for */
    struct str id;   /* "sha256:..." */
    struct str user; /* that it names */
    struct str machine;
};

struct prepared {
    struct str name;
    bool is_plain;       /* without our agent */
    struct str no_agent; /* why */
};

/* Looks for it, and pulls it when it is not there and `pull` says so. */
int image_find(struct docker *d, const struct ctx *ctx, struct str ref, bool pull,
               struct image *out, struct err *e) MUST_CHECK;
int image_pull(struct docker *d, const struct ctx *ctx, struct str ref, image_phase_fn *phase,
               void *arg, struct err *e) MUST_CHECK;
extern const struct image_ops docker_images;
int docker_image_make(struct provider *p, const struct ctx *ctx, const struct image_order *order,
                      image_phase_fn *phase, void *arg, struct err *e);

/* The name that the prepared image has, or would have; a plain one is without our agent. ERR_UNSUPPORTED: there
 * is none for its processor. */
int prepared_name(struct docker *d, const struct ctx *ctx, const struct image *of, bool is_plain,
                  struct str *out, struct err *e) MUST_CHECK;
/* The same for what a box of this image would be made of. */
int prepared_choose(struct docker *d, const struct ctx *ctx, const struct image *of,
                    struct prepared *out, struct err *e) MUST_CHECK;
/* Is this one of them? Podman names them with a registry before. */
bool prepared_is(struct str tag);
int image_prepare(struct docker *d, const struct ctx *ctx, const struct image *of,
                  const struct prepared *as, struct err *e) MUST_CHECK;

/* ---- auth.c: registries ------------------------------------------------------------------- */

/* What the user's own docker would say to this image's registry: a header's value, or empty. */
struct str auth_for(const struct docker *d, const struct ctx *ctx, struct str ref);

/* ---- archive.c: small archives ------------------------------------------------------------- */

struct archive_entry {
    struct str path; /* without a slash at either end, less than 100 bytes */
    char type;       /* '0' file, '2' link, '5' folder */
    unsigned mode, uid, gid;
    struct str bytes; /* of a file; of a link where it leads, less than 100 bytes */
};

void archive_add(struct buf *to, const struct archive_entry *entry);
void archive_end(struct buf *to);
/* The contents of the first regular file. False: there is none. */
bool archive_first_file(struct str archive, struct str *out);

/* ---- the rest ---------------------------------------------------------------------------- */

struct box *docker_create(struct provider *p, const struct ctx *ctx, const struct box_spec *spec,
                          struct err *e);
struct box *docker_box_new(struct docker *d, struct str id, struct str cid, bool is_plain);
int docker_sweep(struct provider *p, const struct ctx *ctx, struct err *e);
int docker_doctor(struct provider *p, const struct ctx *ctx, check_fn *each, void *arg,
                  struct err *e);

/* ---- exec.c: an exec of the engine's with attached streams --------------------------------- */

#define FRAME_HEAD 8u

/* What comes is in pieces, each with its stream and length before it. */
struct frames {
    char head[FRAME_HEAD];
    size_t n_head;
    uint32_t left;
};
typedef int frames_fn(void *arg, enum stream from, struct str bytes, struct err *e);
int frames_take(struct frames *f, struct str bytes, frames_fn *take, void *arg, struct err *e)
    MUST_CHECK;

struct exec_order {
    const char *doing;  /* for sentences */
    struct str command; /* a JSON array */
    bool has_input;
};
/* *again: it failed though the engine says that the container runs. */
int exec_make(struct docker *d, const struct ctx *ctx, const struct docker_box *db,
              const struct exec_order *order, struct str *out, bool *again, struct err *e)
    MUST_CHECK;
/* What we send goes as it is; what comes is frames, of which *rest has come already. */
int exec_start(struct docker *d, const struct ctx *ctx, struct str exec, const char *doing,
               struct wire *wire, struct str *rest, struct err *e) MUST_CHECK;

/* relay.c: a conversation with the box's agent, as agent_box.connect has it. */
int docker_connect(struct box *b, const struct ctx *ctx, struct err *e);
void relay_stop(struct relay *r); /* ends its conversations and frees it; NULL is fine */

#endif
