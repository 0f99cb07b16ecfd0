/*
 * facts.h - what this machine and whoever started us allow a process to do, as far as
 * /proc tells. Read only when something was refused, or by doctor: nothing on the way of
 * a box that works.
 */
#ifndef PROVIDER_LOCAL_FACTS_H
#define PROVIDER_LOCAL_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

/* What runs us, where that takes rights away. */
enum container {
    CONTAINER_NONE,
    CONTAINER_DOCKER,
    CONTAINER_PODMAN,
    CONTAINER_KUBERNETES,
    CONTAINER_LXC,
    CONTAINER_OTHER,
};

struct facts {
    bool no_userns;          /* the kernel has no user namespaces at all */
    int64_t userns_clone;    /* kernel.unprivileged_userns_clone; -1: no such setting */
    int64_t apparmor_userns; /* kernel.apparmor_restrict_unprivileged_userns; -1 the same */
    struct str least_name;   /* which of user.max_*_namespaces is the smallest; empty: none */
    int64_t least;           /* its value */
    enum container container;
    struct str label; /* what AppArmor or SELinux call us; empty: neither is there */
    bool admin;       /* CAP_SYS_ADMIN */
    bool bounded;     /* nobody here can get CAP_SYS_ADMIN any more */
    bool filtered;    /* a seccomp filter is in force */
    bool no_new_privs;
    bool proc_hidden;    /* parts of /proc are covered by other mounts */
    bool chrooted;       /* our root is not that of the mount namespace */
    bool weak_newuidmap; /* newuidmap is there, and has no more rights than its caller */
    bool systemd;        /* it runs this machine */
    bool manager;        /* and has a manager for this user */
    bool unified;        /* all of cgroups is version 2 */
    bool root;
    struct str boxinit; /* its real path; empty: not known */
};

/* The first version of Landlock with scopes: Linux 6.12. */
#define LANDLOCK_ABI_SCOPES 6
/* The version of Landlock here; 0: there is none. */
int facts_landlock(void);

/* Of this process. Strings live in the arena. */
void facts_read(struct arena *a, const char *boxinit, struct facts *out);

/* From texts of /proc, for facts_read() and its tests. */
void facts_parse_status(struct str status, struct facts *out);
void facts_parse_mounts(struct str mountinfo, struct facts *out);
/* The name in "docker-default (enforce)"; "unconfined" for any that confines nothing. */
struct str facts_parse_label(struct str current);

/* What can tell a container. */
struct container_marks {
    bool dockerenv, containerenv, kubernetes;
    struct str manager;    /* /run/systemd/container */
    struct str init_group; /* /proc/1/cgroup */
};
/* The file of an image that was unpacked elsewhere is no container: `rights_taken` says that
 * something is taken away from us here. */
enum container facts_container(const struct container_marks *m, bool rights_taken);

#endif
