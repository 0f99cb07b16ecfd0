/*
 * agent_parts.h - the contents of one large file over several connections at once.
 *
 * A link with a delay carries as much as its window is wide, and SSH has a window for each
 * connection: so a large file goes over several (agent_box.lane), each with a conversation of
 * its own beside the one that the file belongs to (agent/proto.h, TREE_PART_*). The first of
 * them takes the usual way; the others are asked for when the file begins and come in when they
 * are there. What was to go over one that is lost goes over the others.
 */
#ifndef PROVIDER_AGENT_PARTS_H
#define PROVIDER_AGENT_PARTS_H

#include "agent/entries.h"
#include "provider/over_agent.h"
#include "provider/talk.h"

#define LANES_MAX 4 /* with the first one */

struct parts_req {
    struct box *box;
    const struct ctx *ctx;
    struct str root, path; /* of the file, below the root */
    uint64_t size;
    int64_t mtime_ns;
    /* Of a put: the conversation that waits meanwhile and hears of us from time to time; what
     * it says ends it all. */
    struct talk *main;
    struct entries_out *alive;
};

/* Both: 1 when the contents are whole, 0 when the file has failed for itself alone (with why), -1. */
int parts_put(const struct parts_req *req, struct str temp, const struct tree_source *from,
              char why[ENTRIES_WHY + 1], struct err *e) MUST_CHECK;
int parts_get(const struct parts_req *req, const struct tree_sink *to, char why[ENTRIES_WHY + 1],
              struct err *e) MUST_CHECK;

/* Is it worth it, and can it be? */
bool parts_fit(const struct box *b, const struct tree_entry *entry);

#endif
