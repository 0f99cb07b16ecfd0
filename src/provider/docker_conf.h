/* docker_conf.h - what the operator says about containers, as the docker provider is given it. */
#ifndef PROVIDER_DOCKER_CONF_H
#define PROVIDER_DOCKER_CONF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct docker_conf {        /* empty: not said */
    struct str host;        /* "unix:///path", "tcp://host:port" */
    struct str cert_path;   /* folder with ca.pem, cert.pem, key.pem: TLS */
    struct str tls_verify;  /* not empty: TLS, also without cert_path */
    bool tls_insecure;      /* whoever answers is believed */
    struct str config_dir;  /* of docker login; empty: ~/.docker */
    struct str image;       /* of a box that names none */
    struct str work_dir;    /* where commands start; absolute */
    struct str user;        /* "uid" or "uid:gid" that code runs as */
    struct str network;     /* the engine's network for "internet" */
    int64_t memswap_bytes;  /* memory and swap together; 0: as much as memory */
    bool read_only;         /* the root file system; work, home and /tmp stay writable */
    bool gpu;               /* a box may ask for the machine's GPUs */
    bool no_agent;          /* ours is not brought into containers */
    bool pull;              /* a missing image is pulled when a box wants it */
    struct str mount_root;  /* each box has a folder below it as its work folder */
    struct str home;        /* the user's own, which is never shared */
    struct str runtime_dir; /* $XDG_RUNTIME_DIR */
};

#endif
