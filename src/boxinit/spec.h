/* spec.h - what kind of box is wanted: FRAME_SPEC and FRAME_ORDER of agent/proto.h, read and
 * checked. */
#ifndef BOXINIT_SPEC_H
#define BOXINIT_SPEC_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#define SPEC_BINDS_MAX   256
#define SPEC_CGROUPS_MAX 16
#define SPEC_CLOSED_MAX  4096
#define SPEC_DISK_MIN    (1u << 20)

enum uid_mode {
    UIDS_ONE,    /* PID 1 and the payload are the user who started us */
    UIDS_WRITE,  /* we are root and write the maps of a range ourselves */
    UIDS_HELPER, /* newuidmap and newgidmap write them */
};

struct spec {
    struct arena *arena; /* what it was parsed into, but for the order */
    enum uid_mode uid_mode;
    uint32_t first_uid, first_gid, range;
    const char *const *ro_binds;
    const char *const *etc_binds; /* below /etc */
    const char *const *cgroup_procs;
    size_t n_ro_binds, n_etc_binds, n_cgroup_procs;
    const char *image;                              /* NULL: the host's own system, by the binds */
    const char *oom_file, *memory_file, *pids_file; /* "" none */
    bool keep_fd;
    bool scoped;             /* by Landlock */
    const char *net_program; /* NULL: no internet */
    const struct in_addr *closed;
    size_t n_closed;
    bool host_net;                 /* the host's own network */
    struct str resolv_conf, hosts; /* of the host, then */
    const char *kept_dir;          /* for keep.h */
    const char *home, *work_dir;   /* what "~" and relative paths mean */
    bool shared_root;              /* which came ready made: skeleton.h */
    /* "boxinit serve": there is no box of ours around the commands, they run as who started
     * us, and no limit is set but that open_files is their soft one again. */
    bool is_plain;
    /* And it is PID 1 of a container, whose limits are told below. */
    bool is_container;

    /* What the order says; nothing until it has come. */
    const char *hostname;
    const struct str *env; /* terminated, so .p goes to C interfaces */
    size_t n_env;
    uint64_t disk_bytes;
    uint64_t memory_bytes; /* rlimits of commands; 0: none */
    uint32_t pids, open_files;
    uint64_t memory_limit; /* by cgroups; 0: none */
    uint32_t pids_limit;
    uint64_t lifetime_ms, idle_ms; /* 0: none */
};

/* PID 1 and the payload have the same uid: where there is only one, and where the payload is
 * to own the files of an image. */
static inline bool spec_shares_uid(const struct spec *spec)
{
    return spec->uid_mode == UIDS_ONE || spec->image != NULL;
}

/* The fields of a spec frame. Everything in *out lives in the arena. */
int spec_parse(struct str fields, struct arena *a, struct spec *out, struct err *e) MUST_CHECK;
/* One whole spec frame. */
int spec_parse_frame(struct str bytes, struct arena *a, struct spec *out, struct err *e) MUST_CHECK;
/* The fields of an order, which are added to *out. */
int spec_parse_order(struct str fields, struct arena *a, struct spec *out, struct err *e)
    MUST_CHECK;
/* One spec frame from the descriptor, then its end. */
int spec_read(int fd, struct arena *a, struct spec *out, struct err *e) MUST_CHECK;
/* When a box is built: frees all that was only needed for that. What the order said stays, and
 * whether there is an image, but not which. */
void spec_settle(struct spec *s);
/* One order from the control. ERR_CANCELLED: nobody wants the box any more. */
int spec_read_order(int fd, struct arena *a, struct spec *out, struct err *e) MUST_CHECK;

#endif
