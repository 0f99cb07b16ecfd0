/* hosts_own.h - what hosts.c (keys and checks) and hosts_from.c (where they stand) share. */
#ifndef CONFIG_HOSTS_OWN_H
#define CONFIG_HOSTS_OWN_H

#include "base/buf.h"
#include "config/config.h"
#include "config/toml.h"

/* A value as either format has it. */
enum host_value_type {
    HOST_TEXT,
    HOST_NUMBER,
    HOST_FLAG,
    HOST_OTHER,
};

struct host_value {
    enum host_value_type type;
    struct str text;
    int64_t number;
};

/* Sets one key of an entry; text that means a number or a flag is one. ERR_INVALID names the
 * key and what is accepted, never the value. */
int host_set(struct arena *a, struct config_host *h, struct str key, const struct host_value *v,
             struct err *e) MUST_CHECK;
/* Has it a password or passphrase in plain? */
bool host_has_secret(const struct config_host *h);
/* Checks the whole entry, fills in its name and adds it to the configuration. */
int host_add(struct config *c, const struct config_host *h, struct err *e) MUST_CHECK;
/* An entry as it is, for another process of ours (base/pack.h), and back into the arena. */
void host_pack(const struct config_host *h, struct buf *to);
int host_unpack(struct arena *a, struct str *rest, struct config_host *out, struct err *e)
    MUST_CHECK;
/* Says what is wrong with an entry; the first one is kept and the others are counted. */
void host_problem(struct config *c, const struct err *e);

void hosts_from_env(struct config *c);
/* [[ssh]] tables; `v` is the value of the key "ssh", whatever it is. */
void hosts_from_file(struct config *c, struct str file, const struct toml_value *v);
/* REMOTE_SANDBOX_LIST's text. */
void hosts_from_list(struct config *c, struct str text);
/* Behind all sources: "...; 2 more entries are wrong". */
void hosts_finish(struct config *c);

#endif
