#include "provider/sink.h"

static int keep_stdout(void *arg, enum stream from, struct str bytes, struct err *e)
{
    (void)e;
    if (from == STREAM_OUT) {
        buf_add(arg, bytes);
    }
    return 0;
}

static int drop(void *arg, enum stream from, struct str bytes, struct err *e)
{
    (void)arg;
    (void)from;
    (void)bytes;
    (void)e;
    return 0;
}

struct sink sink_stdout(struct buf *to)
{
    return (struct sink){.write = keep_stdout, .arg = to};
}

struct sink sink_nowhere(void)
{
    return (struct sink){.write = drop};
}
