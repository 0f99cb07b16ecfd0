/* REMOTE_SANDBOX_LIST: any text gives hosts that passed the checks, or a sentence. */
#include <stdint.h>
#include <stdlib.h>

#include "base/host.h"
#include "config/hosts_own.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config c = {0};
    struct err e;

    arena_init(&c.arena, 256u << 20);
    hosts_from_list(&c, (struct str){(const char *)data, size < 65536 ? size : 65536});
    hosts_finish(&c);
    for (size_t i = 0; i < c.n_hosts; i++) {
        const struct config_host *h = &c.hosts[i];

        if (host_check(h->host, &e) < 0 || (h->user.len > 0 && host_check_user(h->user, &e) < 0) ||
            h->name.len == 0 || h->name.len > 64 || h->port < 0 || h->port > 65535) {
            abort();
        }
    }
    arena_fini(&c.arena);
    return 0;
}
