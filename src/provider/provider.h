/*
 * provider.h - the seam between us and the places where code can run.
 *
 * A provider is one configured backend (the local kernel, a docker socket, an ssh
 * host, an OpenSandbox server). A box is one sandbox inside it. To add a backend,
 * fill in one `struct provider_ops` and list it in registry.c; nothing above this
 * layer may ask which provider it is talking to.
 *
 * Rules every operation obeys:
 *  - It blocks the calling thread, and sleeps only in ctx_wait() (or in a library
 *    wait that obeys the same ctx).
 *  - It may be called from several threads at once, on the same box too.
 *  - It never logs above debug and never writes to stdout or stderr.
 *  - Struct str arguments are borrowed for the call. Strings in results live in
 *    ctx->arena.
 *  - Out parameters are written on success only.
 *  - A sink is called on the calling thread, in order, and may stop the
 *    operation by failing; its error is returned unchanged.
 *
 * Capabilities are groups: a provider has a whole group or leaves it NULL. Call
 * through the box_*() and provider_*() wrappers, which turn a missing group into
 * ERR_UNSUPPORTED and add which box it was to the message.
 */
#ifndef PROVIDER_PROVIDER_H
#define PROVIDER_PROVIDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/ctx.h"
#include "base/err.h"
#include "base/str.h"
#include "tree/entry.h"

struct provider;
struct box;
struct ssh_hosts;
struct docker_conf;
struct platform;
struct shell_way;

/* ---- bytes in motion ---------------------------------------------------- */

enum stream {
    STREAM_OUT,
    STREAM_ERR,
};

struct sink {
    int (*write)(void *arg, enum stream from, struct str bytes, struct err *e);
    /* Optional: `n` bytes of this stream are lost at this point (spool overrun). */
    void (*lost)(void *arg, enum stream from, uint64_t n);
    void *arg;
};

/* read() returns how many bytes it put at `to`, 0 at the end, -1 on error. It must
 * not block unless `fd` is >= 0: then that descriptor is waited for (readable)
 * before each read(). */
struct source {
    ssize_t (*read)(void *arg, char *to, size_t cap, struct err *e);
    void *arg;
    int fd;       /* -1: read() never blocks */
    int64_t size; /* bytes that it gives in all, where that is known; else 0 */
};

/* ---- a box and its life ------------------------------------------------- */

enum network {
    NETWORK_NONE,
    NETWORK_INTERNET,
    NETWORK_HOST,
};

struct limits { /* 0: not asked for; the provider's default */
    int64_t memory_bytes;
    int64_t disk_bytes;
    int32_t cpu_millis; /* 1500 = one and a half cores */
    int32_t pids;
    int32_t open_files;
    int32_t lifetime_s; /* hard end; 0: none */
    int32_t idle_s;     /* end after so long without use */
};

struct box_spec {
    struct str id; /* 32 hex digits, minted by the caller: the new box's ref */
    struct str name;
    struct str image; /* rootfs, image or template; empty: the provider's default */
    struct limits limits;
    enum network network;
    bool network_said;     /* the creator chose it; else the provider's own way will do */
    const struct str *env; /* "KEY=value" */
    size_t n_env;
    bool gpu; /* it is to see the machine's GPUs */
    /* For factory_ops.takes_more only: names that code in the box may reach (others not), and
     * volumes as the backend takes them, a JSON array. */
    const struct str *egress;
    size_t n_egress;
    struct str volumes;
};

enum box_state {
    BOX_STARTING,
    BOX_RUNNING,
    BOX_PAUSED,
    BOX_GONE,
    BOX_UNKNOWN, /* could not ask: backend is unreachable */
};

enum box_end {
    BOX_END_OTHER, /* killed, the machine restarted, not known */
    BOX_END_IDLE,
    BOX_END_LIFETIME,
    BOX_END_DELETED,
};

struct box_info {
    struct str ref; /* what attach() takes; stored in the database */
    struct str name;
    enum box_state state;
    enum box_end end;          /* BOX_GONE: why */
    struct str ended;          /* the same as a phrase ("it was idle for 30 min"); or empty */
    struct str tier;           /* what isolates it: "root, cgroup v1", "user, rlimits" */
    struct str host, user;     /* where and as whom its code runs */
    struct str work_dir, home; /* where commands start, and "~"; empty: not known */
    struct str image;          /* what it was made of, as the provider names it; or empty */
    struct str via;            /* how it is reached, where there are several ways; or empty */
    int32_t port;              /* 0: none */
    struct limits limits;      /* in force; 0: not limited here */
    enum network network;
    int64_t created_at; /* unix seconds */
    int64_t expires_at; /* unix seconds, 0: no hard end */
};

