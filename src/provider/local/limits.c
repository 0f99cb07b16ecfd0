/* What a box gets: what was asked for where that is possible, else the defaults. */
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "provider/local/local.h"

#define MIB (1024ll * 1024)

#define MEMORY_LEAST   (16 * MIB)
#define MEMORY_DEFAULT (4096 * MIB) /* at most; half of the machine's otherwise */
#define DISK_LEAST     MIB
#define CPU_LEAST      10 /* thousandths: the kernel's shortest quota */
#define PIDS_LEAST     4
#define PIDS_MOST      4194304 /* the kernel's PID_MAX_LIMIT */
#define FILES_LEAST    16
#define FILES_ENOUGH   256 /* a default does not go below it for the machine's sake */
#define FILES_SHARE    2   /* of all files that the machine can have open, a box takes half */
#define DISK_OF_MEMORY 4   /* disk is a quarter of memory by default */

enum unit { UNIT_BYTES, UNIT_MILLIS, UNIT_NUMBER, UNIT_SECONDS };

struct amount {
    char text[32];
};

/* As people write it: whole MiB, cores with a fraction. */
static struct amount amount(enum unit unit, int64_t n)
{
    struct amount a;

    if (unit == UNIT_BYTES && n >= MIB) {
        (void)snprintf(a.text, sizeof(a.text), "%lld MiB", (long long)(n / MIB));
    } else if (unit == UNIT_MILLIS) {
        (void)snprintf(a.text, sizeof(a.text), "%g", (double)n / 1000);
    } else {
        const char *word = unit == UNIT_BYTES ? " bytes" : unit == UNIT_SECONDS ? " s" : "";
        (void)snprintf(a.text, sizeof(a.text), "%lld%s", (long long)n, word);
    }
    return a;
}

static int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* One number that was asked for; 0 was not. */
static int check(const char *what, enum unit unit, int64_t asked, int64_t least, int64_t most,
                 struct err *e)
{
    if (asked == 0 || (asked >= least && asked <= most)) {
        return 0;
    }
    if (asked < least) {
        return err_set(e, ERR_INVALID, "%s of %s is too small: a sandbox takes at least %s", what,
                       amount(unit, asked).text, amount(unit, least).text);
    }
    return err_set(e, ERR_INVALID,
                   "%s of %s is more than this machine has for a sandbox: ask for at most %s", what,
                   amount(unit, asked).text, amount(unit, most).text);
}

/* What is counted for a user is counted for all of the user's boxes, too. */
static int64_t pids_most(const struct kernel_numbers *all)
{
    struct rlimit own;
    int64_t most = least_of(all->pids, PIDS_MOST);
    if (geteuid() != 0 && getrlimit(RLIMIT_NPROC, &own) == 0 && own.rlim_cur < (rlim_t)most) {
        most = (int64_t)own.rlim_cur;
    }
    return most;
}

static int64_t files_most(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_max == RLIM_INFINITY) {
        return INT32_MAX;
    }
    return files.rlim_max > INT32_MAX ? INT32_MAX : (int64_t)files.rlim_max;
}

static int check_asked(const struct limits *asked, int64_t host_memory, int64_t cpus, int64_t pids,
                       struct err *e)
{
    int64_t memory_most = host_memory > 0 ? host_memory : INT64_MAX;
    int64_t cpu_most = least_of(cpus, INT32_MAX / 1000) * 1000;
    if (check("memory", UNIT_BYTES, asked->memory_bytes, MEMORY_LEAST, memory_most, e) < 0 ||
        check("disk", UNIT_BYTES, asked->disk_bytes, DISK_LEAST, memory_most, e) < 0 ||
        check("cpus", UNIT_MILLIS, asked->cpu_millis, CPU_LEAST, cpu_most, e) < 0 ||
        check("pids", UNIT_NUMBER, asked->pids, PIDS_LEAST, pids, e) < 0 ||
        check("open_files", UNIT_NUMBER, asked->open_files, FILES_LEAST, files_most(), e) < 0 ||
        check("lifetime", UNIT_SECONDS, asked->lifetime_s, 1, INT32_MAX, e) < 0 ||
        check("idle time", UNIT_SECONDS, asked->idle_s, 1, INT32_MAX, e) < 0) {
        return -1;
    }
    return 0;
}

