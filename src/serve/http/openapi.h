/* openapi.h - the description of everything that is served, as OpenAPI 3.1. */
#ifndef SERVE_HTTP_OPENAPI_H
#define SERVE_HTTP_OPENAPI_H

#include <jansson.h>

#include "base/str.h"
#include "config/config.h"

/* A new reference. `base` is "http://host:port"; the tools of these sets are in it, as far
 * as the configuration allows them. */
struct custom;
json_t *openapi_build(struct str base, unsigned toolsets, const struct custom *custom,
                      const struct config *config);

/* The same as text, kept by the server once somebody has asked; NULL is fine. */
struct openapi;
void openapi_free(struct openapi *o);

#endif
