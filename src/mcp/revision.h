/*
 * revision.h - the protocol's revisions and what differs between them, in one table.
 *
 * Code asks revision_has() and never compares revisions.
 */
#ifndef MCP_REVISION_H
#define MCP_REVISION_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

enum revision { /* in order of time */
                REV_NONE,
                REV_2024_11_05,
                REV_2025_03_26,
                REV_2025_06_18,
                REV_2025_11_25,
                REV_2026_07_28,
                REV_COUNT,
};

#define REV_ASSUMED REV_2025_03_26 /* for who asks before initialize, as over HTTP */

enum revision_trait {
    REV_MODERN = 1 << 0,        /* no handshake: version and capabilities come in each request */
    REV_BATCHES = 1 << 1,       /* an array of messages is a message */
    REV_ANNOTATIONS = 1 << 2,   /* tools have hints */
    REV_PROGRESS_TEXT = 1 << 3, /* progress has a `message` */
    REV_TITLES = 1 << 4,        /* `title` beside names, `_meta` on objects */
    REV_RESULT_TYPE = 1 << 5,   /* results say resultType and, in _meta, who answered */
    REV_CACHE_HINTS = 1 << 6,   /* lists say ttlMs and cacheScope */
    REV_ELICITATION = 1 << 7,   /* a person can be asked, with a form ... */
    REV_URL_MODE = 1 << 8,      /* ... or by an address */
    REV_COMPLETIONS = 1 << 9,   /* the capability of that name */
    REV_AUDIO = 1 << 10,        /* content blocks with sound ... */
    REV_LINKS = 1 << 11,        /* ... and with links to resources */
};

const char *revision_name(enum revision r); /* "2025-11-25" */
bool revision_has(enum revision r, enum revision_trait trait);
enum revision revision_find(struct str name); /* REV_NONE when we do not speak it */

/* ["2026-07-28",...]: all that we speak, newest first. */
void revision_add_all(struct buf *out);

/* What initialize answers: the wanted legacy revision, or the newest legacy one. */
enum revision revision_agree(struct str wanted);

#endif
