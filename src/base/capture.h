/*
 * capture.h - keep the head and the tail of a stream, count the rest.
 *
 * Offsets are positions in the whole stream. The first head_max bytes and the
 * last tail_max bytes are kept; what lies between is lost and counted. Memory
 * grows with what arrives and is bounded by head_max + tail_max: `yes` costs a
 * bounded buffer. A zeroed capture keeps nothing; capture_fini() accepts it.
 */
#ifndef BASE_CAPTURE_H
#define BASE_CAPTURE_H

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/str.h"

struct capture {
    size_t head_max, tail_max;
    char *head;
    size_t head_len, head_cap;
    char *tail; /* a ring once it is full */
    size_t tail_len, tail_cap, tail_start;
    uint64_t total; /* bytes ever added */
};

void capture_init(struct capture *c, size_t head_max, size_t tail_max); /* allocates nothing */
void capture_fini(struct capture *c);
void capture_add(struct capture *c, struct str bytes);

/* The bytes kept at offset *from on, as one contiguous view (there may be more
 * behind it: call again with *from advanced by what was used). When *from lies in
 * the lost part it is moved to the first kept byte behind it. Empty: nothing
 * (yet) at or behind *from. The view is valid until the next capture_add(). */
struct str capture_at(const struct capture *c, uint64_t *from);

uint64_t capture_lost(const struct capture *c); /* bytes between head and tail */

#define own_capture CLEANUP(capture_fini)

#endif
