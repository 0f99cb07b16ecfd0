/* deploy_health.h - whether an application in a box answers. */
#ifndef TOOLS_DEPLOY_HEALTH_H
#define TOOLS_DEPLOY_HEALTH_H

#include "provider/provider.h"

struct health {
    bool ok;
    int status; /* of HTTP; 0: it does not speak it */
    int64_t latency_ms;
};

struct health_ask {
    uint16_t port;
    struct str path; /* empty: "/", and any answer that is no failure of the server's will do */
    int64_t wait_ms; /* for the answer */
};

/* One try. False: nothing listens. */
bool health_ask(struct box *b, const struct ctx *ctx, const struct health_ask *ask,
                struct health *out);
/* Whether something answers there that is no gateway on the way to it. */
bool health_is_taken(struct box *b, const struct ctx *ctx, uint16_t port);

#endif
