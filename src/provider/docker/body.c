/*
 * body.c - what a container is asked to be: pure, so that its tests can read all of it.
 *
 * Everything that makes a container less than a sandbox is said here, with its value, and not left
 * to the engine's defaults, which an operator may have changed. No text of a caller decides
 * anything but the labels, the environment and, through image_check(), the image.
 */
#include <string.h>

#include "base/clock.h"
#include "base/own.h"
#include "provider/docker/plain.h"

#define SECONDS_MOST 316224000 /* what boxinit takes: ten years */
#define RUN_SIZE     (1 << 20)
#define SCRIPT_MAX   (8u << 10)

/* ---- limits ------------------------------------------------------------------------------------ */

static int cannot_keep(const char *what, struct err *e)
{
    return err_set(e, ERR_UNSUPPORTED,
                   "the container engine cannot limit %s on its machine: leave the limit out, or "
                   "look at the warnings of docker info",
                   what);
}

static int settle_cpus(const struct engine_facts *facts, int32_t asked, int32_t *out, struct err *e)
{
    int64_t most = facts->cpus > 0 ? facts->cpus * 1000 : INT32_MAX;

    if (asked > most) {
        return err_set(e, ERR_INVALID,
                       "cpus %g is more than the %lld that the engine's machine has",
                       asked / 1000.0, (long long)facts->cpus);
    }
    if (asked > 0 && !facts->cpu_limit) {
        return cannot_keep("processors", e);
    }
    *out = asked > 0 ? asked : *out > most ? (int32_t)most : *out;
    *out = facts->cpu_limit ? *out : 0;
    return 0;
}

static int settle_disk(const struct docker *d, const struct engine_facts *facts, int64_t asked,
                       struct limits *out, struct err *e)
{
    bool is_in_memory = d->conf.read_only && d->conf.mount_root.len == 0;

    if (facts->is_podman && is_in_memory) {
        out->disk_bytes = 0;
    }
    if (asked > 0 && facts->is_podman && is_in_memory) {
        return err_set(e, ERR_UNSUPPORTED,
                       "disk cannot be limited with Podman and docker.read_only: its folders in "
                       "memory have no owner but root; leave disk out");
    }
    if (asked > 0 && d->conf.mount_root.len > 0) {
        return err_set(e, ERR_UNSUPPORTED,
                       "disk cannot be limited: the work folder is a folder of the host "
                       "(docker.open_mount_directory); leave disk out");
    }
    out->disk_bytes = asked > 0 ? asked : out->disk_bytes;
    return 0;
}

int body_limits(const struct docker *d, const struct engine_facts *facts,
                const struct limits *asked, struct limits *out, struct err *e)
{
    struct limits l = d->defaults;

    if (asked->memory_bytes > 0 && !facts->memory_limit) {
        return cannot_keep("memory", e);
    }
    if (asked->pids > 0 && !facts->pids_limit) {
        return cannot_keep("processes", e);
    }
    if (settle_cpus(facts, asked->cpu_millis, &l.cpu_millis, e) < 0 ||
        settle_disk(d, facts, asked->disk_bytes, &l, e) < 0) {
        return -1;
    }
    l.memory_bytes = asked->memory_bytes > 0 ? asked->memory_bytes : l.memory_bytes;
    l.memory_bytes = facts->memory_limit ? l.memory_bytes : 0;
    l.pids = asked->pids > 0 ? asked->pids : l.pids;
    l.pids = facts->pids_limit ? l.pids : 0;
    l.open_files = asked->open_files > 0 ? asked->open_files : l.open_files;
    l.lifetime_s = asked->lifetime_s > 0 ? asked->lifetime_s : l.lifetime_s;
    l.idle_s = asked->idle_s > 0 ? asked->idle_s : l.idle_s;
    *out = l;
    return 0;
}

/* ---- the body ---------------------------------------------------------------------------------- */

static void add_label(struct buf *to, const char *name, struct str value)
{
    buf_addf(to, ",\"%s\":", name);
    value_quote(to, value);
}

static void add_number(struct buf *to, const char *name, int64_t v)
{
    buf_addf(to, ",\"%s\":\"%lld\"", name, (long long)v);
}

