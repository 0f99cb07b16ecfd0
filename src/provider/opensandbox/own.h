/* own.h - the provider and its boxes, as the files behind opensandbox.h share them. */
#ifndef PROVIDER_OPENSANDBOX_OWN_H
#define PROVIDER_OPENSANDBOX_OWN_H

#include <pthread.h>

#include "json/js.h"
#include "provider/opensandbox/opensandbox.h"
#include "provider/opensandbox/web.h"
#include "provider/platform.h"
#include "provider/provider.h"

#define EXECD_PORT   44772
#define PATH_BYTES   4096
#define OSB_TEXT_MAX 4096 /* of a URL, a header */

/* Our tags on a sandbox. */
#define TAG_BOX   "anybox-box"   /* the id that we minted; the create is found by it */
#define TAG_OWNER "anybox-owner" /* which state folder's: sandboxes of others are not listed */
#define TAG_NAME  "anybox-name"
#define TAG_LIFE  "anybox-life" /* "none", or the unix second at which it ends in any case */
#define TAG_TTL   "anybox-ttl"  /* seconds that it lives without use */
/* What was ordered, of which the platform does not tell: MiB, thousandths of a processor, and "none". */
#define TAG_MEMORY  "anybox-memory"
#define TAG_CPU     "anybox-cpu"
#define TAG_NETWORK "anybox-network"

struct osb_provider {
    struct provider provider;
    char *name, *state_dir;
    char *base; /* "http://host:port/v1" */
    bool is_https;
    char *api_key, *image, *entrypoint, *work_dir, *ca_file;
    int32_t timeout_s, create_s, request_s;
    enum platform_way way;
    bool auto_renew, delete_at_exit;
    struct web *web;
    pthread_mutex_t lock;
    char secret[65];  /* what tokens of sandboxes are made with; guarded by lock, "" not read yet */
    char owner[17];   /* with it */
    struct str *made; /* platform ids, with delete_at_exit; guarded by lock */
    size_t n_made;
    struct lost *lost; /* make.c: what a sweep is to look for; guarded by lock */
    size_t n_lost;
    struct shelf *shelf; /* list.c: what was listed a moment ago; guarded by lock */
    bool is_filling;     /* list.c: somebody fetches another shelf; guarded by lock */
    int64_t far_ms;      /* reach.c: when no sandbox could be reached straight; guarded by lock */
    struct pool *relays; /* ports.c: NULL before the first; guarded by lock */
    struct cancel closing;
};

/* How the execd of a box is reached, and what it told about its place. A copy is taken for
 * each call. */
struct way {
    char base[OSB_TEXT_MAX]; /* "http://host:port/path" */
    char headers[4][OSB_TEXT_MAX / 4];
    size_t n_headers;
    bool is_proxy, has_bash;
    char home[PATH_BYTES], work[PATH_BYTES], user[128];
};

struct osb_box {
    struct box box;
    char *ref;
    pthread_mutex_t lock; /* of all below; never held while somebody is asked */
    char id[80];          /* the platform's; "": to be found by our own */
    char own_id[40];      /* TAG_BOX; "": not ours */
    bool is_reached;
    struct way way;
    int64_t ttl_s, end_s; /* without use; in any case (0: none) */
    int64_t expires_s;    /* as the platform has it; 0: never, or not known */
    int64_t renewed_ms;   /* when that was last looked at */
    unsigned tools;       /* trees.c */
    uint16_t heard_port;  /* ports.c: on which somebody listened at heard_ms */
    int64_t heard_ms;
};

static inline struct osb_provider *osb_of(struct provider *p)
{
    return CONTAINER_OF(p, struct osb_provider, provider);
}

static inline struct osb_box *osb_box_of(struct box *b)
{
    return CONTAINER_OF(b, struct osb_box, box);
}

/* ---- api.c: the lifecycle server ------------------------------------------------------------ */

struct osb_sandbox {
    struct str id, state, reason, message, image;
    struct str own_id, owner, name;
    int64_t created_s, expires_s; /* 0: never */
    int64_t ttl_s, end_s;         /* our tags */
    int64_t memory_mib, cpu_millis;
    enum network network;
};

