/* What boxinit needs to give a box a network: the program that carries it, and which
 * addresses are this machine's own. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <unistd.h>

#include "provider/local/local.h"
#include "provider/local/view.h"

bool network_find(struct arena *a, struct str *out)
{
    static const char *const dirs[] = {"/usr/local/bin", "/usr/bin", "/bin"};
    for (size_t i = 0; i < COUNTOF(dirs); i++) {
        *out = arena_printf(a, "%s/" NETWORK_PROGRAM, dirs[i]);
        if (access(out->p, X_OK) == 0) {
            return true;
        }
    }
    *out = STR_EMPTY;
    return false;
}

int network_check(enum network network, struct arena *a, struct err *e)
{
    struct str ignored;
    if (network == NETWORK_HOST) {
        return err_set(e, ERR_UNSUPPORTED,
                       "local sandboxes never share this machine's own network: ask for network "
                       "\"internet\", which reaches everything but this machine and private "
                       "networks, or \"none\"");
    }
    if (network == NETWORK_INTERNET && !network_find(a, &ignored)) {
        return err_set(e, ERR_UNSUPPORTED,
                       "network \"internet\" needs the program " NETWORK_PROGRAM
                       ", which is not on this machine: run \"" NETWORK_FIX
                       "\", or ask for network \"none\"");
    }
    return 0;
}

static bool is_ipv4(const struct ifaddrs *at)
{
    return at->ifa_addr != NULL && at->ifa_addr->sa_family == AF_INET;
}

static struct str address_text(struct arena *a, const struct ifaddrs *at)
{
    char *text = arena_alloc(a, 1, INET_ADDRSTRLEN);
    const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)at->ifa_addr;
    (void)inet_ntop(AF_INET, &in->sin_addr, text, INET_ADDRSTRLEN);
    return str_from(text);
}

int network_own_addresses(struct arena *a, struct names *out, struct err *e)
{
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) < 0) {
        return err_sys(e, errno, "cannot list this machine's addresses");
    }
    size_t n = 0;
    for (const struct ifaddrs *at = all; at != NULL; at = at->ifa_next) {
        n += is_ipv4(at) ? 1 : 0;
    }
    *out = (struct names){.items = arena_alloc(a, n + 1, sizeof(struct str))};
    for (const struct ifaddrs *at = all; at != NULL; at = at->ifa_next) {
        if (is_ipv4(at)) {
            out->items[out->n++] = address_text(a, at);
        }
    }
    freeifaddrs(all);
    return 0;
}