static void add_labels(const struct body *b, struct buf *to)
{
    buf_add(to, S(",\"Labels\":{\"" LABEL_ID "\":"));
    value_quote(to, b->spec->id);
    add_label(to, LABEL_INSTANCE, b->instance);
    add_label(to, LABEL_HELPER, STR_EMPTY); /* that of a container which the image was made of */
    add_label(to, LABEL_NAME, b->spec->name);
    add_label(to, LABEL_IMAGE, b->asked);
    add_label(to, LABEL_VIA, b->is_plain ? S(VIA_EXEC) : STR_EMPTY);
    add_label(to, LABEL_NO_AGENT, b->no_agent);
    add_number(to, LABEL_CREATED, b->now);
    add_number(to, LABEL_IDLE, b->limits.idle_s);
    add_number(to, LABEL_LIFETIME, b->limits.lifetime_s);
    buf_addc(to, '}');
}

static void add_option(struct buf *to, const char *name, int64_t v)
{
    if (v > 0) {
        buf_addf(to, ",\"%s\",\"%lld\"", name, (long long)v);
    }
}

/* PID 1, whose program the prepared image names as its entry point. */
static void add_command(const struct body *b, struct buf *to)
{
    const struct limits *l = &b->limits;

    if (b->is_plain) {
        struct buf script own_buf = {0};

        buf_init(&script, SCRIPT_MAX);
        plain_add_first(&script, l);
        buf_add(to, S(",\"Cmd\":[\"-c\","));
        value_quote(to, buf_str(&script));
        buf_addc(to, ']');
        return;
    }
    buf_add(to, S(",\"Cmd\":[\"serve\",\"--socket\",\"" AGENT_DIR "/run\""));
    add_option(to, "--idle", l->idle_s > 0 ? l->idle_s : SECONDS_MOST);
    add_option(to, "--lifetime", l->lifetime_s);
    add_option(to, "--memory", l->memory_bytes);
    add_option(to, "--pids", l->pids);
    buf_add(to, S(",\"--work\","));
    value_quote(to, b->docker->conf.work_dir);
    buf_addc(to, ']');
}

static void add_env(const struct body *b, struct buf *to)
{
    buf_add(to, S(",\"Env\":["));
    for (size_t i = 0; i < b->spec->n_env; i++) {
        buf_add(to, i > 0 ? S(",") : STR_EMPTY);
        value_quote(to, b->spec->env[i]);
    }
    buf_addc(to, ']');
}

/* Folders in memory: of a read-only root those that must be writable, with the disk limit
 * as their size. Podman can give them no owner: there the agent's own is a volume. */
static void add_tmpfs(const struct body *b, struct buf *to)
{
    const struct docker_conf *c = &b->docker->conf;
    int64_t disk = b->limits.disk_bytes;

    if (!c->read_only) {
        return;
    }
    buf_add(to, S(",\"Tmpfs\":{"));
    if (!b->is_podman) {
        buf_addf(to, "\"" AGENT_DIR "/run\":\"rw,nosuid,nodev,mode=0700,size=%d,uid=%u,gid=%u\",",
                 RUN_SIZE, b->uid, b->gid);
    }
    buf_add(to, S("\"/tmp\":\"rw,exec,nosuid,nodev,mode=1777"));
    if (disk > 0) {
        buf_addf(to, ",size=%lld", (long long)disk);
    }
    buf_addc(to, '"');
    const struct str folders[] = {b->bind.len > 0 ? STR_EMPTY : c->work_dir, b->home};
    for (size_t i = 0; disk > 0 && i < COUNTOF(folders); i++) {
        if (folders[i].len > 0) {
            buf_addc(to, ',');
            value_quote(to, folders[i]);
            buf_addf(to, ":\"rw,exec,nosuid,nodev,mode=0755,size=%lld,uid=%u,gid=%u\"",
                     (long long)disk, b->uid, b->gid);
        }
    }
    buf_addc(to, '}');
}

/* Of a read-only root without a disk limit: the engine copies what the prepared image has there,
 * with its owner, and removes the volume with the container. */
