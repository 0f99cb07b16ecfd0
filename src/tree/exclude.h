/*
 * exclude.h - which entries of a tree are left out.
 *
 * A list of patterns in order; the last one that matches decides. Git's rules (gitignore(5)):
 * '!' takes back, a '/' at the start or in the middle binds to the folder of the list, one at
 * the end means folders only, "**" crosses folders, '*' and '?' do not, what lies in a folder
 * that is left out cannot be taken back. Legacy: the rules of remote-sandbox-mcp (fnmatch on
 * the whole path, '*' crosses '/', a pattern without '/' matches any component).
 *
 * Pure, bytes in and an answer out; both ends of a sync have the same list. Matching one pattern takes
 * time linear in the path for sane patterns and never more than pattern times path.
 */
#ifndef TREE_EXCLUDE_H
#define TREE_EXCLUDE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#define EXCLUDES_MAX 10000 /* patterns of one list */

enum exclude_style {
    EXCLUDE_GIT,
    EXCLUDE_LEGACY,
};

enum exclude_answer {
    EXCLUDE_UNSAID, /* no pattern matches: it stays */
    EXCLUDE_OUT,
    EXCLUDE_KEPT, /* the last match took it back */
};

struct exclude; /* in the arena it was made with */

struct exclude *exclude_new(struct arena *a, enum exclude_style style);
/* One pattern as a line of a file: blank lines and "# ..." are nothing. `base` is the folder
 * (a relative path, "" the root) whose list it is: a .gitignore below the root. ERR_INVALID for
 * a pattern that is too long, ERR_LIMIT for one too many. */
int exclude_add(struct exclude *x, struct str base, struct str line, struct err *e) MUST_CHECK;
/* The folders that remote-sandbox-mcp leaves out; in git style at every depth. */
void exclude_add_defaults(struct exclude *x);
/* A text of lines. */
int exclude_add_text(struct exclude *x, struct str base, struct str text, struct err *e) MUST_CHECK;
/* Folders above it were asked about before: what is in one that is out is never asked about. */
enum exclude_answer exclude_ask(const struct exclude *x, struct str path, bool is_dir);
/* True: this entry is left out, and with a folder all below it. */
bool exclude_match(const struct exclude *x, struct str path, bool is_dir);

#endif