typedef int box_info_fn(void *arg, const struct box_info *info, struct err *e);

/* ---- running things ----------------------------------------------------- */

enum exec_shell {
    SHELL_BASH, /* bash -c command */
    SHELL_SH,   /* sh -c command */
    SHELL_NONE, /* argv as it is */
};

struct exec_req {
    struct str id; /* names the task; minted by the caller, unique in the box; empty: any */
    enum exec_shell shell;
    struct str command;     /* text for the shell */
    const struct str *argv; /* SHELL_NONE */
    size_t n_argv;
    struct str cwd;        /* empty: the box's own default; "~" and relative are fine */
    const struct str *env; /* "KEY=value", added to the box's own */
    size_t n_env;
    const struct source *input; /* NULL: stdin is /dev/null */
    int64_t timeout_ms;         /* kills the whole session; 0: none. Kept by the box itself */
    int64_t window_ms;          /* only detaches: result EXEC_RUNNING; 0: wait to the end */
    /* NULL, or a switch that the sink may set to detach at once, where the provider has tasks;
     * others go on to the end. */
    const bool *leave;
    /* When it is left, by us or by our end, its output and its end are kept in the box as
     * core/task.h describes them, and are found there by the id. */
    bool keep;
    int64_t over_ms; /* with keep: a provider that cannot attach again leaves it then */
};

enum exec_end {
    EXEC_EXITED,   /* .code is the exit status */
    EXEC_SIGNALED, /* .code is the signal */
    EXEC_RUNNING,  /* detached: the task goes on */
};

enum known {
    KNOWN_NO,
    KNOWN_YES,
    KNOWN_NOT, /* nobody can tell here */
};

/* Limits of the box that were reached while a command ran: by it or by another one, and
 * as far as the backend can tell. A bit that is not set says nothing. */
enum limit_bit {
    LIMIT_MEMORY = 1 << 0, /* a process was ended, or refused memory */
    LIMIT_PIDS = 1 << 1,   /* a process or thread was refused */
    LIMIT_DISK = 1 << 2,   /* no space or no inode was left at the command's end */
};

struct exec_result {
    enum exec_end end;
    int code;
    bool timed_out;
    enum known oom;
    unsigned limits_hit; /* LIMIT_* */
    int64_t wall_ms;
    uint64_t out_bytes, err_bytes; /* produced in all, also what was lost */
    bool not_sent; /* with ERR_UNREACHABLE: it certainly did not run; the rest says nothing, */
                   /* but for timed_out: its time was over and the box did not answer */
};

struct task_state {
    struct str id;
    int64_t started_at;        /* unix seconds */
    struct exec_result result; /* .end is EXEC_RUNNING while it runs */
};

/* Where to go on with a task's output. */
struct attach_req {
    struct str id;
    uint64_t from_out, from_err; /* offsets */
    int64_t window_ms;           /* as in struct exec_req */
    int64_t due_ms;              /* of clock_mono_ms(), when its time is over; 0: nobody knows */
};

typedef int task_state_fn(void *arg, const struct task_state *state, struct err *e);

/* ---- files -------------------------------------------------------------- */

enum file_type {
    FILE_REGULAR,
    FILE_DIR,
    FILE_SYMLINK,
    FILE_OTHER,
};

struct file_info {
    struct str path;
    enum file_type type;
    mode_t mode;
    int64_t size;
    int64_t mtime_s;
};

struct list_req {
    struct str dir;
    bool recursive;
    uint32_t max; /* entries */
};

typedef int file_info_fn(void *arg, const struct file_info *info, struct err *e);

enum write_flags {
    FILE_PARENTS = 1 << 0, /* make missing folders */
    FILE_APPEND = 1 << 1,
    FILE_NEW = 1 << 2, /* ERR_EXISTS when it is there */
};

/* ---- whole trees --------------------------------------------------------- */