static void add_volumes(const struct body *b, struct buf *to)
{
    bool has_disk = b->limits.disk_bytes > 0;
    const struct str folders[] = {
        has_disk ? STR_EMPTY : b->home,
        has_disk || b->bind.len > 0 ? STR_EMPTY : b->docker->conf.work_dir,
        b->is_podman ? S(AGENT_DIR "/run") : STR_EMPTY,
    };
    const char *before = "";

    if (!b->docker->conf.read_only) {
        return;
    }
    buf_add(to, S(",\"Volumes\":{"));
    for (size_t i = 0; i < COUNTOF(folders); i++) {
        if (folders[i].len > 0) {
            buf_add(to, str_from(before));
            value_quote(to, folders[i]);
            buf_add(to, S(":{}"));
            before = ",";
        }
    }
    buf_addc(to, '}');
}

static void add_limits(const struct body *b, struct buf *to)
{
    const struct limits *l = &b->limits;
    int64_t swap = b->docker->conf.memswap_bytes;

    if (l->memory_bytes > 0) {
        /* Memory and swap together; less than memory is refused, and as much means no swap. */
        swap = swap < l->memory_bytes ? l->memory_bytes : swap;
        buf_addf(to, ",\"Memory\":%lld,\"MemorySwap\":%lld", (long long)l->memory_bytes,
                 (long long)swap);
    }
    if (l->cpu_millis > 0) {
        buf_addf(to, ",\"NanoCpus\":%lld", (long long)l->cpu_millis * 1000000);
    }
    if (l->pids > 0) {
        buf_addf(to, ",\"PidsLimit\":%d", l->pids);
    }
    buf_add(to, S(",\"Ulimits\":[{\"Name\":\"core\",\"Soft\":0,\"Hard\":0}"));
    if (l->open_files > 0) {
        buf_addf(to, ",{\"Name\":\"nofile\",\"Soft\":%d,\"Hard\":%d}", l->open_files,
                 l->open_files);
    }
    buf_addc(to, ']');
    if (l->disk_bytes > 0 && !b->docker->conf.read_only) {
        buf_addf(to, ",\"StorageOpt\":{\"size\":\"%lld\"}", (long long)l->disk_bytes);
    }
}

static void add_network(const struct body *b, struct buf *to)
{
    struct str mode = S("none");

    if (b->spec->network == NETWORK_INTERNET) {
        mode = b->docker->conf.network;
    } else if (b->spec->network == NETWORK_HOST) {
        mode = S("host");
    }
    buf_add(to, S(",\"NetworkMode\":"));
    value_quote(to, mode);
}

static void add_host_config(const struct body *b, struct buf *to)
{
    buf_add(to, S(",\"HostConfig\":{\"Privileged\":false,\"CapDrop\":[\"ALL\"],\"CapAdd\":[]"
                  ",\"SecurityOpt\":[\"no-new-privileges\"],\"PidMode\":\"\",\"UTSMode\":\"\""
                  ",\"IpcMode\":\"private\",\"UsernsMode\":\"\",\"Devices\":[],\"AutoRemove\":false"
                  ",\"PublishAllPorts\":false,\"RestartPolicy\":{\"Name\":\"no\"}"
                  ",\"LogConfig\":{\"Type\":\"none\"}"));
    buf_addf(to, ",\"ReadonlyRootfs\":%s", b->docker->conf.read_only ? "true" : "false");
    add_network(b, to);
    add_limits(b, to);
    add_tmpfs(b, to);
    if (b->bind.len > 0) {
        buf_add(to, S(",\"Mounts\":[{\"Type\":\"bind\",\"Source\":"));
        value_quote(to, b->bind);
        buf_add(to, S(",\"Target\":"));
        value_quote(to, b->docker->conf.work_dir);
        buf_add(to, S(",\"BindOptions\":{\"Propagation\":\"rprivate\"}}]"));
    }
    if (b->spec->gpu) {
        buf_add(to, S(",\"DeviceRequests\":[{\"Driver\":\"\",\"Count\":-1,\"Capabilities\":"
                      "[[\"gpu\"]]}]"));
    }
    buf_addc(to, '}');
}

void body_write(const struct body *b, struct buf *to)
{
    buf_add(to, S("{\"Image\":"));
    value_quote(to, b->prepared);
    buf_add(to,
            S(",\"AttachStdin\":false,\"AttachStdout\":false,\"AttachStderr\":false,\"Tty\":false"
              ",\"OpenStdin\":false,\"Hostname\":\"sandbox\""));
    add_command(b, to);
    add_env(b, to);
    add_labels(b, to);
    add_volumes(b, to);
    add_host_config(b, to);
    buf_addc(to, '}');
}
