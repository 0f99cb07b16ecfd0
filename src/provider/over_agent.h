/*
 * over_agent.h - exec, tasks, files, trees, ports by the agent's protocol (agent/proto.h).
 *
 * Implemented once for every provider whose boxes run boxinit. A provider embeds
 * `struct agent_box` as the first member of its own box and tells how to open a
 * conversation; its provider_ops then name agent_exec, tasks_over_agent, files_over_agent
 * and trees_over_agent.
 */
#ifndef PROVIDER_OVER_AGENT_H
#define PROVIDER_OVER_AGENT_H

#include "provider/provider.h"

struct agent_box {
    struct box box;
    /* A connected, close-on-exec, non-blocking stream to the box's agent that nobody
     * else uses; ERR_GONE when the box has ended, with the reason where known. */
    int (*connect)(struct box *b, const struct ctx *ctx, struct err *e);
    /* The way there is slower than compressing: trees travel packed. */
    bool slow;
    int64_t
        probe_ms; /* of a box behind an engine: how long it may take to find out whether it lives;
                       * then a way there that is broken says nothing about it. 0: a second */
    /* NULL, or another connection to the same agent, number 0 to 2, for a large file: a stream as
     * of connect(), or AGENT_LANE_LATER while it is being made, or AGENT_LANE_NONE. Never waits.
     * Only where the agent speaks AGENT_PARTS. */
    int (*lane)(struct box *b, unsigned i);
};

#define AGENT_LANE_NONE  (-1)
#define AGENT_LANE_LATER (-2)

int agent_exec(struct box *b, const struct ctx *ctx, const struct exec_req *req,
               const struct sink *output, struct exec_result *out, struct err *e);
extern const struct task_ops tasks_over_agent;
extern const struct file_ops files_over_agent;
extern const struct tree_ops trees_over_agent;
extern const struct port_ops ports_over_agent;

struct agent_usage {
    int64_t memory_used, memory_limit, disk_used, disk_total, idle_ms, ends_in_ms;
    int processes, tasks;
    uint32_t version; /* of the protocol that both speak */
};
int agent_usage(struct box *b, const struct ctx *ctx, struct agent_usage *out, struct err *e)
    MUST_CHECK;
int agent_extend(struct box *b, const struct ctx *ctx, int32_t lifetime_s, struct err *e)
    MUST_CHECK;
int agent_shutdown(struct box *b, const struct ctx *ctx, struct err *e) MUST_CHECK;

#endif
