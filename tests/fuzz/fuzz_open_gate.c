/* What anybody on this machine says to a forwarded port: any bytes give a head for the platform that
 * stays below its prefix and has our headers once, or a sentence. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "provider/opensandbox/gate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct str ours[] = {S("X-Token: ours")};
    const struct gate g = {
        .host = S("far:1"), .prefix = S("/proxy/80"), .headers = ours, .n_headers = 1};
    struct gate_found found;
    struct buf out own_buf = {0};
    struct err e;
    struct str target;

    buf_init(&out, 4 * GATE_HEAD_MAX);
    if (gate_head((struct str){(const char *)data, size}, &g, &out, &found, &e) <= 0) {
        return 0;
    }
    (void)str_cut(buf_str(&out), ' ', &target);
    if (found.used > size || !str_starts(target, S("/proxy/80/")) ||
        !str_ends(buf_str(&out), S("\r\n\r\n"))) {
        abort();
    }
    const char *first = memmem(out.p, out.len, "\r\nX-Token: ", 11);
    if (first == NULL ||
        memmem(first + 11, (size_t)(out.p + out.len - first) - 11, "\r\nX-Token: ", 11) != NULL) {
        abort();
    }
    return 0;
}
