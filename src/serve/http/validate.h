/* validate.h - ETag, Last-Modified and the conditions that clients put on them. Pure. */
#ifndef SERVE_HTTP_VALIDATE_H
#define SERVE_HTTP_VALIDATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define VALIDATE_ETAG_SIZE 48
#define VALIDATE_DATE_SIZE 32

/* Of a file's size and time. Weak ("W/...") while the file may still change within the second
 * that its time names: then nobody may glue two parts together by it. A view of `to`. */
struct str validate_etag(int64_t size, int64_t mtime_s, int64_t now_s, char to[VALIDATE_ETAG_SIZE]);
/* "Sun, 06 Nov 1994 08:49:37 GMT"; a view of `to`. */
struct str validate_date(int64_t wall_s, char to[VALIDATE_DATE_SIZE]);

/* If-None-Match: "*", or a list that has this tag, weak or not. */
bool validate_etag_in(struct str list, struct str etag);
/* If-Modified-Since: a date, and the file is not newer. False for what is no date. */
bool validate_not_since(struct str date, int64_t mtime_s);
/* If-Range: the same strong tag, or exactly the same date with a strong tag. */
bool validate_if_range(struct str condition, struct str etag, struct str date);

#endif
