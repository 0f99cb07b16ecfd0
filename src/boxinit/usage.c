/* usage.c - what the box uses. */
#include "boxinit/usage.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "boxinit/kill.h"
#include "boxinit/server.h"

uint64_t usage_counter(struct str text, struct str name)
{
    while (text.len > 0) {
        struct str value;
        struct str line = str_cut(text, '\n', &text);
        int64_t v = 0;
        struct err ignored;

        if (str_eq(str_cut(line, ' ', &value), name) &&
            str_to_i64(value, 0, INT64_MAX, &v, &ignored) == 0) {
            return (uint64_t)v;
        }
    }
    return 0;
}

static struct str read_again(int fd, char *to, size_t cap)
{
    ssize_t n = fd >= 0 ? pread(fd, to, cap, 0) : -1;

    return n > 0 ? (struct str){to, (size_t)n} : STR_EMPTY;
}

struct limit_counts usage_limit_counts(const struct server *s)
{
    char text[512];
    struct limit_counts now = {0};
    struct str said = read_again(s->fds.oom, text, sizeof(text));

    now.oom_kills = usage_counter(said, S("oom_kill"));
    /* Version 2 only. Version 1 has a count of failures, but a charge that succeeded after
     * some cache was dropped is among them. */
    now.memory = now.oom_kills + usage_counter(said, S("oom"));
    now.pids = usage_counter(read_again(s->fds.pids, text, sizeof(text)), S("max"));
    return now;
}

/* Some file systems do not count inodes: they have none of them in all. */
static bool disk_is_full(const struct spec *spec)
{
    struct statvfs disk;

    return statvfs(spec->work_dir, &disk) == 0 && disk.f_blocks > 0 &&
           (disk.f_bavail == 0 || (disk.f_files > 0 && disk.f_ffree == 0));
}

uint8_t usage_limits_hit(const struct spec *spec, const struct limit_counts *before,
                         const struct limit_counts *now)
{
    return (uint8_t)((now->memory > before->memory ? LIMITED_MEMORY : 0) |
                     (now->pids > before->pids ? LIMITED_PIDS : 0) |
                     (disk_is_full(spec) ? LIMITED_DISK : 0));
}

static uint64_t memory_used(const struct server *s)
{
    char text[64];
    int64_t v = 0;
    struct err ignored;
    struct str said = read_again(s->fds.memory, text, sizeof(text));

    return str_to_i64(said, 0, INT64_MAX, &v, &ignored) == 0 ? (uint64_t)v : 0;
}

void usage_answer(struct server *s, struct conn *c)
{
    int64_t left = s->ends_boot_ms > 0 ? s->ends_boot_ms - clock_boot_ms() : 0;
    uint32_t processes = kill_count();
    struct statvfs disk = {0};
    struct wire_out w;

    /* The spare is ours, not the user's. */
    processes -= s->spare.pid != 0 && processes > 0;
    (void)statvfs(s->spec->work_dir, &disk);
    w = wire_begin(&c->out, FRAME_USAGE_IS);
    wire_u64(&w, memory_used(s));
    wire_u64(&w, s->spec->memory_limit);
    wire_u64(&w, (uint64_t)(disk.f_blocks - disk.f_bfree) * disk.f_frsize);
    wire_u64(&w, (uint64_t)disk.f_blocks * disk.f_frsize);
    wire_u32(&w, processes);
    wire_u32(&w, s->n_running);
    wire_u64(&w, (uint64_t)server_idle_ms(s, s->asked_before_ms));
    /* 0 means that there is no end: the last millisecond is told as 1. */
    wire_u64(&w, s->ends_boot_ms == 0 ? 0 : (uint64_t)(left > 0 ? left : 1));
    (void)!wire_end(&w);
}
