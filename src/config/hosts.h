/*
 * hosts.h - the SSH hosts that the operator configured.
 *
 * From REMOTE_SANDBOX_LIST, else REMOTE_HOST and its friends, then the [[ssh]] tables of the
 * files: the first of two hosts of one name counts. An entry that is wrong is left out and
 * said in config.hosts_problem; the others go on working. Secrets are here and nowhere else:
 * no sentence quotes a value, and config_show() knows nothing of them.
 */
#ifndef CONFIG_HOSTS_H
#define CONFIG_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define CONFIG_HOSTS_MAX 256

enum { HOST_AGENT_UNSAID, HOST_AGENT_AUTO, HOST_AGENT_NEVER };

struct config_host { /* empty and 0: not given */
    struct str name; /* of the sandbox; checked as boxes_check_name() does */
    struct str host; /* a name or an address, or a Host of ~/.ssh/config */
    struct str user;
    int64_t port;
    struct str key_file;
    struct str key_passphrase, key_passphrase_file, key_passphrase_command;
    struct str password, password_file, password_command;
    struct str known_hosts, host_key_alias;
    struct str proxy_jump, proxy_command;
    int64_t connect_timeout_s;
    int64_t fallback; /* 1: the password is tried when the key was refused */
    int64_t no_agent; /* 1: ssh-agent is not asked */
    int64_t agent;    /* HOST_AGENT_* */
    int64_t strict;   /* 1: a host whose key is not known is refused */
};

#endif
