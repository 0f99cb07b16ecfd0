/* watch_sql.h - what watches.c, watch_events.c and import_r.c share; under the store's lock. */
#ifndef STORE_WATCH_SQL_H
#define STORE_WATCH_SQL_H

#include "store/watches.h"

/* An active watch that is due at once, and its number. */
int watch_sql_add(struct store *s, const struct watch_order *order, struct str task_run,
                  int64_t *out, struct err *e) MUST_CHECK;
/* 1; 0 when the row is no longer as `seen`. */
int watch_sql_update(struct store *s, const struct watch_row *seen,
                     const struct watch_memory *memory, const struct watch_words *words,
                     bool has_events, struct err *e) MUST_CHECK;
/* The event and what it owes, in the transaction that is open. Fills in its number. */
int watch_sql_add_event(struct store *s, const struct watch_row *watch, struct new_event *event,
                        struct err *e) MUST_CHECK;

#endif
