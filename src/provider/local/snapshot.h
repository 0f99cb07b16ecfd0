/*
 * snapshot.h - what this machine and this process are like, as making a box needs it.
 *
 * To read it takes a tenth of the time of a box, and it hardly ever changes: so boxes that
 * are made within a second share one reading. Not more: who mends what was refused, and
 * tries again, must not have to start the server again.
 */
#ifndef PROVIDER_LOCAL_SNAPSHOT_H
#define PROVIDER_LOCAL_SNAPSHOT_H

#include <pthread.h>
#include <stdatomic.h>

#include "provider/local/cgroup.h"
#include "provider/local/uids.h"
#include "provider/local/view.h"

/* What the machine has for all; INT64_MAX where that cannot be read. */
struct kernel_numbers {
    int64_t pids, files, cpus;
};

struct snapshot {
    atomic_int refs;
    int64_t taken_ms;
    struct arena arena; /* of all that follows */
    struct cgroup_host cgroups;
    struct uid_range uids; /* as by uids_mode() */
    struct names etc;
    struct kernel_numbers numbers;
    struct str boot; /* proc_boot_id() */
};

/* Where the last one is kept. All zeros: there is none. */
struct snapshots {
    pthread_mutex_t lock;
    struct snapshot *last;
};

/* snapshot_unref() it. NULL on failure. */
struct snapshot *snapshot_get(struct snapshots *from, struct err *e);
void snapshot_unref(struct snapshot *s); /* NULL is fine */
void snapshots_fini(struct snapshots *s);

void kernel_numbers_read(struct arena *a, struct kernel_numbers *out);

#endif
