/* What boxinit needs to give a box a network: the program that carries it, and which
 * addresses are this machine's own. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <unistd.h>

#include "provider/local/facts.h"
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

static int check_host(const struct local *l, int landlock, struct err *e)
{
    if (!l->host_network) {
        return err_set(e, ERR_DENIED,
                       "network \"host\" gives a sandbox this machine's own network, and the "
                       "operator has not allowed that: write allow_host_network = true below "
                       "[local] in %s, or ask for \"internet\" or \"none\"",
                       l->config_file);
    }
    if (landlock < LANDLOCK_ABI_SCOPES) {
        return err_set(e, ERR_UNSUPPORTED,
                       "network \"host\" needs Linux 6.12 or later with landlock in the kernel's "
                       "lsm= parameter: without it the sandbox would reach the abstract sockets of "
                       "other programs here; ask for \"internet\" or \"none\"");
    }
    return 0;
}

int network_check(const struct local *l, enum network network, int landlock, struct arena *a,
                  struct err *e)
{
    struct str ignored;
    if (network == NETWORK_HOST) {
        return check_host(l, landlock, e);
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
