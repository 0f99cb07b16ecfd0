#include "provider/probe.h"

#include "provider/usage_text.h"

#define MIB (1 << 20)

/* A driver that hangs must not cost the other figures: GPUs come last, with a limit where
 * the host has `timeout`. sshd's PATH is often shorter than a person's. */
const char probe_script[] =
    "LC_ALL=C; export LC_ALL\n"
    "PATH=$PATH:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin:/opt/rocm/bin:/usr/lib/wsl/lib\n"
    "has() { command -v \"$1\" >/dev/null 2>&1; }\n"
    "brief() { if has timeout; then timeout 4 \"$@\"; else \"$@\"; fi; }\n"
    "exec 2>/dev/null\n"
    "printf \"\\n=ANYBOX=\\n=LOAD=\\n\"\n"
    "cat /proc/loadavg || sysctl -n vm.loadavg || uptime\n"
    "echo =CPUS=\n"
    "getconf _NPROCESSORS_ONLN || nproc || sysctl -n hw.ncpu\n"
    "echo =MEMORY=\n"
    "cat /proc/meminfo || { echo \"memsize: $(sysctl -n hw.memsize)\"; vm_stat; }\n"
    "echo =DISK=\n"
    "df -Pk .\n"
    "echo =PROCESSES=\n"
    "if [ -d /proc/self ]; then set -- /proc/[0-9]*; echo $#; else ps -A -o pid= | wc -l; fi\n"
    "echo =LIMIT=\n"
    "( cd /sys/fs/cgroup || exit; if [ -r memory.max ]; then cat memory.max memory.current\n"
    "else cat memory/memory.limit_in_bytes memory/memory.usage_in_bytes; fi )\n"
    "if has nvidia-smi; then\n"
    "echo =NVIDIA=\n"
    "brief nvidia-smi --query-gpu=index,utilization.gpu,memory.used,memory.total "
    "--format=csv,noheader,nounits || echo failed: $?\n"
    "fi\n"
    "if has rocm-smi; then\n"
    "echo =ROCM=\n"
    "brief rocm-smi --showuse --showmeminfo vram --csv || echo failed: $?\n"
    "fi\n"
    "echo =END=\n";

/* ---- lines and sections ------------------------------------------------------------------ */

static struct str next_line(struct str *text)
{
    struct str line = str_cut(*text, '\n', text);

    return str_ends(line, S("\r")) ? str_head(line, line.len - 1) : line;
}

static bool is_header(struct str line)
{
    if (line.len < 3 || line.p[0] != '=' || line.p[line.len - 1] != '=') {
        return false;
    }
    for (size_t i = 1; i < line.len - 1; i++) {
        if (line.p[i] < 'A' || line.p[i] > 'Z') {
            return false;
        }
    }
    return true;
}

/* The lines below a header up to the next one. False: there is no such section. */
static bool section(struct str text, struct str header, struct str *out)
{
    while (text.len > 0) {
        if (!str_eq(next_line(&text), header)) {
            continue;
        }
        const char *from = text.p;
        size_t len = 0;

        while (text.len > 0) {
            struct str before = text;

            if (is_header(next_line(&text))) {
                break;
            }
            len += before.len - text.len;
        }
        *out = (struct str){from, len};
        return true;
    }
    return false;
}

/* The next word between blanks; empty behind the last one. */
static struct str word(struct str *line)
{
    struct str w;

    *line = str_trim(*line);
    w = str_cut(*line, ' ', line);
    return w;
}

static int64_t number(struct str s, int64_t max)
{
    struct err ignored;
    int64_t n = -1;

    return str_to_i64(s, 0, max, &n, &ignored) == 0 ? n : -1;
}

/* ---- the figures ------------------------------------------------------------------------- */

/* "0.52 1.25 12.00 3/417 9981", "{ 1.52 1.60 1.70 }", "... load averages: 1.52 1.60 1.70" and
 * "... load average: 0.52, 1.25, 12.00". */
