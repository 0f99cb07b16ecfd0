/*
 * wire.h - the bytes of the agent protocol: frames, and fields inside a frame.
 *
 * A frame is a 32-bit length (of what follows it), one byte of type, and fields
 * one after another. Numbers are little-endian; a string is a 32-bit length and
 * its bytes; a list is a 32-bit count and its strings. Neither side trusts the
 * other: every length is checked against what is there and against FRAME_MAX
 * before anything is allocated, and a reader that met a bad field stays bad.
 */
#ifndef AGENT_WIRE_H
#define AGENT_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define FRAME_MAX    (4u << 20)  /* largest type + fields; a command may be 1 MiB */
#define FRAME_HEADER 5           /* length and type */
#define DATA_MAX     (64u << 10) /* most bytes that one DATA, INPUT or CHUNK carries */

/* ---- writing: frames are appended to a buf, complete ones only ------------- */

struct wire_out {
    struct buf *to;
    size_t start; /* where this frame began */
};

struct wire_out wire_begin(struct buf *to, uint8_t type);
void wire_u8(struct wire_out *w, uint8_t v);
void wire_u32(struct wire_out *w, uint32_t v);
void wire_u64(struct wire_out *w, uint64_t v);
void wire_str(struct wire_out *w, struct str s);
void wire_list(struct wire_out *w, const struct str *items, size_t n);
/* Fills in the length. False (and the frame is taken back) when it is larger than
 * FRAME_MAX or the buf was cut. */
bool wire_end(struct wire_out *w) MUST_CHECK;

/* ---- reading --------------------------------------------------------------- */

struct frame {
    uint8_t type;
    struct str fields; /* view into the buffer it was parsed from */
};

/* Looks for one whole frame at the start of `bytes`. Returns its total size with
 * *out filled in; 0 when more bytes are needed; -1 with ERR_PROTOCOL when the
 * length is 0 or above FRAME_MAX. */
ssize_t wire_parse(struct str bytes, struct frame *out, struct err *e) MUST_CHECK;

struct wire_in {
    struct str rest;
    bool bad; /* a field was missing or too long; sticky, later reads give zeros */
};

struct wire_in wire_read(struct str fields);
uint8_t wire_get_u8(struct wire_in *r);
uint32_t wire_get_u32(struct wire_in *r);
uint64_t wire_get_u64(struct wire_in *r);
struct str wire_get_str(struct wire_in *r); /* a view */
/* Views in an array of the arena; more than max items is bad. */
size_t wire_get_list(struct wire_in *r, struct arena *a, size_t max, const struct str **out);
/* True when nothing was bad and nothing is left over. */
bool wire_done(const struct wire_in *r);

#endif
