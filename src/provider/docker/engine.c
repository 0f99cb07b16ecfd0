/* engine.c - where the engine is, and asking it: see docker.h. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/host.h"
#include "base/path.h"
#include "base/plain.h"
#include "base/thread.h"
#include "provider/docker/docker.h"

#define SAID_MAX     300
#define PORT_PLAIN   2375
#define PORT_TLS     2376
#define INFO_WAIT_MS 15000

/* ---- where ---------------------------------------------------------------------------- */

static bool is_socket(const char *path)
{
    struct stat is;

    return stat(path, &is) == 0 && S_ISSOCK(is.st_mode);
}

/* Docker's socket, a rootless one, Podman's, in this order; NULL: none is there. */
static const char *usual_socket(const struct docker *d, struct arena *a)
{
    struct str run = d->conf.runtime_dir;
    const char *places[] = {
        "/var/run/docker.sock",
        run.len > 0 ? path_join(a, run, S("docker.sock")).p : NULL,
        run.len > 0 ? path_join(a, run, S("podman/podman.sock")).p : NULL,
        "/run/podman/podman.sock",
    };

    for (size_t i = 0; i < COUNTOF(places); i++) {
        if (places[i] != NULL && is_socket(places[i])) {
            return places[i];
        }
    }
    return NULL;
}

static int bad_address(struct str host, struct err *e)
{
    return err_set(e, ERR_INVALID,
                   "docker.host (DOCKER_HOST) \"%.*s\" is no address of a container engine: "
                   "unix:///path/to/socket, tcp://host:port and https://host:port are accepted; an "
                   "engine that is reached by ssh can be had with ssh -L "
                   "/tmp/docker.sock:/var/run/docker.sock HOST and unix:///tmp/docker.sock",
                   STR_ARG(str_head(host, 100)));
}

static void set_tls(const struct docker *d, struct arena *a, struct where *w)
{
    struct str dir = d->conf.cert_path;

    w->kind = WHERE_TLS;
    w->insecure = d->conf.tls_insecure;
    if (dir.len > 0) {
        const char *ca = path_join(a, dir, S("ca.pem")).p;
        const char *cert = path_join(a, dir, S("cert.pem")).p;

        w->ca = access(ca, F_OK) == 0 ? ca : NULL;
        w->cert = access(cert, F_OK) == 0 ? cert : NULL;
        w->key = path_join(a, dir, S("key.pem")).p;
    }
}

/* host, host:port, [address]:port, each perhaps with a slash behind. */
static int take_tcp(const struct docker *d, struct arena *a, struct str given, struct str rest,
                    bool is_tls, struct where *w, struct err *e)
{
    struct str port = STR_EMPTY;
    struct str host;
    int64_t n = is_tls ? PORT_TLS : PORT_PLAIN;
    struct err ignored;

    rest.len -= str_ends(rest, S("/"));
    if (str_starts(rest, S("["))) {
        host = str_cut(str_skip(rest, 1), ']', &port);
        port = str_starts(port, S(":")) ? str_skip(port, 1) : port;
    } else {
        host = str_cut(rest, ':', &port);
    }
    if (host.len == 0 || host_check(host, &ignored) < 0 ||
        (port.len > 0 && str_to_i64(port, 1, 65535, &n, &ignored) < 0)) {
        return bad_address(given, e);
    }
    w->kind = WHERE_TCP;
    w->host = arena_cstr(a, host);
    w->port = (uint16_t)n;
    if (is_tls) {
        set_tls(d, a, w);
    }
    return 0;
}

int engine_where(const struct docker *d, struct arena *a, struct where *out, struct err *e)
{
    struct str host = d->conf.host;
    bool is_tls = d->conf.cert_path.len > 0 || d->conf.tls_verify.len > 0;

    *out = (struct where){.shown = host};
    if (host.len == 0) {
        const char *found = usual_socket(d, a);

        out->path = found != NULL ? found : "/var/run/docker.sock";
        out->shown = str_from(out->path);
        return 0;
    }
    if (str_starts(host, S("unix://")) && host.len > 7 && host.p[7] == '/') {
        out->path = arena_cstr(a, str_skip(host, 7));
        return 0;
    }
    if (host.p[0] == '/') {
        out->path = arena_cstr(a, host);
        return 0;
    }
    if (str_starts(host, S("https://"))) {
        return take_tcp(d, a, host, str_skip(host, 8), true, out, e);
    }
    if (str_starts(host, S("tcp://"))) {
        return take_tcp(d, a, host, str_skip(host, 6), is_tls, out, e);
    }
    if (str_starts(host, S("http://"))) {
        return take_tcp(d, a, host, str_skip(host, 7), is_tls, out, e);
    }
    return bad_address(host, e);
}

bool engine_is_local(const struct where *w)
{
    return w->kind == WHERE_UNIX;
}

bool engine_is_likely(const struct docker *d)
{
    struct arena a own_arena = {0};

    arena_init(&a, 64u << 10);
    return d->conf.host.len > 0 || usual_socket(d, &a) != NULL;
}

/* ---- asking --------------------------------------------------------------------------- */

int engine_call(const struct docker *d, const struct ctx *ctx, const struct http_req *req,
                struct http_answer *out, struct err *e)
{
    struct where where;