static void read_load(struct str text, struct usage *out)
{
    struct str line = next_line(&text);
    double *to[] = {&out->load_1m, &out->load_5m, &out->load_15m};

    for (struct str at = line; at.len > 0; at = str_skip(at, 1)) {
        if (str_starts(at, S("load average"))) {
            (void)str_cut(at, ':', &line);
            break;
        }
    }
    for (size_t i = 0; i < COUNTOF(to); i++) {
        struct str w = word(&line);
        struct err ignored;
        double value = -1;

        if (i == 0 && str_eq(w, S("{"))) {
            w = word(&line);
        }
        if (str_ends(w, S(","))) {
            w.len--;
        }
        if (str_to_f64(w, &value, &ignored) < 0 || value < 0) {
            return;
        }
        *to[i] = value;
    }
}

/* "Pages active:      123456." of vm_stat, in pages; -1: another line. */
static int64_t pages(struct str line, struct str key)
{
    struct str count;

    if (!str_starts(line, key)) {
        return -1;
    }
    count = str_trim(str_skip(line, key.len));
    if (str_ends(count, S("."))) {
        count.len--;
    }
    return number(count, INT64_MAX >> 24);
}

/* "memsize: 17179869184" and vm_stat's lines. */
static void read_mac_memory(struct str text, struct usage *out)
{
    static const struct str used[] = {
        {"Pages active:", 13}, {"Pages wired down:", 17}, {"Pages occupied by compressor:", 29}};
    struct str first = next_line(&text);
    int64_t total = number(str_skip(first, S("memsize:").len), INT64_MAX);
    int64_t size = -1;
    int64_t sum = 0;
    size_t found = 0;

    while (text.len > 0) {
        struct str line = next_line(&text);

        for (struct str at = line; size < 0 && at.len > 0; at = str_skip(at, 1)) {
            if (str_starts(at, S("page size of "))) {
                at = str_skip(at, S("page size of ").len);
                size = number(word(&at), 1 << 20);
            }
        }
        for (size_t i = 0; i < COUNTOF(used); i++) {
            int64_t n = pages(line, used[i]);

            if (n >= 0 && found < COUNTOF(used)) {
                sum += n;
                found++;
            }
        }
    }
    if (total > 0 && size > 0 && found == COUNTOF(used) && sum <= total / size) {
        out->memory_total = total;
        out->memory_used = sum * size;
    }
}

/* df -Pk: "<device> <1024-blocks> <used> <available> <capacity>% <folder>". A device may have
 * blanks in its name, and some hosts leave the capacity out: then it is "-". */
static void read_disk(struct str text, struct usage *out)
{
    int64_t held[3] = {-1, -1, -1};

    (void)next_line(&text);
    for (struct str line = next_line(&text); line.len > 0;) {
        struct str w = word(&line);

        if ((str_ends(w, S("%")) || str_eq(w, S("-"))) && held[0] > 0 && held[1] >= 0) {
            out->disk_total = held[0] * 1024;
            out->disk_used = held[1] * 1024;
            return;
        }
        held[0] = held[1];
        held[1] = held[2];
        held[2] = number(w, INT64_MAX / 1024);
    }
}

/* ---- of a container, whose /proc tells of the whole machine --------------------------------- */

/* Bytes that it may use, or "max", and that it uses. */
static void read_limit(struct str text, struct usage *out)
{
    int64_t total = number(next_line(&text), INT64_MAX);
    int64_t used = number(next_line(&text), INT64_MAX);

    if (total > 0 && used >= 0 && (out->memory_total < 0 || total < out->memory_total)) {
        out->memory_total = total;
        out->memory_used = used;
    }
}

/* ---- GPUs ------------------------------------------------------------------------------- */

static bool mentions(struct str text, struct str what)
{
    for (; text.len >= what.len; text = str_skip(text, 1)) {
        if (str_starts(text, what)) {
            return true;
        }
    }
    return false;
}

/* A tool that is there and fails says that a GPU should be there: it is not an idle one. */
static void add_unknown_gpu(struct usage *out)
{
    if (out->n_gpus < USAGE_GPUS) {
        out->gpus[out->n_gpus++] =
            (struct gpu_usage){.busy_pct = -1, .memory_used_mb = -1, .memory_total_mb = -1};
    }
}

static void read_nvidia(struct str text, struct usage *out)
{
    size_t before = out->n_gpus;

    usage_parse_gpus(text, out);
    if (out->n_gpus == before && mentions(text, S("failed:")) &&
        !mentions(text, S("No devices were found"))) {
        add_unknown_gpu(out);
    }
}

