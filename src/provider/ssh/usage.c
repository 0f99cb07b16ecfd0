/* usage.c - how busy a host is: probe.h's script, run as any other command. */
#include "base/buf.h"
#include "provider/probe.h"
#include "provider/sink.h"
#include "provider/ssh/own.h"

static int ssh_usage(struct box *b, const struct ctx *ctx, struct usage *out, struct err *e)
{
    const struct exec_req req = {
        .shell = SHELL_SH,
        .command = str_from(probe_script),
        .timeout_ms = PROBE_TIMEOUT_MS,
    };
    struct buf text own_buf = {0};
    const struct sink sink = sink_stdout(&text);
    struct exec_result result = {0};

    buf_init(&text, PROBE_MAX_BYTES);
    if (ssh_exec(b, ctx, &req, &sink, &result, e) < 0) {
        return -1;
    }
    if (result.timed_out) {
        return err_set(e, ERR_PROTOCOL, "the host took more than %d s to tell how busy it is",
                       PROBE_TIMEOUT_MS / 1000);
    }
    return probe_parse(buf_str(&text), out, e);
}

const struct meter_ops ssh_meter = {.usage = ssh_usage};
