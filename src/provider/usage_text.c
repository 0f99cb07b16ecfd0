#include "provider/usage_text.h"

#define KIB 1024

void usage_unknown(struct usage *out)
{
    *out = (struct usage){.load_1m = -1,
                          .load_5m = -1,
                          .load_15m = -1,
                          .cpus = -1,
                          .memory_used = -1,
                          .memory_total = -1,
                          .disk_used = -1,
                          .disk_total = -1,
                          .processes = -1};
}

void usage_parse_load(struct str loadavg, struct usage *out)
{
    double *to[] = {&out->load_1m, &out->load_5m, &out->load_15m};

    for (size_t i = 0; i < COUNTOF(to); i++) {
        struct err ignored;
        double value = 0;

        if (str_to_f64(str_cut(loadavg, ' ', &loadavg), &value, &ignored) == 0 && value >= 0) {
            *to[i] = value;
        }
    }
}

/* "MemTotal:       131980916 kB" */
static bool parse_kib(struct str line, struct str key, int64_t *out)
{
    struct err ignored;
    int64_t kib = 0;
    struct str value;

    if (!str_starts(line, key)) {
        return false;
    }
    value = str_trim(str_skip(line, key.len));
    if (str_to_i64(str_cut(value, ' ', &value), 0, INT64_MAX / KIB / 4, &kib, &ignored) < 0) {
        return false;
    }
    *out = kib * KIB;
    return true;
}

void usage_parse_memory(struct str meminfo, struct usage *out)
{
    int64_t total = -1;
    int64_t available = -1;
    int64_t unused = -1;
    int64_t buffers = 0;
    int64_t cached = 0;

    while (meminfo.len > 0) {
        struct str line = str_cut(meminfo, '\n', &meminfo);

        (void)parse_kib(line, S("MemTotal:"), &total);
        (void)parse_kib(line, S("MemAvailable:"), &available);
        (void)parse_kib(line, S("MemFree:"), &unused);
        (void)parse_kib(line, S("Buffers:"), &buffers);
        (void)parse_kib(line, S("Cached:"), &cached);
    }
    if (available < 0 && unused >= 0) {
        available = unused + buffers + cached;
    }
    if (total > 0 && available >= 0 && available <= total) {
        out->memory_total = total;
        out->memory_used = total - available;
    }
}

/* "37", "37 %", "1024 MiB"; -1: not known. */
static int64_t parse_figure(struct str field, int64_t max)
{
    struct err ignored;
    int64_t n = -1;
    struct str rest;

    field = str_trim(field);
    return str_to_i64(str_cut(field, ' ', &rest), 0, max, &n, &ignored) == 0 ? n : -1;
}

static bool parse_gpu(struct str line, struct gpu_usage *out)
{
    static const int64_t max[] = {INT32_MAX, 100, INT32_MAX, INT32_MAX};
    int64_t n[4];
    bool some = false;

    for (size_t i = 0; i < COUNTOF(n); i++) {
        if (i > 0 && line.len == 0) {
            return false;
        }
        n[i] = parse_figure(str_cut(line, ',', &line), max[i]);
        some = some || (i > 0 && n[i] >= 0);
    }
    *out = (struct gpu_usage){.index = (int)n[0],
                              .busy_pct = (double)n[1],
                              .memory_used_mb = n[2],
                              .memory_total_mb = n[3]};
    return n[0] >= 0 && some;
}

void usage_parse_gpus(struct str csv, struct usage *out)
{
    while (csv.len > 0 && out->n_gpus < USAGE_GPUS) {
        if (parse_gpu(str_cut(csv, '\n', &csv), &out->gpus[out->n_gpus])) {
            out->n_gpus++;
        }
    }
}