enum box_state osb_state(struct str state);
/* Why it ended, as a part of a sentence; or empty. */
struct str osb_why(const struct osb_sandbox *s);
/* The sentence for an answer that is no success. Returns -1. */
int osb_fail(const char *doing, const struct web_resp *r, struct err *e);
/* "cannot reach the OpenSandbox server at ...": the sentence around what libcurl said. */
int osb_away(const struct osb_provider *p, struct err *e);

/* One exchange with the server; *out may be NULL, else gets the JSON of a success (to be
 * decref'ed; NULL for an empty body). ERR_GONE for 404 where `gone` is set. */
struct osb_call {
    const char *method;
    struct str path; /* below the base: "/sandboxes" */
    struct str body;
    const char *doing; /* for sentences: "list the sandboxes" */
    int64_t silence_ms;
    bool is_tolerant; /* 404 is success */
    bool *may_act;    /* NULL, or becomes true when it failed and the server may have acted */
    bool *is_early;   /* NULL, or becomes true when the sandbox has no address yet */
};
int osb_ask(struct osb_provider *p, const struct ctx *ctx, const struct osb_call *call,
            json_t **out, struct err *e) MUST_CHECK;

int osb_get(struct osb_provider *p, const struct ctx *ctx, struct str id, struct osb_sandbox *out,
            struct err *e) MUST_CHECK;
/* `tag`: "key=value", or empty. In pages. */
typedef int osb_sandbox_fn(void *arg, const struct osb_sandbox *s, struct err *e);
int osb_each(struct osb_provider *p, const struct ctx *ctx, struct str key, struct str value,
             osb_sandbox_fn *each, void *arg, struct err *e) MUST_CHECK;
/* *may_exist: it failed, and there may be a sandbox nevertheless. */
int osb_create(struct osb_provider *p, const struct ctx *ctx, json_t *order,
               struct osb_sandbox *out, bool *may_exist, struct err *e) MUST_CHECK;
int osb_delete(struct osb_provider *p, const struct ctx *ctx, struct str id, struct err *e)
    MUST_CHECK; /* gone already is success */
int osb_resume(struct osb_provider *p, const struct ctx *ctx, struct str id, struct err *e)
    MUST_CHECK;
int osb_pause(struct osb_provider *p, const struct ctx *ctx, struct str id, struct err *e)
    MUST_CHECK;
int osb_renew(struct osb_provider *p, const struct ctx *ctx, struct str id, int64_t until_s,
              int64_t *expires_s, struct err *e) MUST_CHECK;
/* Where a port of the sandbox is reached: "host:port/path", and headers for it. 1: *out tells; 0: the
 * sandbox has no address yet. */
struct osb_endpoint {
    struct str where;
    struct str headers[4];
    size_t n_headers;
};
int osb_endpoint(struct osb_provider *p, const struct ctx *ctx, struct str id, uint16_t port,
                 bool proxied, struct osb_endpoint *out, struct err *e) MUST_CHECK;

/* ---- secret.c --------------------------------------------------------------------------------- */

/* The owner's tag of this state folder, in p->owner. */
int osb_know_secret(struct osb_provider *p, struct err *e) MUST_CHECK;
/* The token of a sandbox that has this id of ours. */
void osb_token(struct osb_provider *p, struct str own_id, char token[65]);

/* ---- reach.c ----------------------------------------------------------------------------------- */

struct box *osb_box_new(struct osb_provider *p, struct str ref);
/* The platform's id of this box, in the arena. ERR_GONE. */
int osb_know(struct osb_box *b, const struct ctx *ctx, struct str *id, struct err *e) MUST_CHECK;
void osb_note(struct osb_box *b, const struct osb_sandbox *s);
/* Its execd, which has answered at least once; waits for one that starts, resumes a paused one
 * and renews its life. */