/* Which tree of the box, and what of it. `root` is a path as in struct file_ops. */
struct tree_req {
    struct str root;
    bool legacy_style;          /* of the patterns: exclude_style in tree/exclude.h */
    bool gitignore;             /* also what the .gitignore files over there say */
    bool sums;                  /* with the SHA-256 of each file */
    const struct str *excludes; /* lines, see tree/exclude.h */
    size_t n_excludes;
    /* Optional: the digest (tree/digest.h) of what the caller expects. Where the tree is just
     * that, facts.same is set, and each() may not be called at all. */
    const uint8_t *expected;
};

/* What a tree is before anything of it is sent. */
struct tree_facts {
    bool exists;
    enum tree_type type; /* of the root */
    struct str
        real; /* the root's absolute path with links resolved; of a missing one as far as it exists */
    struct str home;     /* the far user's home, for the guard against dangerous roots */
    bool same;           /* it is what was expected */
    uint64_t unreadable; /* folders and files that could not be read, and are not in the sequence */
    struct str first_unreadable; /* one of them, for the message */
};

struct put_result {
    uint64_t dirs, files, links, bytes, skipped;
    struct str first_skipped; /* "path: why", for the message */
};

struct prune_result {
    uint64_t files, dirs;
};

/* ---- looking ------------------------------------------------------------ */

#define USAGE_GPUS 16

struct gpu_usage {
    int index;
    double busy_pct;
    int64_t memory_used_mb, memory_total_mb;
};

struct usage { /* negative: not known */
    double load_1m, load_5m, load_15m;
    int cpus;
    int64_t memory_used, memory_total;
    int64_t disk_used, disk_total;
    int processes;
    struct gpu_usage gpus[USAGE_GPUS];
    size_t n_gpus;
};

/* One line of `anybox doctor`. */
enum check_state {
    CHECK_OK,
    CHECK_WARN, /* works, with less than there could be */
    CHECK_FAIL,
};

struct check {
    enum check_state state;
    struct str what;  /* "user namespaces" */
    struct str found; /* "allowed", "refused by AppArmor" */
    struct str fix;   /* the exact command, or empty */
};

typedef int check_fn(void *arg, const struct check *check, struct err *e);

/* ---- images ------------------------------------------------------------- */

struct image_info {
    struct str name;
    struct str system; /* what it holds, as far as it tells: "bookworm"; or empty */
    int64_t bytes;     /* of disk; what may not be looked at is not counted */
    int64_t made_at;   /* unix seconds */
};

typedef int image_info_fn(void *arg, const struct image_info *info, struct err *e);

struct image_order { /* empty: the provider's choice */
    struct str name;
    struct str suite, mirror;
    struct str packages; /* besides the usual ones: "git,make" */
};

/* Told when a phase of the work begins: "downloading packages". */
typedef void image_phase_fn(void *arg, struct str phase);

/* ---- the operations ----------------------------------------------------- */

/* Commands after the call that started them. exec() itself is start + attach. */
struct task_ops {
    /* Continue with the output at these offsets; as exec() from there on. */
    int (*attach)(struct box *b, const struct ctx *ctx, const struct attach_req *req,
                  const struct sink *output, struct exec_result *out, struct err *e);
    /* Empty id: each task of the box. */
    int (*state)(struct box *b, const struct ctx *ctx, struct str id, task_state_fn *each,
                 void *arg, struct err *e);
    /* TERM to the session and its descendants, KILL after the grace. Returns at once;
     * already finished is success. */
    int (*kill)(struct box *b, const struct ctx *ctx, struct str id, int32_t grace_ms,
                struct err *e);
};

/* Paths are absolute, relative to the box's work folder, or start with "~". */
struct file_ops {
    int (*stat)(struct box *b, const struct ctx *ctx, struct str path, struct file_info *out,
                struct err *e);
    /* Pre-order, sorted by name in each folder, links not followed; paths are `dir` as
     * given plus what is below it. *more: there was more than max. */
    int (*list)(struct box *b, const struct ctx *ctx, const struct list_req *req,
                file_info_fn *each, void *arg, bool *more, struct err *e);
    /* At most max bytes from `from` on; *out describes the whole file. */
    int (*read)(struct box *b, const struct ctx *ctx, struct str path, int64_t from, int64_t max,
                const struct sink *to, struct file_info *out, struct err *e);
    /* Atomic: readers see the old file or the whole new one. mode 0: the old file's, else 0644. */
    int (*write)(struct box *b, const struct ctx *ctx, struct str path, mode_t mode,
                 enum write_flags flags, const struct source *from, struct file_info *out,
                 struct err *e);
    int (*mkdir)(struct box *b, const struct ctx *ctx, struct str path, struct err *e);  /* -p */
    int (*remove)(struct box *b, const struct ctx *ctx, struct str path, struct err *e); /* -rf */
};

