/*
 * scope.h - limits for a user by the user's own systemd manager.
 *
 * Below a login session's cgroup a user may not write, and below the manager's
 * (user@UID.service) systemd is the only writer. So the manager is asked: systemd-run
 * has a scope with the limits made around itself and becomes boxinit. The scope is the
 * box's cgroup; systemd removes it when its last process has ended. The manager, and
 * the boxes with it, lasts as long as the user is logged in somewhere or lingers.
 */
#ifndef PROVIDER_LOCAL_SCOPE_H
#define PROVIDER_LOCAL_SCOPE_H

#include "base/arena.h"
#include "base/ctx.h"
#include "base/str.h"
#include "provider/provider.h"

#define SYSTEMD_RUN "/usr/bin/systemd-run"

struct scope_manager {
    struct str runtime; /* /run/user/UID; empty: there is no manager to ask */
    struct str dir;     /* the folder of the manager's cgroup */
};

/* The calling user's manager, when it runs and its cgroup shows below this v2 mount. */
void scope_find(struct arena *a, struct str v2_mount, struct scope_manager *out);
/* The manager's cgroup from its own /proc/PID/cgroup: it sits in <its cgroup>/init.scope.
 * Empty: that is no manager of systemd's. */
struct str scope_parse_manager(struct str proc_cgroup);

/* <manager>/anybox.slice/anybox-<id>.scope */
struct str scope_dir(struct arena *a, const struct scope_manager *m, struct str id);
/* A path that scope_dir() could have given. */
bool scope_is_ours(struct str dir);

/* What to spawn so that `program` with its one argument runs in the scope of this id, with
 * every limit that is not 0; and with which environment. */
const char *const *scope_argv(struct arena *a, struct str id, const struct limits *want,
                              const char *program, const char *arg);
const char *const *scope_envp(struct arena *a, const struct scope_manager *m);

/* Has such a scope made around a command that ends at once. */
bool scope_works(const struct ctx *ctx, const struct scope_manager *m, struct str id,
                 const struct limits *want);

#endif
