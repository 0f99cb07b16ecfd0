/*
 * mux.h - many conversations over one byte stream.
 *
 * Between anybox and an agent on another machine (or in a container) there is one stream: an
 * SSH channel, a long exec. The mux carries over it what locally are connections of their
 * own: each conversation is a stream socket at either end, and whoever holds the other end
 * of that socket (a call's thread, boxinit serve) does not know of the mux. Bytes, the end
 * of one direction and the end of both are carried over.
 *
 * It is a state machine with one owner thread. The owner gives it the bytes that came
 * (mux_feed), sends what mux_out() shows, and sleeps on its stream and on mux_fd(), which is
 * readable when a conversation has something to move (then mux_turn()):
 *
 *      for (;;) {
 *          poll the stream for reading, for writing while mux_out() is not empty, and mux_fd();
 *          mux_feed() what was read; mux_turn() when mux_fd() is ready;
 *          write mux_out(), and tell how much of it went: mux_sent();
 *      }
 *
 * Flow. What came for a conversation is written to its socket at once, and what does not fit
 * is kept; a side may have sent no more than the other granted it: MUX_FIRST bytes, and again
 * as many as were taken off its hands. Each side grants up to MUX_EARLY as soon as a conversation
 * begins, which on a long way saves the round trips that growing takes. A window grows while its
 * reader keeps up, to MUX_WINDOW, so that a long way is filled, and all windows together stay
 * below MUX_TOTAL.
 * So mux_feed() takes whatever comes, memory is bounded, and a conversation that nobody reads
 * stops nobody else. Of what is to be sent no more than about MUX_OUT is prepared, one piece
 * of each conversation in turn: a small message does not wait behind a flood.
 *
 * Only one side begins conversations; the other has `accept`. A conversation ends when each
 * side has sent CLOSE: after EOF, because both directions have ended, and then what came before
 * is still delivered; or without it, because where it was begun its end was closed while the
 * other side took no more, and then that side's end is closed at once. After both its number is
 * free again.
 *
 * Neither side trusts the other: what cannot be right is ERR_PROTOCOL, and the stream has to
 * be given up. Frames are eight bytes, little-endian, and for DATA the bytes:
 *
 *      u8 type, u8 0, u16 conversation, u32 n
 *      OPEN    n = 0   a new conversation
 *      DATA    n bytes follow, 1 to MUX_DATA
 *      CREDIT  n more bytes may be sent
 *      EOF     n = 0   no more DATA of this conversation
 *      CLOSE   n = 0   no more frames of it, and none are wanted
 */
#ifndef AGENT_MUX_H
#define AGENT_MUX_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define MUX_STREAMS 512          /* conversations at once */
#define MUX_DATA    (32u << 10)  /* most bytes of one DATA */
#define MUX_FIRST   (128u << 10) /* what may be sent before anything was granted */
#define MUX_EARLY   MUX_WINDOW   /* what is granted before anything came, while there is enough */
#define MUX_WINDOW  (4u << 20)   /* and the most that may ever be under way */
#define MUX_TOTAL   (128u << 20) /* of all conversations together */
#define MUX_OUT     (128u << 10) /* prepared for sending */

enum mux_frame {
    MUX_OPEN = 1,
    MUX_GIVE = 2, /* DATA */
    MUX_CREDIT = 3,
    MUX_EOF = 4,
    MUX_CLOSE = 5,
};

struct mux;

/* The other side begins a conversation: a connected stream socket for it, which the mux then
 * owns. -1: it is closed at once. */
typedef int mux_accept_fn(void *arg);

/* Without `accept` this is the side that begins conversations. */
struct mux *mux_new(mux_accept_fn *accept, void *arg, struct err *e) MUST_CHECK;
void mux_free(struct mux *m); /* closes the sockets; NULL is fine */

/* Begins a conversation. Takes the socket (and makes it non-blocking), also when it fails:
 * ERR_LIMIT when there are MUX_STREAMS, ERR_PROTOCOL after mux_feed() failed. */
int mux_open(struct mux *m, int fd, struct err *e) MUST_CHECK;
unsigned mux_count(const struct mux *m); /* conversations that have not ended */

/* Readable when mux_turn() has something to do. Never read or written by others. */
int mux_fd(const struct mux *m);
/* Looks which sockets can be read or written, and writes what waits for them. */
void mux_turn(struct mux *m);
/* All bytes that came over the stream, in order, in pieces of any size. */
int mux_feed(struct mux *m, struct str bytes, struct err *e) MUST_CHECK;
/* What is to be sent next; reads from sockets until there is enough. Valid until the next
 * call of any mux function. */
struct str mux_out(struct mux *m);
void mux_sent(struct mux *m, size_t n); /* the first n bytes of it went */

#endif
