/*
 * sync.h - makes a folder here and a folder in a box the same, in one direction.
 *
 * Three steps, each of which asks the box once: look (both trees are listed side by side and
 * compared: struct sync_plan), send or fetch what differs as one stream, remove what is too
 * much. A file differs when its size does or its mtime by more than a second, or with
 * `checksum` its contents. Files are replaced whole (tree/apply.h), so a sync that is cut is
 * gone on with by making it again: what arrived is not sent twice.
 *
 * This layer knows boxes (provider.h) and trees; it knows no tools, no database and no JSON.
 * Local paths come here absolute and already allowed (see roots.h).
 */
#ifndef SYNC_SYNC_H
#define SYNC_SYNC_H

#include "base/arena.h"
#include "base/ctx.h"
#include "provider/provider.h"

enum sync_direction {
    SYNC_UP,   /* local_to_remote */
    SYNC_DOWN, /* remote_to_local */
};

/* What is wanted. Plain data: a transfer's row holds just this. */
struct sync_job {
    enum sync_direction direction;
    struct str local;  /* absolute; a '/' at the end means a folder */
    struct str remote; /* as the box's file tools take paths; a '/' at the end means a folder */
    bool delete_extras;
    bool checksum;
    bool gitignore;             /* respect_gitignore */
    bool legacy_style;          /* exclude_style="legacy" */
    const struct str *excludes; /* lines, in order: exclude_file, excludes; after the defaults */
    size_t n_excludes;
    /* Not part of what is wanted, but of where it runs: delete_extras never touches these and
     * what contains them. Filled in by who calls sync_look(), not stored. */
    struct str home, state_dir; /* absolute; may be empty */
};

/* One difference. */
enum sync_action {
    SYNC_MAKE_DIR,
    SYNC_SEND_NEW, /* a file or link that is not there */
    SYNC_SEND_CHANGED,
    SYNC_SET_META, /* only mode or (of a folder) mtime */
    SYNC_DELETE,
};

struct sync_counts {
    uint64_t dirs, files, links; /* to make or send */
    uint64_t metadata;           /* only mode or mtime to set */
    uint64_t unchanged;          /* files and links whose contents are the same */
    uint64_t delete_files, delete_dirs;
    uint64_t bytes;                         /* of the files to send */
    uint64_t excluded, unreadable, special; /* left out; special: devices, fifos, sockets */
};

struct sync_plan; /* sync_plan_free() */

typedef int sync_step_fn(void *arg, enum sync_action action, const struct tree_entry *entry,
                         struct err *e);

/* Looks at both sides. Nothing is changed. ERR_NOT_FOUND, ERR_INVALID (a file where a folder is
 * meant, a root that delete_extras must not touch) with a sentence. */
struct sync_plan *sync_look(struct box *b, const struct ctx *ctx, const struct sync_job *job,
                            struct err *e);
void sync_plan_free(struct sync_plan *p); /* NULL is fine */
const struct sync_counts *sync_plan_counts(const struct sync_plan *p);
bool sync_plan_is_file(const struct sync_plan *p); /* one file, not a folder */
/* Empty, or why delete_extras removes nothing: parts of the source could not be read, so nobody
 * can say what is too much. */
struct str sync_plan_held(const struct sync_plan *p);
/* Empty, or one of counts.unreadable: "path: why". */
struct str sync_plan_unreadable(const struct sync_plan *p);
/* Where it goes, as told in answers: normalised. */
struct str sync_plan_remote(const struct sync_plan *p);
struct str sync_plan_local(const struct sync_plan *p);
/* Each difference in order; deletions last. Entries are good during the call. */
int sync_plan_each(const struct sync_plan *p, sync_step_fn *each, void *arg, struct err *e)
    MUST_CHECK;

enum sync_phase {
    SYNC_PHASE_SEND, /* or fetch */
    SYNC_PHASE_DELETE,
    SYNC_PHASE_DONE,
};

struct sync_progress {
    enum sync_phase phase;
    uint64_t files, files_total; /* links count as files here */
    uint64_t bytes, bytes_total;
    struct str path; /* of the file under way; good during the call */
};

/* Told often (each file, each 64 KiB); who listens decides how often to pass it on. -1 stops. */
typedef int sync_progress_fn(void *arg, const struct sync_progress *now, struct err *e);

struct sync_result {
    struct sync_counts done; /* what was really made, sent, removed */
    uint64_t failed;         /* files that could not be read or written for themselves alone */
    struct str first_failed; /* "path: why"; in ctx->arena */
};

/* Carries the plan out. On a failure *out tells what was done before it. */
int sync_apply(struct sync_plan *p, struct box *b, const struct ctx *ctx,
               sync_progress_fn *progress, void *arg, struct sync_result *out, struct err *e)
    MUST_CHECK;

#endif
