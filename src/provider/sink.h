/* sink.h - the plainest places for output to go. */
#ifndef PROVIDER_SINK_H
#define PROVIDER_SINK_H

#include "base/buf.h"
#include "provider/provider.h"

/* Stdout, or a file's bytes, at the end of `to`, which knows its own limit. The rest is
 * dropped. `to` is borrowed for as long as the sink is used. */
struct sink sink_stdout(struct buf *to);

/* All of it is dropped. */
struct sink sink_nowhere(void);

#endif
