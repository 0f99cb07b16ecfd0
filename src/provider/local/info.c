#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/proto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/proc.h"
#include "provider/local/local.h"

#define INFO_VERSION 1
#define INFO_NEW     "info.new"
#define END_MAX      64
#define END_DELETED  "deleted" /* by somebody: beside what PID 1 writes */

static const char *const network_names[] = {
    [NETWORK_NONE] = "none",
    [NETWORK_INTERNET] = "internet",
    [NETWORK_HOST] = "host",
};

/* ---- text ------------------------------------------------------------------------ */

void meta_write(const struct meta *m, struct buf *out)
{
    buf_addf(out, "version=%d\n", INFO_VERSION);
    buf_addf(out, "name=%.*s\n", STR_ARG(m->name));
    buf_addf(out, "pid=%d\n", (int)m->pid);
    buf_addf(out, "start=%lld\n", m->start);
    buf_addf(out, "boot=%.*s\n", STR_ARG(m->boot));
    buf_addf(out, "created=%lld\n", (long long)m->created_at);
    buf_addf(out, "expires=%lld\n", (long long)m->expires_at);
    buf_addf(out, "memory=%lld\n", (long long)m->limits.memory_bytes);
    buf_addf(out, "disk=%lld\n", (long long)m->limits.disk_bytes);
    buf_addf(out, "cpu=%d\n", m->limits.cpu_millis);
    buf_addf(out, "pids=%d\n", m->limits.pids);
    buf_addf(out, "files=%d\n", m->limits.open_files);
    buf_addf(out, "lifetime=%d\n", m->limits.lifetime_s);
    buf_addf(out, "idle=%d\n", m->limits.idle_s);
    buf_addf(out, "network=%s\n", network_names[m->network]);
    buf_addf(out, "tier=%.*s\n", STR_ARG(m->tier));
    buf_addf(out, "image=%.*s\n", STR_ARG(m->image));
    buf_addf(out, "uid=%lld\n", (long long)m->uid_base);
    for (size_t i = 0; i < m->n_cgroups; i++) {
        buf_addf(out, "cgroup=%.*s\n", STR_ARG(m->cgroups[i]));
    }
}

enum field_type { FIELD_STR, FIELD_I64, FIELD_I32 };

static const struct field {
    const char *key;
    enum field_type type;
    size_t at;
} fields[] = {
    {"name", FIELD_STR, offsetof(struct meta, name)},
    {"boot", FIELD_STR, offsetof(struct meta, boot)},
    {"tier", FIELD_STR, offsetof(struct meta, tier)},
    {"image", FIELD_STR, offsetof(struct meta, image)},
    {"pid", FIELD_I32, offsetof(struct meta, pid)},
    {"start", FIELD_I64, offsetof(struct meta, start)},
    {"created", FIELD_I64, offsetof(struct meta, created_at)},
    {"expires", FIELD_I64, offsetof(struct meta, expires_at)},
    {"memory", FIELD_I64, offsetof(struct meta, limits.memory_bytes)},
    {"disk", FIELD_I64, offsetof(struct meta, limits.disk_bytes)},
    {"cpu", FIELD_I32, offsetof(struct meta, limits.cpu_millis)},
    {"pids", FIELD_I32, offsetof(struct meta, limits.pids)},
    {"files", FIELD_I32, offsetof(struct meta, limits.open_files)},
    {"lifetime", FIELD_I32, offsetof(struct meta, limits.lifetime_s)},
    {"idle", FIELD_I32, offsetof(struct meta, limits.idle_s)},
    {"uid", FIELD_I64, offsetof(struct meta, uid_base)},
};

_Static_assert(sizeof(pid_t) == sizeof(int32_t) && sizeof(long long) == sizeof(int64_t),
               "fields of struct meta are stored by their size");

static int set_field(const struct field *f, struct str value, struct meta *out, struct err *e)
{
    char *to = (char *)out + f->at;
    if (f->type == FIELD_STR) {
        memcpy(to, &value, sizeof value);
        return 0;
    }
    int64_t max = f->type == FIELD_I32 ? INT32_MAX : INT64_MAX;
    int64_t number = 0;
    if (str_to_i64(value, 0, max, &number, e) < 0) {
        return err_wrap(e, "%s", f->key);
    }
    int32_t small = (int32_t)number;
    if (f->type == FIELD_I32) {
        memcpy(to, &small, sizeof small);
    } else {
        memcpy(to, &number, sizeof number);
    }
    return 0;
}

static int set_network(struct str value, struct meta *out, struct err *e)
{
    for (size_t i = 0; i < COUNTOF(network_names); i++) {
        if (str_eq(value, str_from(network_names[i]))) {
            out->network = (enum network)i;
            return 0;
        }
    }
    return err_set(e, ERR_PROTOCOL, "unknown network");
}

static int set_line(struct str key, struct str value, struct meta *out, struct err *e)
{
    if (str_eq(key, S("network"))) {
        return set_network(value, out, e);
    }
    if (str_eq(key, S("cgroup"))) {
        if (out->n_cgroups == CGROUPS_MAX) {
            return err_set(e, ERR_PROTOCOL, "too many cgroups");
        }
        out->cgroups[out->n_cgroups++] = value;
        return 0;
    }
    for (size_t i = 0; i < COUNTOF(fields); i++) {
        if (str_eq(key, str_from(fields[i].key))) {
            return set_field(&fields[i], value, out, e);
        }
    }
    return 0; /* a newer anybox may say more */
}