/* Trees in one exchange each, however many files they have. Entries are as tree/entry.h has
 * them; what the box says is checked before it gets here (paths, order, sizes). */
struct tree_ops {
    /* The tree as it stands, in order; the root first. A missing root is no error. */
    int (*list)(struct box *b, const struct ctx *ctx, const struct tree_req *req,
                tree_entry_fn *each, void *arg, struct tree_facts *out, struct err *e);
    /* Writes entries below root, which is made (-p) where it is missing, as tree/apply.h does. On
     * a failure *out still tells what was written. */
    int (*put)(struct box *b, const struct ctx *ctx, struct str root,
               const struct tree_source *from, struct put_result *out, struct err *e);
    /* Optional: are so many bytes of files sooner there over several connections? Then put()
     * gets them as TREE_FOLDERS and TREE_FILES. */
    bool (*splits)(struct box *b, uint64_t bytes);
    /* These entries (paths relative to root, sorted), files with their contents: each of them, in
     * order. One that could not be read is entry() as an empty file, and done(ok=false). */
    int (*get)(struct box *b, const struct ctx *ctx, struct str root, const struct str *paths,
               size_t n, const struct tree_sink *to, struct err *e);
    /* Removes them, see tree_prune(). */
    int (*prune)(struct box *b, const struct ctx *ctx, struct str root, const struct str *paths,
                 size_t n, struct prune_result *out, struct err *e);
};

struct port_ops {
    /* A connected, close-on-exec, non-blocking stream to a TCP port as code in the box would
     * reach it at its own loopback. ERR_NOT_FOUND: nothing listens there. */
    int (*dial)(struct box *b, const struct ctx *ctx, uint16_t port, struct err *e);
    /* The same to a unix socket by its path, as struct file_ops takes it. ERR_UNSUPPORTED where
     * there is no way to it now. */
    int (*dial_unix)(struct box *b, const struct ctx *ctx, struct str path, struct err *e);
};

struct meter_ops {
    int (*usage)(struct box *b, const struct ctx *ctx, struct usage *out, struct err *e);
};

/* Boxes that are made to order. A provider without it only knows the boxes that
 * its configuration names. */
struct factory_ops {
    bool takes_more; /* egress and volumes of struct box_spec */
    struct box *(*create)(struct provider *p, const struct ctx *ctx, const struct box_spec *spec,
                          struct err *e);
    /* Gone already is success, and what it left is removed. The handle stays valid until
     * box_unref(). */
    int (*destroy)(struct box *b, const struct ctx *ctx, struct err *e);
    int (*extend)(struct box *b, const struct ctx *ctx, int32_t lifetime_s, struct err *e);
    /* All of its processes stop where they are, and go on. Already so is success. Both NULL: it has no
     * way to do that. */
    int (*pause)(struct box *b, const struct ctx *ctx, struct err *e);
    int (*resume)(struct box *b, const struct ctx *ctx, struct err *e);
    /* Remove what dead boxes left behind, of any process. Idempotent, safe beside others. */
    int (*sweep)(struct provider *p, const struct ctx *ctx, struct err *e);
    bool has_gpus; /* create() knows box_spec.gpu; else it is refused before */
};

/* Images that the provider keeps itself and boxes can be made of, by name. */
struct image_ops {
    int (*list)(struct provider *p, const struct ctx *ctx, image_info_fn *each, void *arg,
                struct err *e);
    /* May take minutes. What was made so far is removed when it fails. */
    int (*make)(struct provider *p, const struct ctx *ctx, const struct image_order *order,
                image_phase_fn *phase, void *arg, struct err *e);
    int (*remove)(struct provider *p, const struct ctx *ctx, struct str name, struct err *e);
    /* Gets one from its registry; NULL: there is none. */
    int (*pull)(struct provider *p, const struct ctx *ctx, struct str name, image_phase_fn *phase,
                void *arg, struct err *e);
    /* Does beforehand what the first box of the image would wait for; NULL: nothing to do. */
    int (*ready)(struct provider *p, const struct ctx *ctx, struct str name, struct err *e);
};

