/*
 * sftp.h - SFTP version 3 over a subsystem channel: packets, and many requests under way at
 * once. libssh's own functions wait for each answer and have no asynchronous writes.
 *
 * A struct sftp belongs to one call at a time. One that ended well is kept for the next
 * call: starting the server's side costs as much as a command.
 */
#ifndef PROVIDER_SSH_SFTP_H
#define PROVIDER_SSH_SFTP_H

#include "base/buf.h"
#include "provider/provider.h"
#include "provider/ssh/machine.h"

#define SFTP_PACKET_MAX (256u << 10)
#define SFTP_BLOCK      (32u << 10)              /* what every server takes in one request */
#define SFTP_BLOCK_MAX  (SFTP_PACKET_MAX - 1024) /* what we ask for of one that takes more */
#define SFTP_AHEAD      (4u << 20)               /* bytes under way */
#define SFTP_SLOTS      (SFTP_AHEAD / SFTP_BLOCK)

enum sftp_type {
    SFTP_INIT = 1,
    SFTP_VERSION = 2,
    SFTP_OPEN = 3,
    SFTP_CLOSE = 4,
    SFTP_READ = 5,
    SFTP_WRITE = 6,
    SFTP_LSTAT = 7,
    SFTP_FSTAT = 8,
    SFTP_SETSTAT = 9,
    SFTP_FSETSTAT = 10,
    SFTP_OPENDIR = 11,
    SFTP_READDIR = 12,
    SFTP_REMOVE = 13,
    SFTP_MKDIR = 14,
    SFTP_RMDIR = 15,
    SFTP_REALPATH = 16,
    SFTP_STAT = 17,
    SFTP_RENAME = 18,
    SFTP_READLINK = 19,
    SFTP_SYMLINK = 20,
    SFTP_STATUS = 101,
    SFTP_HANDLE = 102,
    SFTP_DATA = 103,
    SFTP_NAME = 104,
    SFTP_ATTRS = 105,
    SFTP_EXTENDED = 200,
    SFTP_EXTENDED_REPLY = 201,
};

enum sftp_status {
    SFTP_OK = 0,
    SFTP_EOF = 1,
    SFTP_NO_SUCH_FILE = 2,
    SFTP_PERMISSION_DENIED = 3,
    SFTP_FAILURE = 4,
    SFTP_UNSUPPORTED = 8,
};

enum sftp_open {
    SFTP_OPEN_READ = 1,
    SFTP_OPEN_WRITE = 2,
    SFTP_OPEN_APPEND = 4,
    SFTP_OPEN_CREATE = 8,
    SFTP_OPEN_EXCLUSIVE = 32,
};

struct sftp {
    struct list link; /* machine.idle_sftp */
    struct chan *chan;
    struct buf in; /* not looked at yet */
    size_t in_at;  /* of which so much was */
    size_t in_max;
    struct buf out[2]; /* as chan_take() gives it */
    struct buf packet; /* being built */
    uint32_t next_id;
    bool has_posix_rename, has_limits;
    uint32_t block; /* bytes of one READ or WRITE, once sftp_learn_block() has asked; else 0 */
    bool is_broken; /* in the middle of something: not for another call */
};

/* One packet of the server; `body` is valid until the next sftp_get(). */
struct sftp_packet {
    enum sftp_type type;
    uint32_t id;
    struct str body;
};

struct sftp *sftp_take(struct machine *m, const struct ctx *ctx, struct err *e) MUST_CHECK;
void sftp_give(struct machine *m, struct sftp *s); /* back, for the next call; NULL is fine */
void sftp_drop_idle(struct machine *m);

/* Building a request: begin, add, send. The id is returned by begin. */
uint32_t sftp_begin(struct sftp *s, enum sftp_type type);
void sftp_u32(struct sftp *s, uint32_t n);
void sftp_u64(struct sftp *s, uint64_t n);
void sftp_text(struct sftp *s, struct str text);
int sftp_send(struct sftp *s, const struct ctx *ctx, struct err *e) MUST_CHECK;
int sftp_get(struct sftp *s, const struct ctx *ctx, struct sftp_packet *out, struct err *e)
    MUST_CHECK;
/* Sends and waits for the answer to just this. */
int sftp_ask(struct sftp *s, const struct ctx *ctx, uint32_t id, struct sftp_packet *out,
             struct err *e) MUST_CHECK;

/* How much a READ or WRITE may carry here: asked once, for files that are worth it. */
int sftp_learn_block(struct sftp *s, const struct ctx *ctx, struct err *e) MUST_CHECK;

/* ---- sftp_read.c: pure --------------------------------------------------------------- */

/* The packet that these bytes begin with: how many it takes, 0 when it is not whole yet, -1 when
 * it can be none. */
ssize_t sftp_cut(struct str bytes, struct sftp_packet *out);
/* Reading: beyond the end they give 0 and "", and *bad becomes true. */
struct sftp_in {
    struct str rest;
    bool bad;
};
uint32_t sftp_get_u32(struct sftp_in *in);
uint64_t sftp_get_u64(struct sftp_in *in);
struct str sftp_get_text(struct sftp_in *in);
void sftp_get_attrs(struct sftp_in *in, struct file_info *out);

/* A file's name and what it is, of a NAME packet. False: the packet ends before. A name that
 * could lead elsewhere, empty or with a '/', is bad. */
bool sftp_get_name(struct sftp_in *in, struct file_info *out);
/* The status of a STATUS packet, else SFTP_FAILURE. */
enum sftp_status sftp_status_of(const struct sftp_packet *p);
/* Fails with what a STATUS packet says about this path. */
int sftp_fail(const struct sftp_packet *p, const char *doing, struct str path, struct err *e);
int sftp_bad(struct sftp *s, struct err *e); /* ERR_PROTOCOL */

#endif
