/*
 * glob.h - one pattern, compiled once and matched often.
 *
 * A pattern is a row of tokens, and matching follows all ways through them at once: the time is
 * at most the product of the lengths of pattern and text, whatever the pattern is. Two dialects:
 * git's (wildmatch with slashes that only "**" crosses) and Python's fnmatch (every '*' crosses,
 * no escapes). Bytes, not characters: '?' is one byte.
 */
#ifndef TREE_GLOB_H
#define TREE_GLOB_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

#define GLOB_MAX 4096 /* bytes of a pattern */

enum glob_dialect {
    GLOB_GIT,
    GLOB_FNMATCH,
};

struct glob; /* in the arena it was made with */

/* Of at most GLOB_MAX bytes. A pattern that git calls malformed matches nothing. */
struct glob *glob_new(struct arena *a, enum glob_dialect dialect, struct str pattern);
bool glob_match(const struct glob *g, struct str text);

#endif
