/*
 * hosts.h - the hosts that the operator configured, as the ssh provider takes them.
 *
 * The configuration fills these in (REMOTE_HOST and friends, REMOTE_SANDBOX_LIST, [[ssh]],
 * ~/.ssh/config); the provider copies what it needs. An empty text and a 0 mean "not
 * given". Secrets are here and in the session's thread only: never in argv, in the
 * environment of a child, in a log line or in the database.
 */
#ifndef PROVIDER_HOSTS_H
#define PROVIDER_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define SSH_PORT              22
#define SSH_CONNECT_TIMEOUT_S 15
#define SSH_HOSTS_MAX         256
#define SSH_KEYS_MAX          8

/* A host whose key nobody has seen yet. A changed key always fails. */
enum ssh_trust {
    SSH_TRUST_NEW,    /* accepted and remembered in known_hosts: the default */
    SSH_TRUST_STRICT, /* refused */
};

struct ssh_host {
    struct str name;     /* the sandbox's name, and its ref; unique in the list */
    struct str host;     /* a name or an address; letters, digits and ".-_:%" only */
    int32_t port;        /* 0: SSH_PORT */
    struct str user;     /* empty: whom we run as */
    struct str key_file; /* "~" is expanded; empty: none */
    struct str key_passphrase;
    struct str password;
    /* Where the two come from instead, which is asked before the first connection: a file that
     * only its owner can read, or the first line that a command of the operator's prints. */
    struct str key_passphrase_file, key_passphrase_command;
    struct str password_file, password_command;
    bool no_agent;    /* ssh-agent is not asked */
    bool agent_never; /* nothing is put on the host: plain channels only */
    bool fallback;    /* the password is tried when the key was refused or cannot be used */
    /* What ~/.ssh/config adds where no key and no password are given: keys to try in this
     * order, certificates for any of the keys, and another socket of ssh-agent. */
    struct str more_keys[SSH_KEYS_MAX];
    size_t n_more_keys;
    struct str certificates[SSH_KEYS_MAX];
    size_t n_certificates;
    struct str agent_socket; /* empty: $SSH_AUTH_SOCK */
    bool keys_only;          /* IdentitiesOnly: the agent is for keys that cannot be read */
    enum ssh_trust trust;
    struct str known_hosts;    /* read and added to; empty: ~/.ssh/known_hosts */
    struct str host_key_alias; /* the name to look for in known_hosts; empty: host */
    struct str proxy_jump;     /* "[user@]host[:port],...", or names in this list; or empty */
    struct str proxy_command;  /* with %h, %p, %r and %%; wins over proxy_jump; or empty */
    int32_t connect_timeout_s; /* 0: SSH_CONNECT_TIMEOUT_S */
    struct str problem;        /* not empty: why this host cannot be used, as a sentence */
};

struct ssh_hosts {
    const struct ssh_host *items;
    size_t n;
};

#endif
