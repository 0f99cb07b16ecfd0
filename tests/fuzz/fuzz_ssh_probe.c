/* What a host printed about itself: any bytes give figures or a sentence. */
#include <stdint.h>
#include <stdlib.h>

#include "provider/probe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct usage u;
    struct err e;

    if (probe_parse((struct str){(const char *)data, size}, &u, &e) < 0) {
        return 0;
    }
    if (u.n_gpus > USAGE_GPUS || u.memory_used > u.memory_total || u.cpus < -1) {
        abort();
    }
    return 0;
}
