/*
 * talk.h - one conversation with a box's agent: a descriptor, what came in and was
 * not yet looked at, what is to go out and did not yet fit.
 *
 * The agent's side is not trusted: a frame that does not fit TALK_IN is refused,
 * and the text of a FAIL is made harmless. The request is put into `out` before
 * anything is read, so that one write carries it; HELLO is looked at when it comes.
 */
#ifndef PROVIDER_TALK_H
#define PROVIDER_TALK_H

#include "agent/proto.h"
#include "agent/wire.h"
#include "base/buf.h"
#include "base/ctx.h"
#include "provider/provider.h"

#define TALK_IN       (DATA_MAX + 4096u) /* the largest frame we take */
#define ARG_BYTES_MAX ((128u << 10) - 1) /* execve: one string with its NUL, 32 pages */
#define TALK_OUT      (FRAME_MAX + 4 * (DATA_MAX + 64)) /* a request and the first input */

#define TALK_GREET_MS  10000 /* a box that has not greeted by then is stopped or swamped */
#define TALK_SILENT_MS 30000 /* the same for one that owes us an answer */

struct talk {
    struct box *box;
    int fd;
    int64_t greet_by_ms;
    char *in;
    size_t start, end; /* unread bytes of in */
    struct buf out;    /* not sent yet */
    bool exact;        /* reads no byte beyond the frame that is coming: fd goes to another */
    bool greeted;
    uint32_t version; /* of the protocol that both speak; known once it has greeted */
    bool spoke;       /* something was sent: it may have been heard */
    bool closed;      /* the other side has ended; all that it said is in `in` */
};

#define TALK_NONE ((struct talk){.fd = -1})

int talk_open(struct talk *t, struct box *b, const struct ctx *ctx, struct err *e) MUST_CHECK;
void talk_close(struct talk *t);
#define own_talk CLEANUP(talk_close)

/* Sends what fits. What is left is for POLLOUT; to a closed stream it is dropped. */
int talk_flush(struct talk *t, struct err *e) MUST_CHECK;
bool talk_unsent(const struct talk *t);
/* Takes in what is there, once; none or the end (t->closed) is fine. */
int talk_read(struct talk *t, struct err *e) MUST_CHECK;
/* 1 with the next frame after HELLO; 0 when there is no whole one yet. The frame is
 * valid until the next talk_read(). A FAIL frame is an error: its own. */
int talk_next(struct talk *t, struct frame *out, struct err *e) MUST_CHECK;
/* Sleeps until something can be done; `extra` is one more descriptor or NULL. Returns
 * as ctx_wait() does. ERR_UNREACHABLE when the greeting is overdue. */
int talk_wait(struct talk *t, const struct ctx *ctx, struct pollfd *extra, int64_t until_ms,
              struct err *e) MUST_CHECK;
/* Flushes and waits for the next frame. As talk_ended() when the other side ends instead,
 * ERR_UNREACHABLE when it says nothing for TALK_SILENT_MS. */
int talk_get(struct talk *t, const struct ctx *ctx, struct frame *out, struct err *e) MUST_CHECK;
/* The same, and it has to be of this type with these fields read by the caller. */
int talk_expect(struct talk *t, const struct ctx *ctx, uint8_t type, struct frame *out,
                struct err *e) MUST_CHECK;

/* The connection ended before the answer: ERR_GONE when the box did, ERR_UNREACHABLE when
 * only the process in it that served us has been killed. */
int talk_ended(const struct talk *t, const struct ctx *ctx, struct err *e);
/* After a connection has ended: true when the box still greets. Else *why is ERR_GONE with
 * the reason, where that is known within a moment. */
bool talk_lives(struct box *b, const struct ctx *ctx, struct err *why);
/* "it has not answered for ... s" */
int talk_silent(struct err *e, int64_t ms);
/* "the sandbox's agent sent a ... that cannot be read" */
int talk_bad(struct err *e, const char *what);

/* A path or name for the agent: not empty (unless `empty_ok`), no NUL, not too long. */
int talk_check_text(struct str s, size_t max, bool empty_ok, const char *what, struct err *e)
    MUST_CHECK;
/* Each entry is NAME=value and fits into an execve(). */
int talk_check_env(const struct str *env, size_t n, struct err *e) MUST_CHECK;

#endif
