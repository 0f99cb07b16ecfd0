/* idle.h - one number for "how free is this machine", with remote-sandbox-mcp's weights. */
#ifndef CORE_IDLE_H
#define CORE_IDLE_H

#include "provider/provider.h"

/* 0.4 cpu + 0.4 memory + 0.2 gpu, each the free share, rounded to three digits; no GPU
 * counts as free. Negative when cpu or memory is not known: an unknown is never idle. */
double idle_score(const struct usage *u);

#endif
