/* feed.h - the beginning of a source: whether all that it has to give is little. */
#ifndef PROVIDER_FEED_H
#define PROVIDER_FEED_H

#include "base/buf.h"
#include "base/ctx.h"
#include "provider/provider.h"

#define FEED_MAX (32u << 10) /* bytes that are little */

/* What a source has to give, when that is little: *is_whole. Else `rest` reads on from there. */
struct feed {
    const struct source *from;
    struct buf some;
    bool is_whole;
};
void feed_init(struct feed *f, const struct source *from);
void feed_fini(struct feed *f);
int feed_fill(struct feed *f, const struct ctx *ctx, struct err *e) MUST_CHECK;
struct source feed_rest(struct feed *f); /* the bytes in `some` come first */

#endif
