/* own.h - the provider and its boxes, as the files behind ssh.h share them. */
#ifndef PROVIDER_SSH_OWN_H
#define PROVIDER_SSH_OWN_H

#include "provider/command.h"
#include "provider/ssh/machine.h"
#include "provider/ssh/ssh.h"

#define PATH_MAX_REMOTE 4096

struct ssh_provider {
    struct provider provider;
    char *name, *program_dir;
    bool is_once;
    struct machine **machines; /* those of the configuration, then jump hosts without a name */
    size_t n_boxes, n_machines;
};

struct ssh_box {
    struct box box;
    struct machine *machine; /* lives as long as the provider */
};

static inline struct machine *machine_of(struct box *b)
{
    return CONTAINER_OF(b, struct ssh_box, box)->machine;
}

/* route.c: over the agent where there is one. */
int ssh_exec(struct box *b, const struct ctx *ctx, const struct exec_req *req,
             const struct sink *output, struct exec_result *out, struct err *e);
extern const struct file_ops ssh_files;
extern const struct task_ops ssh_tasks;
extern const struct port_ops ssh_ports;
extern const struct tree_ops ssh_trees;
/* exec.c, files.c: over channels of their own. */
int ssh_exec_plain(struct box *b, const struct ctx *ctx, const struct exec_req *req,
                   const struct sink *output, struct exec_result *out, struct err *e);
extern const struct file_ops ssh_files_plain;
extern const struct meter_ops ssh_meter;
int ssh_doctor(struct provider *p, const struct ctx *ctx, check_fn *each, void *arg, struct err *e);

/* Hears from the host, for which it is connected to when it is not. */
int ssh_reach(struct machine *m, const struct ctx *ctx, struct err *e) MUST_CHECK;
/* What the host told about itself; connects when nobody did yet. */
int ssh_facts(struct machine *m, const struct ctx *ctx, struct facts *out, struct err *e)
    MUST_CHECK;

/* Of what is known of a host, what the text of a command depends on. */
static inline struct shell_facts facts_of_shell(const struct facts *f)
{
    return (struct shell_facts){f->known, f->has_bash, f->has_timeout, f->is_plain_shell};
}

#endif
