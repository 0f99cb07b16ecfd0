/* pack.c - the configuration as it is, for a worker process: it must mean the same hosts, with
 * the same credentials, however files and environment have changed since we read them. */
#include "base/pack.h"

#include <stddef.h>

#include "config/config.h"
#include "config/hosts_own.h"
#include "config/settings_own.h"

#define UNPACKED_MAX (32u << 20)

/* What is no setting. */
static const size_t texts[] = {
    offsetof(struct config, state_dir),     offsetof(struct config, folder),
    offsetof(struct config, program),       offsetof(struct config, files),
    offsetof(struct config, file),          offsetof(struct config, named_file),
    offsetof(struct config, elsewhere),     offsetof(struct config, problem),
    offsetof(struct config, hosts_problem), offsetof(struct config, home),
    offsetof(struct config, runtime_dir),
};

void config_pack(const struct config *c, struct buf *to)
{
    for (size_t i = 0; i < n_settings; i++) {
        const void *field = (const char *)c + settings[i].offset;

        if (setting_is_text(&settings[i])) {
            pack_add(to, *(const struct str *)field);
        } else {
            pack_add_i64(to, *(const int64_t *)field);
        }
    }
    for (size_t i = 0; i < COUNTOF(texts); i++) {
        const void *field = (const char *)c + texts[i];

        pack_add(to, *(const struct str *)field);
    }
    pack_add_i64(to, c->hosts_more);
    pack_add_i64(to, c->remote_list_len);
    pack_add_i64(to, c->remote_host_set);
    pack_add_i64(to, (int64_t)c->n_hosts);
    for (size_t i = 0; i < c->n_hosts; i++) {
        host_pack(&c->hosts[i], to);
    }
}

static int take_text(struct config *c, struct str *rest, size_t offset, struct err *e)
{
    struct str *field = (struct str *)(void *)((char *)c + offset);
    struct str text;

    if (pack_take(rest, &text, e) < 0) {
        return -1;
    }
    *field = arena_str(&c->arena, text);
    return 0;
}

static int take_settings(struct config *c, struct str *rest, struct err *e)
{
    for (size_t i = 0; i < n_settings; i++) {
        size_t offset = settings[i].offset;
        int64_t *number = (int64_t *)(void *)((char *)c + offset);
        int rc = setting_is_text(&settings[i]) ? take_text(c, rest, offset, e)
                                               : pack_take_i64(rest, number, e);

        if (rc < 0) {
            return -1;
        }
    }
    return 0;
}

static int take_hosts(struct config *c, struct str *rest, struct err *e)
{
    int64_t set = 0;
    int64_t n = 0;

    if (pack_take_i64(rest, &c->hosts_more, e) < 0 ||
        pack_take_i64(rest, &c->remote_list_len, e) < 0 || pack_take_i64(rest, &set, e) < 0 ||
        pack_take_i64(rest, &n, e) < 0) {
        return -1;
    }
    c->remote_host_set = set != 0;
    if (n < 0 || n > CONFIG_HOSTS_MAX) {
        return err_set(e, ERR_PROTOCOL, "a packed configuration has %lld hosts", (long long)n);
    }
    c->hosts = arena_alloc(&c->arena, CONFIG_HOSTS_MAX, sizeof(*c->hosts));
    for (; c->n_hosts < (size_t)n; c->n_hosts++) {
        if (host_unpack(&c->arena, rest, &c->hosts[c->n_hosts], e) < 0) {
            return -1;
        }
    }
    return 0;
}

int config_unpack(struct config *c, struct str *rest, struct err *e)
{
    *c = (struct config){0};
    arena_init(&c->arena, UNPACKED_MAX);
    if (take_settings(c, rest, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < COUNTOF(texts); i++) {
        if (take_text(c, rest, texts[i], e) < 0) {
            return -1;
        }
    }
    return take_hosts(c, rest, e);
}
