/* caps.h - what a client says that it can be asked, as bits (enum client_can). */
#ifndef MCP_CAPS_H
#define MCP_CAPS_H

#include <jansson.h>

#include "base/buf.h"
#include "mcp/revision.h"
#include "tools/tool.h"

/* From a ClientCapabilities object; what the revision does not have is left out. */
unsigned caps_read(const json_t *capabilities, enum revision rev);
/* The method that asks it. */
const char *caps_method(enum client_can kind);
/* {"sampling":{}}: a ClientCapabilities object with these. */
void caps_add(struct buf *out, unsigned can);

#endif
