/*
 * sftp_group.h - a group of files, of which each is asked the same before the answers are awaited:
 * so a group costs a round trip for each kind of request, and not each file.
 */
#ifndef PROVIDER_SSH_SFTP_GROUP_H
#define PROVIDER_SSH_SFTP_GROUP_H

#include "provider/ssh/sftp_file.h"
#include "tree/entry.h"

#define GROUP       32
#define GROUP_SMALL (128u << 10) /* contents of this size are held in memory */

/* One entry of a group, and what the host last said about it. */
struct item {
    struct tree_entry entry; /* strings in the group's arena */
    struct str full, temp;   /* paths on the host */
    struct buf bytes;
    struct str handle;
    bool is_open, has_failed;
    bool is_large; /* its contents are still in the source */
    struct err why;
    uint32_t id;
    bool is_asked;
};

struct group {
    struct file_job job;
    struct str root;
    struct arena arena; /* of one group */
    struct item items[GROUP];
    size_t n;
};

int group_begin(struct group *g, struct box *b, const struct ctx *ctx, struct str root,
                struct err *e) MUST_CHECK;
void group_fini(struct group *g);                        /* also after group_begin() has failed */
void group_clear(struct group *g);                       /* for the next files */
struct str group_path(struct group *g, struct str path); /* on the host */
void group_add(struct group *g, struct str path);

/* Builds the request for an item, with its id in it->id; false: it has none. */
typedef bool ask_fn(struct group *g, struct item *it);
/* Looks at its answer; -1 ends it all. */
typedef int answer_fn(struct group *g, struct item *it, const struct sftp_packet *p, struct err *e);

enum which {
    WELL,
    FAILED,
};

int group_ask(struct group *g, enum which which, ask_fn *ask, answer_fn *answer, struct err *e)
    MUST_CHECK;

answer_fn group_answer_handle, group_answer_status, group_answer_ignored;
ask_fn group_ask_close;
void item_failed(struct item *it, const struct sftp_packet *p, const char *doing);

#endif