struct rocm_columns {
    int busy, total, used; /* -1: there is none */
};

static struct rocm_columns rocm_header(struct str line)
{
    struct rocm_columns c = {-1, -1, -1};

    for (int i = 0; line.len > 0; i++) {
        struct str name = str_trim(str_cut(line, ',', &line));

        if (str_eq(name, S("GPU use (%)"))) {
            c.busy = i;
        } else if (str_eq(name, S("VRAM Total Memory (B)"))) {
            c.total = i;
        } else if (str_eq(name, S("VRAM Total Used Memory (B)"))) {
            c.used = i;
        }
    }
    return c;
}

/* "card0,37,68702699520,10850304"; false for another line, such as a warning. */
static bool rocm_row(struct str line, struct rocm_columns c, struct gpu_usage *out)
{
    struct gpu_usage g = {.busy_pct = -1, .memory_used_mb = -1, .memory_total_mb = -1};
    struct str card = str_cut(line, ',', &line);
    int64_t index = str_starts(card, S("card")) ? number(str_skip(card, 4), INT32_MAX) : -1;

    if (index < 0) {
        return false;
    }
    g.index = (int)index;
    for (int i = 1; line.len > 0; i++) {
        struct str field = str_cut(line, ',', &line);
        int64_t bytes = number(field, INT64_MAX);

        if (i == c.busy) {
            g.busy_pct = (double)number(field, 100);
        } else if (i == c.total) {
            g.memory_total_mb = bytes < 0 ? -1 : bytes / MIB;
        } else if (i == c.used) {
            g.memory_used_mb = bytes < 0 ? -1 : bytes / MIB;
        }
    }
    *out = g;
    return true;
}

static void read_rocm(struct str text, struct usage *out)
{
    struct rocm_columns columns = {-1, -1, -1};
    size_t before = out->n_gpus;
    bool failed = mentions(text, S("failed:"));

    while (text.len > 0 && out->n_gpus < USAGE_GPUS) {
        struct str line = next_line(&text);

        if (str_starts(line, S("device,"))) {
            columns = rocm_header(line);
        } else if (rocm_row(line, columns, &out->gpus[out->n_gpus])) {
            out->n_gpus++;
        }
    }
    if (out->n_gpus == before && failed) {
        add_unknown_gpu(out);
    }
}

/* ---- all of it --------------------------------------------------------------------------- */

/* From the line behind the script's first one; empty when the script never began. */
static struct str own_part(struct str output)
{
    while (output.len > 0) {
        if (str_eq(next_line(&output), S("=ANYBOX="))) {
            return output;
        }
    }
    return STR_EMPTY;
}

int probe_parse(struct str output, struct usage *out, struct err *e)
{
    struct str text = own_part(str_head(output, PROBE_MAX_BYTES));
    struct str part = STR_EMPTY;
    struct usage u;

    if (!section(text, S("=END="), &part)) {
        return err_set(e, ERR_PROTOCOL,
                       "the host did not answer all questions about its resources: does it have a "
                       "POSIX sh, and does its login shell run commands?");
    }
    usage_unknown(&u);
    if (section(text, S("=LOAD="), &part)) {
        read_load(part, &u);
    }
    if (section(text, S("=CPUS="), &part)) {
        u.cpus = (int)number(next_line(&part), 1 << 20);
    }
    if (section(text, S("=MEMORY="), &part)) {
        if (str_starts(part, S("memsize:"))) {
            read_mac_memory(part, &u);
        } else {
            usage_parse_memory(part, &u);
        }
    }
    if (section(text, S("=DISK="), &part)) {
        read_disk(part, &u);
    }
    if (section(text, S("=PROCESSES="), &part)) {
        u.processes = (int)number(next_line(&part), INT32_MAX);
    }
    if (section(text, S("=LIMIT="), &part)) {
        read_limit(part, &u);
    }
    if (section(text, S("=NVIDIA="), &part)) {
        read_nvidia(part, &u);
    }
    if (section(text, S("=ROCM="), &part)) {
        read_rocm(part, &u);
    }
    *out = u;
    return 0;
}
