/* watch_sql.h - what watches.c and watch_events.c share; under the store's lock. */
#ifndef STORE_WATCH_SQL_H
#define STORE_WATCH_SQL_H

#include "store/watches.h"

/* The event and what it owes, in the transaction that is open. Fills in its number. */
int watch_sql_add_event(struct store *s, const struct watch_row *watch, struct new_event *event,
                        struct err *e) MUST_CHECK;

#endif
