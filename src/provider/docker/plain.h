/*
 * plain.h - a container without our agent: see plain.c.
 */
#ifndef PROVIDER_DOCKER_PLAIN_H
#define PROVIDER_DOCKER_PLAIN_H

#include "provider/command.h"
#include "provider/docker/docker.h"

#define PLAIN_USED AGENT_DIR "/run/used" /* made by each command, removed by PID 1 when it looks */

extern const struct shell_way docker_shell;
extern const struct port_ops plain_ports;
int plain_exec(struct box *b, const struct ctx *ctx, const struct exec_req *req,
               const struct sink *output, struct exec_result *out, struct err *e);

/* What PID 1 is told to do, a script in sh: reap, and end when it is time. */
void plain_add_first(struct buf *to, const struct limits *l);
/* A script that ends all processes of a session but those that it runs in itself. */
void plain_add_kill(struct buf *to, long session, int grace_ms);

/* A short script of ours; what it prints is dropped. */
int plain_run(struct docker_box *db, const struct ctx *ctx, struct str script, int *status,
              struct err *e) MUST_CHECK;
/* plain_exec.c: as provider_ops.exec. */
int plain_exec_with(struct docker_box *db, const struct ctx *ctx, const struct shell_facts *facts,
                    const struct exec_req *req, const struct sink *output, struct exec_result *out,
                    struct err *e) MUST_CHECK;

#endif