int osb_reach(struct osb_box *b, const struct ctx *ctx, struct way *out, struct err *e) MUST_CHECK;
/* The way is not to be trusted any more. */
void osb_forget_way(struct osb_box *b);
/* It is in use: more time to live where that is due. Failures do not matter. */
void osb_use(struct osb_box *b, const struct ctx *ctx);
/* Why execd did not answer, as the server sees it: replaces *e where that tells more. 1: it
 * was paused and goes on now: try again. */
int osb_explain(struct osb_box *b, const struct ctx *ctx, struct err *e);

/* A request to execd: method, path (with query), headers and so on of `req` are filled in. */
void osb_request(const struct osb_provider *p, const struct ctx *ctx, const struct way *way,
                 const char *method, struct str path, struct web_req *req);
/* Whether an answer that is no success tells that nobody in the sandbox heard of the request. */
bool osb_is_unheard(const struct web_resp *r);
/* One exchange with the execd of a box; tries again where that is safe. *resp is initialised
 * and any status is success. */
int osb_execd(struct osb_box *b, const struct ctx *ctx, const char *method, struct str path,
              struct web_req *req, struct web_resp *resp, struct err *e) MUST_CHECK;

/* ---- exec.c ------------------------------------------------------------------------------------- */

int osb_exec(struct box *b, const struct ctx *ctx, const struct exec_req *req,
             const struct sink *output, struct exec_result *out, struct err *e);
/* A script of ours: what it prints, line by line, and its exit status. `way`: one that is being
 * tried, or NULL for the box's own. */
int osb_run(struct osb_box *b, const struct ctx *ctx, const struct way *way, struct str script,
            struct buf *out, int *status, struct err *e) MUST_CHECK;

/* ---- files.c, trees.c, ports.c, make.c, list.c, doctor.c ------------------------------------------- */

/* Bytes to a new file, and of a file: paths are absolute and without '$'. */
int osb_upload(struct osb_box *b, const struct ctx *ctx, struct str path, const struct source *from,
               struct err *e) MUST_CHECK;
int osb_download(struct osb_box *b, const struct ctx *ctx, struct str path, int64_t from,
                 int64_t max, int (*receive)(void *arg, struct str bytes, struct err *e), void *arg,
                 struct err *e) MUST_CHECK;
/* A script in sh that begins in the box's work folder, with bytes in and out that are exact:
 * encoded where they are few, else by way of files. */
int osb_script(struct box *b, const struct ctx *ctx, struct str script, const struct source *input,
               const struct sink *output, int *status, struct err *e) MUST_CHECK;
/* A path as the box means it: "~" is its home, others begin in its work folder. */
struct str osb_absolute(const struct ctx *ctx, const struct way *way, struct str path);

/* Of shell_way: contents that are too many for a script. */
int osb_store(struct box *b, const struct ctx *ctx, struct str path, const struct source *from,
              struct err *e);
int osb_fetch(struct box *b, const struct ctx *ctx, struct str path, int64_t from, int64_t max,
              const struct sink *to, struct err *e);

extern const struct shell_way osb_shell; /* trees.c */
extern const struct port_ops osb_ports;
/* Ends all connections to ports. */
void osb_ports_free(struct osb_provider *p);
struct box *osb_make(struct provider *p, const struct ctx *ctx, const struct box_spec *spec,
                     struct err *e);
int osb_sweep(struct provider *p, const struct ctx *ctx, struct err *e);
/* One that was seen to have ended: the platform keeps what is left of it until its time is over, the next
 * sweep does not. */
void osb_bury(struct osb_provider *p, const struct osb_sandbox *s);
int osb_destroy(struct box *b, const struct ctx *ctx, struct err *e);
int osb_extend(struct box *b, const struct ctx *ctx, int32_t lifetime_s, struct err *e);
int osb_list(struct provider *p, const struct ctx *ctx, box_info_fn *each, void *arg,
             struct err *e);
int osb_info(struct box *b, const struct ctx *ctx, struct box_info *out, struct err *e);
int osb_doctor(struct provider *p, const struct ctx *ctx, check_fn *each, void *arg, struct err *e);
void osb_shelf_free(struct osb_provider *p);

#endif
