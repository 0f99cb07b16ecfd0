/*
 * offer.h - what there is besides tools/list and tools/call, by the rows of the tables: what
 * has no row is neither declared nor served.
 */
#ifndef MCP_OFFER_H
#define MCP_OFFER_H

#include <stdbool.h>

#include "base/buf.h"
#include "mcp/revision.h"

struct mcp;

enum offer {
    OFFER_PROMPTS = 1 << 0,
    OFFER_RESOURCES = 1 << 1,
    OFFER_COMPLETIONS = 1 << 2,
    OFFER_LOGGING = 1 << 3,
    OFFER_SUBSCRIBE = 1 << 4, /* to single resources */
};

/* enum offer: what is shown by this one; NULL: what there is at all */
unsigned offers(const struct mcp *m);
unsigned offers_changes(void); /* enum change: of which clients are told */
/* "capabilities":{...} */
void offers_add(const struct mcp *m, struct buf *out, enum revision rev);

#endif
