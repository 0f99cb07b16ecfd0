/*
 * file.h - what GET and PUT /sandbox/file share: which file is meant, in which box, for whom,
 * and that both are told in the logs like calls of tools.
 *
 * A handler answers by itself and leaves what went wrong in *e, whose kind is ERR_NONE when
 * all went well.
 */
#ifndef SERVE_HTTP_FILE_H
#define SERVE_HTTP_FILE_H

#include "core/boxes.h"
#include "serve/http/request.h"

#define FILE_PATH_MAX 4096

/* What the query names. */
struct target {
    struct box_want want;
    struct str path;
    struct str link; /* what came as such; empty: nothing */
    struct str box_id;
};

/* For errors of the box: 507 when its disk is full, else as ever. */
void file_fail(struct request *r, const struct err *e);
/* stat, and a while of patience with a box that serves as many requests as it can. */
int file_stat(struct request *r, struct box *b, struct str path, struct file_info *out,
              struct err *e) MUST_CHECK;
/* That a box is too busy is worth another try until then. False when it is something else, or
 * too late. */
bool file_wait_while_busy(struct request *r, int64_t until_ms, struct err *e);
#define FILE_BUSY_MS 5000
/* ERR_INVALID unless it is a regular file. */
int file_check_regular(struct str path, const struct file_info *info, struct err *e) MUST_CHECK;

/* file_get.c, file_put.c */
void file_get(struct request *r, struct box *b, const struct target *t, struct err *e);
void file_put(struct request *r, struct box *b, const struct target *t, struct err *e);

#endif
