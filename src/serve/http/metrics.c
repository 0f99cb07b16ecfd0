/*
 * metrics.c - GET /metrics: what this process did, in the text format of Prometheus.
 *
 * Counters are kept where things happen (core/metrics.h for calls, counts.h for HTTP); here
 * they are only shown. Boxes are counted in the database, so they include those of other
 * processes of the same state folder.
 */
#include "core/metrics.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "serve/http/http_own.h"
#include "serve/http/route.h"

#define PAGE_MAX ((size_t)1 << 20)

/* ---- pieces of the format ---------------------------------------------------------------- */

static void head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_addf(out, "# HELP anybox_%s %s\n# TYPE anybox_%s %s\n", name, help, name, type);
}

static void number(struct buf *out, const char *name, const char *type, const char *help,
                   long long value)
{
    head(out, name, type, help);
    buf_addf(out, "anybox_%s %lld\n", name, value);
}

/* ---- calls -------------------------------------------------------------------------------- */

static void add_ends(struct buf *out, const struct call_counts *calls, size_t n)
{
    head(out, "calls_total", "counter",
         "Tool calls that have ended, by tool and code (ok, or why not).");
    for (size_t i = 0; i < n; i++) {
        for (int kind = 0; kind < ERR_KINDS; kind++) {
            if (calls[i].by_end[kind] > 0) {
                buf_addf(out, "anybox_calls_total{tool=\"%s\",code=\"%s\"} %llu\n", calls[i].tool,
                         kind == ERR_NONE ? "ok" : err_kind_name((enum err_kind)kind),
                         (unsigned long long)calls[i].by_end[kind]);
            }
        }
    }
}

static void add_durations(struct buf *out, const struct call_counts *calls, size_t n)
{
    head(out, "call_duration_seconds", "histogram", "How long tool calls took, by tool.");
    for (size_t i = 0; i < n; i++) {
        unsigned long long sum = 0;

        for (size_t at = 0; at < METRICS_BUCKETS; at++) {
            sum += calls[i].buckets[at];
            buf_addf(out, "anybox_call_duration_seconds_bucket{tool=\"%s\",le=\"%g\"} %llu\n",
                     calls[i].tool, metrics_bounds[at], sum);
        }
        buf_addf(out, "anybox_call_duration_seconds_bucket{tool=\"%s\",le=\"+Inf\"} %llu\n",
                 calls[i].tool, (unsigned long long)calls[i].n);
        buf_addf(out, "anybox_call_duration_seconds_sum{tool=\"%s\"} %.6f\n", calls[i].tool,
                 (double)calls[i].total_us / 1e6);
        buf_addf(out, "anybox_call_duration_seconds_count{tool=\"%s\"} %llu\n", calls[i].tool,
                 (unsigned long long)calls[i].n);
    }
}

static void add_calls(struct buf *out, struct request *r)
{
    struct call_counts *calls =
        arena_alloc(r->arena, METRICS_TOOLS_MAX, sizeof(struct call_counts));
    int64_t running = 0;
    size_t n = metrics_calls(r->services->metrics, calls, &running);

    number(out, "calls_running", "gauge", "Tool calls under way.", running);
    add_ends(out, calls, n);
    add_durations(out, calls, n);
}

/* ---- HTTP ---------------------------------------------------------------------------------- */

static void add_http(struct buf *out, struct http_counts *counts)
{
    static const char *const classes[] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};

    head(out, "http_requests_total", "counter",
         "HTTP requests, by the class of their status (none: the client left before).");
    for (size_t i = 0; i < COUNTOF(classes); i++) {
        buf_addf(out, "anybox_http_requests_total{status=\"%s\"} %llu\n", classes[i],
                 atomic_load(&counts->requests[i]));
    }
    number(out, "http_connections", "gauge", "HTTP connections that are open.",
           atomic_load(&counts->connections));
    number(out, "http_connections_total", "counter", "HTTP connections that were opened.",
           (long long)atomic_load(&counts->connected));
    number(out, "http_streams", "gauge", "Event streams that are open.",
           atomic_load(&counts->streams));
    number(out, "http_received_bytes_total", "counter", "Bytes of bodies that clients sent.",
           (long long)atomic_load(&counts->bytes_in));
    number(out, "http_sent_bytes_total", "counter", "Bytes of bodies that were sent.",
           (long long)atomic_load(&counts->bytes_out));
}

/* ---- the process --------------------------------------------------------------------------- */

static long long count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    long long n = -3; /* ".", ".." and the one that looks */

    if (dir == NULL) {
        return -1;
    }
    while (readdir(dir) != NULL) {
        n++;
    }
    (void)closedir(dir);
    return n;
}

static void add_process(struct buf *out, struct request *r)
{
    struct str statm = STR_EMPTY;
    struct str rest = STR_EMPTY;
    int64_t pages = 0;
    int64_t boxes = 0;
    struct err ignored;

    head(out, "build_info", "gauge", "Which version this is.");
    buf_addf(out, "anybox_build_info{version=\"%s\",libmicrohttpd=\"%s\"} 1\n", ANYBOX_VERSION,
             r->http->mhd.get_version());
    if (boxes_count(r->services->boxes, &boxes, &ignored) == 0) {
        number(out, "boxes", "gauge", "Sandboxes that have not ended, of all keys.", boxes);
    }
    if (fd_read_file(AT_FDCWD, "/proc/self/statm", 4096, r->arena, &statm, &ignored) == 0) {
        (void)str_cut(statm, ' ', &rest);
        if (str_to_i64(str_cut(rest, ' ', &rest), 0, INT64_MAX, &pages, &ignored) == 0) {
            number(out, "resident_memory_bytes", "gauge", "Memory of this process.",
                   pages * sysconf(_SC_PAGESIZE));
        }
    }
    number(out, "open_fds", "gauge", "Descriptors that are open in this process.", count_fds());
}

static void show(struct request *r)
{
    struct buf out own_buf = {0};

    buf_init(&out, PAGE_MAX);
    add_process(&out, r);
    add_calls(&out, r);
    add_http(&out, &r->http->counts);
    request_set_header(r, "Cache-Control", S("no-store"));
    request_reply(r, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", buf_str(&out));
}

/* Who has no key may look when the operator says so. */
static struct caller *admit_anybody(struct request *r)
{
    return r->services->config->http_open_metrics != 0 ? callers_nobody(r->http->callers) : NULL;
}

const struct route metrics_routes[] = {
    {.path = "/metrics", .methods = HTTP_GET, .run = show, .admit = admit_anybody},
    {.path = NULL},
};
