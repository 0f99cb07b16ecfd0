/* usage.h - reading the kernel's counters. */
#ifndef BOXINIT_USAGE_H
#define BOXINIT_USAGE_H

#include <stdint.h>

#include "base/str.h"

/* The number behind `name` in lines of "name number"; 0 when there is none. */
uint64_t usage_counter(struct str text, struct str name);

#endif
