/*
 * cli_sync.h - what `sync` and `cp` share: places, a sync with a progress bar, and what it says.
 */
#ifndef CLI_SYNC_H
#define CLI_SYNC_H

#include "cli.h"
#include "sync/sync.h"

/* One side of a copy. */
struct place {
    struct str box; /* empty: on this machine */
    struct str path;
};

/* "BOX:path"; a local path with a colon in its first part is written "./a:b". */
struct place cli_place(struct str typed);
/* Exactly one of both is in a box: EXIT_SUCCESS, or a sentence and EXIT_USAGE. */
int cli_places(const struct cli *cli, const char *const typed[2], struct place *from,
               struct place *to);

/* A path of this machine, whole and with its links resolved; a '/' at the end stays. Our own state
 * folder is refused. */
int cli_local(struct session *s, struct str typed, struct str *out, struct err *e) MUST_CHECK;

/* Looks, and does it with a bar on a terminal; says what was done. Returns the exit status. */
int cli_sync(const struct cli *cli, struct session *s, struct box *box, struct sync_job *job,
             bool dry_run);

/* ---- cli_bar.c -------------------------------------------------------------------------- */

/* One line on stderr that is written over: "[####......]  40 %  12.3 of 30.8 MiB ..." */
struct bar {
    bool shown; /* stderr is a terminal */
    int64_t started_ms, next_ms;
};

void bar_init(struct bar *b);
void bar_show(struct bar *b, const struct sync_progress *now);
void bar_clear(struct bar *b);
/* The line itself, for `columns` of a terminal. */
void bar_line(struct buf *to, const struct sync_progress *now, int64_t ms, int columns);

#endif
