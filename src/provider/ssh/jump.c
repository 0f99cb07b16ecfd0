#include "provider/ssh/jump.h"

#include "base/alloc.h"

struct str jump_cut(struct str *hops)
{
    size_t cut = hops->len;

    while (cut > 0 && hops->p[cut - 1] != ',') {
        cut--;
    }
    struct str last = str_trim(str_skip(*hops, cut));
    *hops = str_head(*hops, cut > 0 ? cut - 1 : 0);
    return last;
}

struct ssh_host jump_conf(const struct ssh_host *target, struct str hop)
{
    struct ssh_host conf = {.known_hosts = target->known_hosts,
                            .trust = target->trust,
                            .no_agent = target->no_agent,
                            .connect_timeout_s = target->connect_timeout_s};
    struct str rest, port = STR_EMPTY;
    struct str user = str_cut(hop, '@', &rest);
    struct err ignored = {0};
    int64_t number = 0;

    if (rest.p == NULL) {
        user = STR_EMPTY;
        rest = hop;
    }
    if (rest.len > 0 && rest.p[0] == '[') {
        conf.host = str_cut(str_skip(rest, 1), ']', &port);
        port = str_skip(port, 1);
    } else {
        conf.host = str_cut(rest, ':', &port);
    }
    if (port.len > 0 && str_to_i64(port, 1, 65535, &number, &ignored) == 0) {
        conf.port = (int32_t)number;
    }
    conf.user = user;
    return conf;
}

int jump_add(struct machine *m, struct str hops, struct err *e)
{
    struct str hop = jump_cut(&hops);
    struct ssh_host conf = jump_conf(&m->conf, hop);
    int n = 0;

    for (const struct machine *at = m; at != NULL; at = at->behind) {
        n++;
    }
    if (n > JUMPS_MAX) {
        return err_set(e, ERR_INVALID, "there are more than %d jump hosts", JUMPS_MAX);
    }
    struct machine *next = xcalloc(1, sizeof(*next));
    conf.proxy_jump = hops; /* it asks the same way for what leads to it */
    machine_init(next, &conf);
    next->behind = m;
    m->jump = m->own_jump = next;
    return 0;
}

int jump_check(const struct machine *m, const struct ssh_host *whole, struct err *e)
{
    int32_t port = whole->port > 0 ? whole->port : SSH_PORT;

    for (const struct machine *at = m->behind; at != NULL; at = at->behind) {
        if (str_eq(at->conf.host, whole->host) && machine_port(at) == port) {
            return err_set(e, ERR_INVALID,
                           "the jump hosts of the ssh configuration lead in a circle: %.*s:%d is "
                           "reached through itself",
                           STR_ARG(str_head(whole->host, 64)), (int)port);
        }
    }
    return 0;
}