struct provider_conf {
    struct str name;                  /* "local": shown, and the prefix of refs */
    struct str state_dir;             /* where it may keep things, 0700, exists */
    struct str program_dir;           /* where boxinit lies */
    struct limits defaults;           /* what a box gets that asks for nothing; 0: no limit */
    unsigned pool;                    /* boxes made in advance, at most */
    bool host_network;                /* the operator allows network "host" */
    struct str config_file;           /* in which the operator would */
    bool once;                        /* for one command: nothing is begun that only others need */
    const struct ssh_hosts *ssh;      /* provider/hosts.h: for the ssh provider, else NULL */
    const struct docker_conf *docker; /* provider/docker_conf.h: for the docker provider */
    const struct platform *platform;  /* provider/platform.h: for opensandbox, else NULL */
};

struct provider_ops {
    const char *type; /* "local": the configuration keyword and the value in the database */

    /* Must not connect, fork or probe: open is called at start for every configured
     * provider. Copies what it needs of conf. */
    struct provider *(*open)(const struct provider_conf *conf, struct err *e);
    void (*close)(struct provider *p); /* after the last box_unref(); NULL is fine */

    /* Every box of this provider, also those that ended and were not swept yet. */
    int (*list)(struct provider *p, const struct ctx *ctx, box_info_fn *each, void *arg,
                struct err *e);
    /* A handle for a box by the ref that list() gave or we stored. Cheap: need not talk
     * to the box; ERR_GONE (with the reason where known) when it has ended. */
    struct box *(*attach)(struct provider *p, const struct ctx *ctx, struct str ref, struct err *e);
    int (*info)(struct box *b, const struct ctx *ctx, struct box_info *out, struct err *e);
    void (*release)(struct box *b); /* last reference is gone; the sandbox lives on */

    /*
     * Run a command. A command that fails is success here: see out->code. -1 before
     * anything ran: ERR_NOT_FOUND (cwd, program), ERR_GONE (the box has ended), ERR_LIMIT
     * and so on. -1 with ERR_UNREACHABLE: the connection was lost, output so far went to the
     * sink; with out->not_sent it was never there, with out->timed_out its time was over and
     * the box did not answer. When ctx is cancelled (or its deadline passes) the whole
     * session in the box is killed and -1 is ERR_CANCELLED (ERR_TIMEOUT).
     */
    int (*exec)(struct box *b, const struct ctx *ctx, const struct exec_req *req,
                const struct sink *output, struct exec_result *out, struct err *e);
    bool input_first; /* exec() reads all of its input before the command begins */

    /* What works here and what does not, with the exact fix. */
    int (*doctor)(struct provider *p, const struct ctx *ctx, check_fn *each, void *arg,
                  struct err *e);

    const struct factory_ops *factory; /* or NULL */
    const struct image_ops *images;
    const struct task_ops *tasks;
    const struct file_ops *files;
    const struct meter_ops *meter;
    const struct tree_ops *trees;
    const struct port_ops *ports;
    const struct shell_way *shell; /* of those that name the operations of over_shell.h */
};

/* First member of every implementation's own struct. */
struct provider {
    const struct provider_ops *ops;
    struct str name; /* from the configuration */
};

struct box {
    struct provider *provider;
    struct str ref;
    atomic_int refs;
};

/* registry.c: all of them, in alphabetical order, NULL at the end. */
extern const struct provider_ops *const provider_types[];
const struct provider_ops *provider_type(struct str type); /* NULL: no such type */

/* The way in. Same contracts as above, plus the checks. */
int provider_list(struct provider *p, const struct ctx *ctx, box_info_fn *each, void *arg,
                  struct err *e) MUST_CHECK;
struct box *provider_attach(struct provider *p, const struct ctx *ctx, struct str ref,
                            struct err *e) MUST_CHECK;
struct box *provider_create(struct provider *p, const struct ctx *ctx, const struct box_spec *spec,
                            struct err *e) MUST_CHECK;
int provider_doctor(struct provider *p, const struct ctx *ctx, check_fn *each, void *arg,
                    struct err *e) MUST_CHECK;
