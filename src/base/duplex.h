/*
 * duplex.h - two connected stream sockets: what one says goes to the other.
 *
 * Each direction has one bounded buffer and ends on its own: the end of one socket's input is
 * told to the other by shutdown(). When a socket is closed for good (or broken), what it said
 * before is still delivered, and nothing more is read for it. The caller sleeps:
 *
 *      while (duplex_wants(&d, fds)) {
 *          poll(fds, 2, duplex_wait_ms(&d)), and stop when that time passes;
 *          duplex_move(&d, fds);
 *      }
 */
#ifndef BASE_DUPLEX_H
#define BASE_DUPLEX_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

struct duplex_flow {
    int from, to;
    char *bytes;
    size_t start, end;
    bool at_end; /* no more will come */
    bool done;   /* and that was told, or nobody wants it */
};

struct duplex {
    struct duplex_flow flows[2];
    bool closed[2];
};

void duplex_init(struct duplex *d, int a, int b); /* borrows both */
void duplex_fini(struct duplex *d);
/* What to wait for. False: there is nothing left to do. */
bool duplex_wants(const struct duplex *d, struct pollfd fds[2]);
/* -1, or how long it is worth to wait for who takes the rest of what a closed one said. */
int duplex_wait_ms(const struct duplex *d);
/* Moves what can be moved; true when something was read. */
bool duplex_move(struct duplex *d, const struct pollfd fds[2]);

#endif