static int64_t either(int64_t asked, int64_t otherwise)
{
    return asked != 0 ? asked : otherwise;
}

/* Files are held in the box's memory: where they could take all of it, a full disk would
 * leave no room for a process, the box's first one included. */
static int64_t disk_most(int64_t memory_bytes)
{
    return memory_bytes - memory_bytes / DISK_OF_MEMORY;
}

static int settle_disk(const struct limits *asked, const struct limits *defaults,
                       struct limits *out, struct err *e)
{
    int64_t most = disk_most(out->memory_bytes);
    if (asked->disk_bytes > most) {
        return err_set(e, ERR_INVALID,
                       "disk of %s does not fit: a local sandbox keeps its files in its memory "
                       "(%s) and needs a quarter of that for its processes; ask for a disk of at "
                       "most %s, or for more memory",
                       amount(UNIT_BYTES, asked->disk_bytes).text,
                       amount(UNIT_BYTES, out->memory_bytes).text, amount(UNIT_BYTES, most).text);
    }
    int64_t quarter = out->memory_bytes / DISK_OF_MEMORY;
    out->disk_bytes = either(asked->disk_bytes, either(defaults->disk_bytes, quarter));
    if (out->disk_bytes > most) {
        out->disk_bytes = quarter;
    }
    return 0;
}

/* Open files are limited for each process, but the machine has a number for all: with it
 * used up nobody but root can open a file. So all processes of a box together must not
 * reach it. */
static int settle_files(const struct limits *asked, const struct limits *defaults, int64_t all,
                        struct limits *out, struct err *e)
{
    int64_t each = out->pids > 0 ? all / FILES_SHARE / out->pids : INT32_MAX;
    if (asked->open_files > each) {
        return err_set(e, ERR_INVALID,
                       "open_files of %d for each of %d processes is more than half of what this "
                       "machine can have open (fs.file-max is %lld): ask for open_files of at most "
                       "%lld, or for fewer pids",
                       asked->open_files, out->pids, (long long)all, (long long)each);
    }
    each = each > FILES_ENOUGH ? each : FILES_ENOUGH;
    out->open_files = (int32_t)either(asked->open_files,
                                      least_of(least_of(defaults->open_files, files_most()), each));
    return 0;
}

/* What the machine has, or what the container has of it that we may be in. Looked up once:
 * it takes as long as many a step of making a box. */
static int64_t memory_here(struct local *l, struct arena *a)
{
    int64_t known = atomic_load(&l->memory_here);
    if (known == 0) {
        struct cgroup_host host;
        cgroup_host_read(a, &host);
        known = least_of(usage_host_memory(a), cgroup_memory_most(a, &host));
        atomic_store(&l->memory_here, known);
    }
    return known;
}

static struct kernel_numbers numbers_here(struct local *l, struct arena *a)
{
    struct err ignored; /* who makes the box is told */
    struct snapshot *here = snapshot_get(&l->snapshots, &ignored);
    struct kernel_numbers all;
    if (here == NULL) {
        kernel_numbers_read(a, &all);
        return all;
    }
    all = here->numbers;
    snapshot_unref(here);
    return all;
}

int limits_settle(struct local *l, const struct limits *asked, struct arena *a, struct limits *out,
                  struct err *e)
{
    const struct limits *defaults = &l->defaults;
    int64_t host_memory = memory_here(l, a);
    struct kernel_numbers all = numbers_here(l, a);
    int64_t pids = pids_most(&all);
    if (check_asked(asked, host_memory, all.cpus, pids, e) < 0) {
        return -1;
    }
    int64_t half = host_memory > 0 ? least_of(host_memory / 2, MEMORY_DEFAULT) : MEMORY_DEFAULT;
    struct limits got = {0};
    got.memory_bytes = either(asked->memory_bytes, either(defaults->memory_bytes, half));
    got.cpu_millis = (int32_t)either(asked->cpu_millis, defaults->cpu_millis);
    got.pids = (int32_t)either(asked->pids, least_of(defaults->pids, pids));
    got.lifetime_s = (int32_t)either(asked->lifetime_s, defaults->lifetime_s);
    got.idle_s = (int32_t)either(asked->idle_s, defaults->idle_s);
    if (settle_disk(asked, defaults, &got, e) < 0 ||
        settle_files(asked, defaults, all.files, &got, e) < 0) {
        return -1;
    }
    *out = got;
    return 0;
}
