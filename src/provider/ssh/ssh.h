/*
 * ssh.h - the ssh provider: each configured host is one sandbox, named by the operator.
 *
 * provider_conf.ssh holds the hosts; open() copies them and connects to nothing. A box's
 * ref is the host's name. There is no factory: hosts are neither made nor deleted here.
 */
#ifndef PROVIDER_SSH_SSH_H
#define PROVIDER_SSH_SSH_H

#include "provider/hosts.h"
#include "provider/provider.h"

extern const struct provider_ops ssh_ops;

#endif
