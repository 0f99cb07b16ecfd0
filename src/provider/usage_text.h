/*
 * usage_text.h - how busy a machine is, from the text that it shows about itself. Pure: what
 * does not read well leaves its fields as they are.
 */
#ifndef PROVIDER_USAGE_TEXT_H
#define PROVIDER_USAGE_TEXT_H

#include "base/str.h"
#include "provider/provider.h"

/* Nothing is known. */
void usage_unknown(struct usage *out);

/* /proc/loadavg. */
void usage_parse_load(struct str loadavg, struct usage *out);
/* /proc/meminfo; kernels that have no MemAvailable: free, buffers and cached. */
void usage_parse_memory(struct str meminfo, struct usage *out);
/* nvidia-smi's index, utilization.gpu, memory.used and memory.total in csv, one GPU a line. A
 * figure that it cannot tell ("[N/A]", as of a GPU that is split) is negative; a line without
 * an index is none. */
void usage_parse_gpus(struct str csv, struct usage *out);

#endif
