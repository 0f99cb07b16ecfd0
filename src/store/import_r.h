/*
 * import_r.h - the watches of a remote-sandbox-mcp, read from its own database.
 *
 * That database is not ours: it is opened for reading only and never written. While it has a
 * write-ahead log we read as one of its users do (mode=ro); without one nobody has it open, and
 * it is read as a file that does not change (immutable), which leaves nothing behind in
 * its folder either; if it did change meanwhile, what was read is not used. Columns are
 * found by their names, because older versions have fewer.
 */
#ifndef STORE_IMPORT_R_H
#define STORE_IMPORT_R_H

#include "store/watches.h"

#define IMPORT_MAX 2000 /* watches */

/* Its active watches, oldest first, in the arena: .id is its own number, order.box_name its
 * sandbox; owner and box_id are empty. ERR_NOT_FOUND: there is no such database. */
int store_r_watches(const char *path, struct arena *a, struct watch_row **out, size_t *n,
                    struct err *e) MUST_CHECK;
/* What its watchdog said last, JSON; empty: nothing. */
int store_r_heartbeat(const char *path, struct arena *a, struct str *out, struct err *e) MUST_CHECK;

/* Adds them all, due at once, unless `key` is set already (store_get_watchdog): sets it to
 * `note`. One transaction: 1; 0 when it was done before. */
int store_import_watches(struct store *s, struct str key, struct str note,
                         const struct watch_row *rows, size_t n, struct err *e) MUST_CHECK;

#endif
