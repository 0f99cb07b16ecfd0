/*
 * index_relay.h - the package index for an installer in a box that has no network.
 *
 * Theory of operation. A relay is one `python3 -c <packages/relay.py>` in the box, run by box_exec(), so
 * that there is one in boxes of every kind:
 *
 *   pip ---- HTTP on the box's loopback ----> relay.py ==== its standard streams ====> us ---- libcurl ---> index
 *
 * relay.py listens at a port of 127.0.0.1 and serves only who knows its secret, which it is told on
 * standard input: neither arguments nor environment have it. It knows no address of the index. It writes
 * lines and reads frames:
 *
 *   "port <n>"                       once: it listens
 *   "page <project>"                 wants the page of a project
 *   "file <hex> <word> [metadata]"   wants a file of such a page (index_fetch.h)
 *
 * Frames are 4 bytes of length (big-endian, of what follows), a letter and its payload: T the secret, first
 * of all; then for each line H "<status> <length or -1> <type, or with another status than 200 why>",
 * D bytes, E the end (with text: it broke off). One line at a time is answered.
 *
 * Two threads serve a relay: one is in box_exec() and moves bytes between the box and one end of a socket
 * pair, the other reads lines from the other end, fetches and writes frames. Whatever comes from the box is
 * bounded: a line has 8 KiB at most, and a box that does not wait for answers is cut off.
 *
 * The installer (packages/packages.py) keeps a connection to relay.py open, and that ends when the
 * connection does; so a relay ends with its installer, whoever waits for that, and with us. An installer that does not
 * come within a minute ends it, too.
 */
#ifndef CORE_INDEX_RELAY_H
#define CORE_INDEX_RELAY_H

#include "base/ctx.h"
#include "base/err.h"
#include "base/str.h"
#include "core/index_fetch.h"

struct box;
struct index_relay;
struct index_relays; /* all of a process */

#define INDEX_RELAYS_MAX 64

struct index_relays *index_relays_new(void);
/* Ends those that are still there. NULL is fine. */
void index_relays_free(struct index_relays *all);

/* One in this box, for one install; it listens when this returns. ERR_NOT_FOUND: no python3;
 * ERR_UNSUPPORTED: the provider cannot feed a command that runs; ERR_LIMIT, ERR_GONE and as box_exec(). */
struct index_relay *index_relay_start(struct index_relays *all, struct box *b,
                                      const struct ctx *ctx, const struct index_conf *conf,
                                      struct err *e) MUST_CHECK;
/* "http://127.0.0.1:<port>/<secret>/", in the arena. */
struct str index_relay_url(const struct index_relay *r, struct arena *a);
/* The caller is done with it; with `now` it ends at once, else with its installer. NULL is fine. */
void index_relay_leave(struct index_relay *r, bool now);

/* ---- what the second thread does (for tests) ------------------------------------------------ */

/* Answers lines that come from the stream until it ends. on_port is told of the first line. */
int index_relay_serve(int stream, const struct ctx *ctx, const struct index_conf *conf,
                      struct str secret, void (*on_port)(void *arg, uint16_t port), void *arg,
                      struct err *e) MUST_CHECK;

#endif