    if (engine_where(d, ctx->arena, &where, e) < 0) {
        return -1;
    }
    return http_call(&where, ctx, req, out, e);
}

struct str engine_said(const struct http_answer *answer, struct arena *a)
{
    struct err ignored;
    struct buf text own_buf = {0};
    struct value *v = value_parse(a, answer->body, &ignored);
    struct str said = v != NULL ? value_text(v, "message") : answer->body;
    char *line;

    buf_init(&text, SAID_MAX);
    plain_text(said, &text);
    said = arena_str(a, str_trim(buf_str(&text)));
    line = arena_alloc(a, said.len + 1, 1);
    for (size_t i = 0; i < said.len; i++) {
        line[i] = (char)(said.p[i] == '\n' || said.p[i] == '\t' ? ' ' : said.p[i]);
    }
    return (struct str){line, said.len};
}

static enum err_kind kind_of(int status)
{
    switch (status) {
    case 400: return ERR_INVALID;
    case 401:
    case 403: return ERR_DENIED;
    case 404: return ERR_NOT_FOUND;
    case 409: return ERR_EXISTS;
    case 501: return ERR_UNSUPPORTED;
    case 503: return ERR_UNREACHABLE;
    default: return ERR_SYSTEM;
    }
}

int engine_fail(const struct http_answer *answer, struct arena *a, const char *doing, struct err *e)
{
    struct str said = engine_said(answer, a);
    bool is_full =
        said.p != NULL && memmem(said.p, said.len, "no space left on device", 23) != NULL;

    if (is_full) {
        return err_set(e, ERR_LIMIT,
                       "%s: the engine's disk is full (%.*s): make room there, for instance with "
                       "docker system prune",
                       doing, STR_ARG(said));
    }
    if (said.len == 0) {
        return err_set(e, kind_of(answer->status), "%s: the container engine answered %d", doing,
                       answer->status);
    }
    return err_set(e, kind_of(answer->status), "%s: %.*s", doing, STR_ARG(said));
}

int engine_ask(const struct docker *d, const struct ctx *ctx, const struct http_req *req,
               struct value **out, struct err *e)
{
    struct http_answer answer;

    if (engine_call(d, ctx, req, &answer, e) < 0) {
        return -1;
    }
    if (answer.status < 200 || answer.status > 299) {
        return engine_fail(&answer, ctx->arena, "the container engine refused", e);
    }
    *out = value_parse(ctx->arena, answer.body, e);
    return *out != NULL ? 0 : -1;
}

/* ---- what it is like -------------------------------------------------------------------- */

static void read_facts(const struct value *v, struct engine_facts *f)
{
    *f = (struct engine_facts){
        .version = value_text(v, "ServerVersion"),
        .driver = value_text(v, "Driver"),
        .cgroup = value_text(v, "CgroupVersion"),
        .machine = value_text(v, "Architecture"),
        .system = value_text(v, "OSType"),
        .cpus = value_int(v, "NCPU"),
        .memory = value_int(v, "MemTotal"),
        .memory_limit = value_bool(v, "MemoryLimit"),
        .swap_limit = value_bool(v, "SwapLimit"),
        .cpu_limit = value_bool(v, "CpuCfsQuota"),
        .pids_limit = value_bool(v, "PidsLimit"),
    };
    const struct value *options = value_at(v, "SecurityOptions");
    for (const struct value *o = options != NULL ? options->first : NULL; o != NULL; o = o->next) {
        f->has_seccomp = f->has_seccomp || (str_starts(o->text, S("name=seccomp")) &&
                                            !str_ends(o->text, S("unconfined")));
        f->is_rootless = f->is_rootless || str_starts(o->text, S("name=rootless"));
    }
    const struct value *logs = value_at(v, "Plugins.Log");
    for (const struct value *l = logs != NULL ? logs->first : NULL; l != NULL; l = l->next) {
        f->is_podman = f->is_podman || str_eq(l->text, S("k8s-file")); /* nobody else has that */
    }
}

/* The lock is held. */
static void keep_facts(struct docker *d, const struct engine_facts *f)
{
    struct str *texts[] = {&d->facts.version, &d->facts.driver, &d->facts.cgroup, &d->facts.machine,
                           &d->facts.system};

    if (d->has_facts) {
        return;
    }
    d->facts = *f;
    for (size_t i = 0; i < COUNTOF(texts); i++) {
        *texts[i] = arena_str(&d->texts, str_head(*texts[i], 100));
    }
    d->has_facts = true;
}

int engine_facts(struct docker *d, const struct ctx *ctx, struct engine_facts *out, struct err *e)
{
    struct http_req req = {.method = "GET", .path = S("/info"), .silent_ms = INFO_WAIT_MS};
    struct engine_facts facts;
    struct value *v = NULL;

    lock(&d->lock);
    bool known = d->has_facts;
    *out = d->facts;
    unlock(&d->lock);
    if (known) {
        return 0;
    }
    if (engine_ask(d, ctx, &req, &v, e) < 0) {
        return -1;
    }
    read_facts(v, &facts);
    LOCKED(&d->lock);
    keep_facts(d, &facts);
    *out = d->facts;
    return 0;
}
