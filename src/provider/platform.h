/*
 * platform.h - an OpenSandbox platform that the operator configured, as its provider takes it.
 *
 * The configuration fills this in (OPENSANDBOX_SERVER and friends, [opensandbox], config.json);
 * the provider copies what it needs. An empty text and a 0 mean "not given". The key is here
 * and in the provider only: never in argv, in a log line or in the database.
 */
#ifndef PROVIDER_PLATFORM_H
#define PROVIDER_PLATFORM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define PLATFORM_SERVER    "http://localhost:8080"
#define PLATFORM_TIMEOUT_S 600
#define PLATFORM_MIN_S     60 /* the shortest life that a platform gives */

enum platform_way {
    PLATFORM_AUTO,   /* straight to a sandbox, through the server where that cannot be reached */
    PLATFORM_DIRECT, /* straight only */
    PLATFORM_PROXY,  /* through the server only */
};

struct platform {
    struct str server; /* "http://host:port", with or without "/v1"; a bare "host:port" is http */
    struct str api_key;
    struct str image;      /* of a sandbox whose creator names none */
    struct str entrypoint; /* words with commas between them; empty: one that only waits */
    struct str work_dir;   /* where commands begin; made when it is missing */
    struct str ca_file;    /* what https is trusted by; empty: the machine's own */
    int32_t timeout_s;     /* how long a sandbox lives without use */
    int32_t create_s;      /* how long a create may take, with the pull of an image */
    int32_t request_s;     /* how long the server may say nothing */
    enum platform_way way;
    bool auto_renew;     /* also beyond the timeout that a creator gave */
    bool delete_at_exit; /* the sandboxes that this process made go with it */
};

#endif