int meta_parse(struct str text, struct meta *out, struct err *e)
{
    *out = (struct meta){0};
    struct str rest = text;
    struct str first = str_cut(text, '\n', &rest);
    if (!str_starts(first, S("version=")) || str_has(text, '\0')) {
        return err_set(e, ERR_PROTOCOL, "the info file of this sandbox cannot be read");
    }
    while (rest.len > 0) {
        struct str line = str_cut(rest, '\n', &rest);
        struct str value = STR_EMPTY;
        struct str key = str_cut(line, '=', &value);
        if (set_line(key, value, out, e) < 0) {
            e->kind = ERR_PROTOCOL;
            return err_wrap(e, "the info file of this sandbox cannot be read");
        }
    }
    return 0;
}

int meta_load(int folder, struct arena *a, struct meta *out, struct err *e)
{
    struct str text;
    if (fd_read_file(folder, INFO_FILE, INFO_MAX, a, &text, e) < 0) {
        return -1;
    }
    return meta_parse(text, out, e);
}

/* Not fd_replace_file(): after a crash of the machine the box is gone with its info,
 * so the disk need not be waited for. */
int meta_save(int folder, const struct meta *m, struct err *e)
{
    struct buf text own_buf = {0};
    buf_init(&text, INFO_MAX);
    meta_write(m, &text);
    if (text.cut) {
        return err_set(e, ERR_LIMIT, "the info file of this sandbox would be too large");
    }
    int fd own_fd = openat(folder, INFO_NEW, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        return err_sys(e, errno, "cannot write the info file of the sandbox");
    }
    if (fd_write_all(fd, buf_str(&text), e) < 0) {
        return -1;
    }
    if (renameat(folder, INFO_NEW, folder, INFO_FILE) < 0) {
        return err_sys(e, errno, "cannot write the info file of the sandbox");
    }
    return 0;
}

/* ---- alive or not ------------------------------------------------------------------ */

/* Where one of both could not be read, process and start time have to do: one that is taken for
 * dead is not killed, and its folder removed. */
bool meta_this_boot(const struct meta *m, struct arena *a)
{
    struct str boot = proc_boot_id(a);
    return boot.len == 0 || m->boot.len == 0 || str_eq(m->boot, boot);
}

bool meta_alive(const struct meta *m, struct arena *a)
{
    if (m->pid <= 0 || !meta_this_boot(m, a)) {
        return false;
    }
    int pidfd own_fd = (int)syscall(SYS_pidfd_open, m->pid, 0);
    if ((pidfd < 0 && errno == ESRCH) || proc_is_gone(m->pid, m->start)) {
        return false;
    }
    if (pidfd < 0) {
        return true; /* without a descriptor to look with it is not known to be dead */
    }
    /* Readable: it has exited, and only waits for its parent to take note. */
    struct pollfd exited = {.fd = pidfd, .events = POLLIN};
    return poll(&exited, 1, 0) == 0;
}

struct str span_text(struct arena *a, int64_t seconds)
{
    if (seconds >= 7200 && seconds % 3600 == 0) {
        return arena_printf(a, "%lld h", (long long)(seconds / 3600));
    }
    if (seconds >= 120 && seconds % 60 == 0) {
        return arena_printf(a, "%lld min", (long long)(seconds / 60));
    }
    return arena_printf(a, "%lld s", (long long)seconds);
}

static struct str read_end(int folder, struct arena *a)
{
    struct err ignored;
    struct str end = STR_EMPTY;
    if (fd_read_file(folder, END_FILE, END_MAX, a, &end, &ignored) < 0) {
        return STR_EMPTY;
    }
    /* The first line: two may have had something to say at the same time. */
    return str_cut(end, '\n', &end);
}

/* Without it the phrase is less exact. */
void meta_mark_deleted(int folder)
{
    int fd own_fd = openat(folder, END_FILE, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    struct stat is;
    if (fd >= 0 && fstat(fd, &is) == 0 && is.st_size == 0) {
        (void)!pwrite(fd, END_DELETED, sizeof END_DELETED - 1, 0);
    }
}

struct str meta_reason(const struct meta *m, int folder, struct arena *a, enum box_end *kind)
{
    struct str end = read_end(folder, a);
    *kind = BOX_END_OTHER;
    if (str_eq(end, S("idle"))) {
        *kind = BOX_END_IDLE;
        return arena_printf(a, "it was idle for %.*s", STR_ARG(span_text(a, m->limits.idle_s)));
    }
    if (str_eq(end, S("lifetime"))) {
        *kind = BOX_END_LIFETIME;
        return arena_printf(a, "its lifetime of %.*s was over",
                            STR_ARG(span_text(a, m->limits.lifetime_s)));
    }
    /* Of what is being removed the info goes first: so whoever finds neither an end nor a
     * mark looks for it last. */
    if (str_eq(end, S(END_DELETED)) ||
        (faccessat(folder, INFO_FILE, F_OK, 0) < 0 && errno == ENOENT)) {
        *kind = BOX_END_DELETED;
        return S("it was deleted");
    }
    if (str_eq(end, S("shutdown"))) {
        return S("it was shut down");
    }
    if (m->boot.len > 0 && !str_eq(m->boot, proc_boot_id(a))) {
        return S("the machine was restarted");
    }
    return S("its init process ended");
}