int provider_sweep(struct provider *p, const struct ctx *ctx, struct err *e) MUST_CHECK;

int provider_image_list(struct provider *p, const struct ctx *ctx, image_info_fn *each, void *arg,
                        struct err *e) MUST_CHECK;
int provider_image_make(struct provider *p, const struct ctx *ctx, const struct image_order *order,
                        image_phase_fn *phase, void *arg, struct err *e) MUST_CHECK;
int provider_image_remove(struct provider *p, const struct ctx *ctx, struct str name, struct err *e)
    MUST_CHECK;
int provider_image_pull(struct provider *p, const struct ctx *ctx, struct str name,
                        image_phase_fn *phase, void *arg, struct err *e) MUST_CHECK;

int box_info(struct box *b, const struct ctx *ctx, struct box_info *out, struct err *e) MUST_CHECK;
int box_destroy(struct box *b, const struct ctx *ctx, struct err *e) MUST_CHECK;
int box_extend(struct box *b, const struct ctx *ctx, int32_t lifetime_s, struct err *e) MUST_CHECK;
int box_pause(struct box *b, const struct ctx *ctx, struct err *e) MUST_CHECK;
int box_resume(struct box *b, const struct ctx *ctx, struct err *e) MUST_CHECK;
int box_exec(struct box *b, const struct ctx *ctx, const struct exec_req *req,
             const struct sink *output, struct exec_result *out, struct err *e) MUST_CHECK;
int box_task_attach(struct box *b, const struct ctx *ctx, const struct attach_req *req,
                    const struct sink *output, struct exec_result *out, struct err *e) MUST_CHECK;
int box_task_state(struct box *b, const struct ctx *ctx, struct str id, task_state_fn *each,
                   void *arg, struct err *e) MUST_CHECK;
int box_task_kill(struct box *b, const struct ctx *ctx, struct str id, int32_t grace_ms,
                  struct err *e) MUST_CHECK;
int box_file_stat(struct box *b, const struct ctx *ctx, struct str path, struct file_info *out,
                  struct err *e) MUST_CHECK;
int box_file_list(struct box *b, const struct ctx *ctx, const struct list_req *req,
                  file_info_fn *each, void *arg, bool *more, struct err *e) MUST_CHECK;
int box_file_read(struct box *b, const struct ctx *ctx, struct str path, int64_t from, int64_t max,
                  const struct sink *to, struct file_info *out, struct err *e) MUST_CHECK;
int box_file_write(struct box *b, const struct ctx *ctx, struct str path, mode_t mode,
                   enum write_flags flags, const struct source *from, struct file_info *out,
                   struct err *e) MUST_CHECK;
int box_file_mkdir(struct box *b, const struct ctx *ctx, struct str path, struct err *e) MUST_CHECK;
int box_file_remove(struct box *b, const struct ctx *ctx, struct str path, struct err *e)
    MUST_CHECK;
int box_tree_list(struct box *b, const struct ctx *ctx, const struct tree_req *req,
                  tree_entry_fn *each, void *arg, struct tree_facts *out, struct err *e) MUST_CHECK;
bool box_tree_splits(struct box *b, uint64_t bytes);
int box_tree_put(struct box *b, const struct ctx *ctx, struct str root,
                 const struct tree_source *from, struct put_result *out, struct err *e) MUST_CHECK;
int box_tree_get(struct box *b, const struct ctx *ctx, struct str root, const struct str *paths,
                 size_t n, const struct tree_sink *to, struct err *e) MUST_CHECK;
int box_tree_prune(struct box *b, const struct ctx *ctx, struct str root, const struct str *paths,
                   size_t n, struct prune_result *out, struct err *e) MUST_CHECK;
int box_port_dial(struct box *b, const struct ctx *ctx, uint16_t port, struct err *e) MUST_CHECK;
int box_unix_dial(struct box *b, const struct ctx *ctx, struct str path, struct err *e) MUST_CHECK;
int box_usage(struct box *b, const struct ctx *ctx, struct usage *out, struct err *e) MUST_CHECK;

struct box *box_ref(struct box *b);
void box_unref(struct box *b); /* NULL is fine */

/* CLEANUP helper for locals: struct box *b CLEANUP(box_unref_p) = ... */
static inline void box_unref_p(struct box **b)
{
    box_unref(*b);
}

#endif
