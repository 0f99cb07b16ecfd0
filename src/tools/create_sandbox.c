/* create_sandbox.c - a box to order; takes and answers the union of what the seeds do. */
#include <math.h>

#include "base/buf.h"
#include "json/js.h"
#include "tools/answer.h"
#include "tools/rows.h"

#define MEMORY_MIN (16ll << 20)
#define DISK_MIN   (1ll << 20)
#define SIZE_MAX_B (16ll << 40)

struct args {
    struct str name, provider, image, network;
    int64_t timeout;
    struct str_list env;
    int64_t memory, disk;
    double cpus;
    int64_t pids, open_files, idle;
    bool gpu, reuse;
    struct str_list egress, resources;
    struct object_list volumes;
};

/* A volume of a platform: what it is, and where it is mounted. */
struct volume {
    struct str name, mount_path, sub_path, host_path, claim;
    bool read_only;
};

static enum network network_of(struct str word)
{
    if (str_eq(word, S("internet"))) {
        return NETWORK_INTERNET;
    }
    return str_eq(word, S("host")) ? NETWORK_HOST : NETWORK_NONE;
}

static int check(const struct args *args, struct err *e)
{
    struct err why = {0};

    if (args->cpus > 0 && args->cpus < 0.01) {
        return err_set(e, ERR_INVALID, "cpus must be at least 0.01, not %g", args->cpus);
    }
    if (args->name.len > 0 && boxes_check_name(args->name, &why) < 0) {
        return err_set(e, why.kind, "name: %s", why.msg);
    }
    return 0;
}

static int check_volume(const struct volume *v, struct err *e)
{
    if (v->name.len == 0 || v->mount_path.len == 0) {
        return err_set(e, ERR_INVALID, "volumes: each has a name and a mount_path");
    }
    if ((v->host_path.len > 0) == (v->claim.len > 0)) {
        return err_set(e, ERR_INVALID,
                       "volumes: \"%.*s\" needs either host_path, a folder of the platform's "
                       "machine, or claim, a named volume",
                       STR_ARG(str_head(v->name, 64)));
    }
    return 0;
}

static json_t *volume_of(const struct volume *v)
{
    json_t *o = json_object();
    json_t *at = json_object();

    answer_str(o, "name", v->name);
    answer_str(o, "mountPath", v->mount_path);
    answer_str_if(o, "subPath", v->sub_path);
    (void)json_object_set_new(o, "readOnly", json_boolean(v->read_only));
    answer_str(at, v->claim.len > 0 ? "claimName" : "path",
               v->claim.len > 0 ? v->claim : v->host_path);
    (void)json_object_set_new(o, v->claim.len > 0 ? "pvc" : "host", at);
    return o;
}

/* As the platform takes them, a text in the arena. */
static int add_volumes(struct call *c, const struct args *args, struct box_order *order,
                       struct err *e)
{
    json_t *list own_json = json_array();
    struct buf text own_buf = {0};
    const struct volume *v = args->volumes.items;

    for (size_t i = 0; i < args->volumes.n; i++) {
        if (check_volume(&v[i], e) < 0) {
            return -1;
        }
        (void)json_array_append_new(list, volume_of(&v[i]));
    }
    if (args->volumes.n > 0) {
        buf_init(&text, 1u << 20);
        js_dump(list, &text);
        order->spec.volumes = arena_str(c->ctx->arena, buf_str(&text));
    }
    return 0;
}

static struct box_order order_of(const struct args *args)
{
    return (struct box_order){
        .name = args->name,
        .provider = str_trim(args->provider),
        .reuse = args->reuse,
        .spec =
            {
                .image = str_trim(args->image),
                .network = network_of(args->network),
                .network_said = args->network.len > 0,
                .egress = args->egress.items,
                .n_egress = args->egress.n,
                .env = args->env.items,
                .n_env = args->env.n,
                .gpu = args->gpu,
                .limits =
                    {
                        .memory_bytes = args->memory,
                        .disk_bytes = args->disk,
                        .cpu_millis = (int32_t)lround(args->cpus * 1000),
                        .pids = (int32_t)args->pids,
                        .open_files = (int32_t)args->open_files,
                        .lifetime_s = (int32_t)args->timeout,
                        .idle_s = (int32_t)args->idle,
                    },
            },
    };
}

/* ---- resources, as platforms spell them: {"cpu": "500m", "memory": "256Mi"} ---------------- */

static int add_resource(json_t *to, struct str name, struct str value, struct err *e)
{
    static const char *const same[] = {"cpus", "memory", "disk", "pids", "gpu"};
    double cpus;

    if (str_eq(name, S("cpu"))) {
        bool is_milli = str_ends(value, S("m"));

        if (str_to_f64(is_milli ? str_head(value, value.len - 1) : value, &cpus, e) < 0) {
            return err_wrap(e, "resources: cpu");
        }
        (void)json_object_set_new(to, "cpus", json_real(is_milli ? cpus / 1000 : cpus));
        return 0;
    }
    for (size_t i = 0; i < COUNTOF(same); i++) {
        if (str_eq(name, str_from(same[i]))) {
            answer_str(to, same[i], value);
            return 0;
        }
    }
    return err_set(e, ERR_INVALID, "resources has cpu, memory, disk, pids and gpu, not \"%.*s\"",
                   STR_ARG(str_head(name, 64)));
}

/* They are checked as the arguments are that mean the same; one that was given itself wins. */
static int take_resources(struct call *c, struct args *args, struct err *e)
{
    json_t *meant own_json = json_object();
    const struct args *more;

    for (size_t i = 0; i < args->resources.n; i++) {
        struct str value;
        struct str name = str_cut(args->resources.items[i], '=', &value);

        if (add_resource(meant, name, str_trim(value), e) < 0) {
            return -1;
        }
    }
    more = tool_decode(&tool_create_sandbox, meant, c->ctx->arena, e);
    if (more == NULL) {
        return err_wrap(e, "resources");
    }
    args->memory = args->memory > 0 ? args->memory : more->memory;
    args->disk = args->disk > 0 ? args->disk : more->disk;
    args->cpus = args->cpus > 0 ? args->cpus : more->cpus;
    args->pids = args->pids > 0 ? args->pids : more->pids;
    args->gpu = args->gpu || more->gpu;
    return 0;
}

static json_t *answer(const struct call *c, const struct box_view *v, bool reused)
{
    json_t *o = json_object();

    answer_str(o, "sandbox_id", v->row.id);
    answer_str(o, "id", v->row.id);
    answer_str(o, "sandbox_short_id", answer_short_id(v->row.id));
    answer_str(o, "name", v->row.name);
    answer_str(o, "sandbox_name", v->row.name);
    answer_str(o, "provider", v->row.provider);
    (void)json_object_set_new(o, "status",
                              json_string(answer_is_mcp_sandbox(c) ? "active" : "running"));
    answer_box(o, v);
    (void)json_object_set_new(o, "idle_timeout_s",
                              v->info.limits.idle_s > 0 ? json_integer(v->info.limits.idle_s)
                                                        : json_null());
    answer_str_if(o, "work_dir", v->info.work_dir);
    answer_str_if(o, "home", v->info.home);
    (void)json_object_set_new(o, "selected", json_boolean(v->selected));
    if (reused) {
        (void)json_object_set_new(o, "reused", json_true());
    }
    return o;
}

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    struct args args = *(const struct args *)given;
    struct box_order order;
    struct box_view view = {0};
    bool reused = false;

    if (take_resources(c, &args, e) < 0 || check(&args, e) < 0) {
        return -1;
    }
    order = order_of(&args);
    if (add_volumes(c, &args, &order, e) < 0) {
        return -1;
    }
    if (boxes_create(c->services->boxes, c->ctx, c->scope, &order, &view, &reused, e) < 0) {
        return -1;
    }
    c->box_id = view.row.id;
    *out = answer(c, &view, reused);
    return 0;
}

static const char *const networks[] = {"none", "internet", "host", NULL};

#define VOLUME_TEXT(field, text)                                                                   \
    {                                                                                              \
        .name = #field, .type = PARAM_STRING, .offset = offsetof(struct volume, field),            \
        .max = 4096, .help = (text)                                                                \
    }
static const struct param volume_fields[] = {
    VOLUME_TEXT(name, "of the volume"),
    VOLUME_TEXT(mount_path, "where it is in the sandbox"),
    VOLUME_TEXT(sub_path, "a folder of it"),
    VOLUME_TEXT(host_path, "a folder of the platform's machine"),
    VOLUME_TEXT(claim, "a named volume"),
    {
        .name = "read_only",
        .type = PARAM_BOOLEAN,
        .offset = offsetof(struct volume, read_only),
        .help = "nothing is written to it",
    },
};

static const struct param params[] = {
    {
        .name = "name",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, name),
        .max = 4096, /* boxes_check_name() has the better sentence */
        .help = "letters, digits, . _ -; made up when left out",
    },
    {
        .name = "provider",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, provider),
        .max = BOX_WORD_MAX,
        .help = "default: local, or as configured",
    },
    {
        .name = "image",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, image),
        .max = 4096,
        .help = "docker: name:tag; local: its name, or a folder",
    },
    {
        .name = "timeout",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, timeout),
        .min = 1,
        .max = 31536000,
        .help = "seconds to live, at most",
    },
    {
        .name = "env",
        .type = PARAM_ENV,
        .offset = offsetof(struct args, env),
        .help = "variables for every command",
    },
    {
        .name = "memory",
        .type = PARAM_SIZE,
        .offset = offsetof(struct args, memory),
        .min = MEMORY_MIN,
        .max = SIZE_MAX_B,
        .help = "limit such as 512m or 2g",
    },
    {
        .name = "cpus",
        .type = PARAM_NUMBER,
        .offset = offsetof(struct args, cpus),
        .min = 0,
        .max = 4096,
        .help = "limit such as 1.5",
    },
    {
        .name = "pids",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, pids),
        .hidden = true,
        .min = 8,
        .max = 4194304,
        .help = "limit of processes and threads",
    },
    {
        .name = "disk",
        .type = PARAM_SIZE,
        .offset = offsetof(struct args, disk),
        .hidden = true,
        .min = DISK_MIN,
        .max = SIZE_MAX_B,
        .help = "limit such as 1g",
    },
    {
        .name = "open_files",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, open_files),
        .hidden = true,
        .min = 16,
        .max = 1048576,
        .help = "limit of each process",
    },
    {
        .name = "idle_timeout_s",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, idle),
        .hidden = true,
        .min = 1,
        .max = 31536000,
        .help = "seconds without use until it ends",
    },
    {
        .name = "network",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, network),
        .choices = networks,
        .help = "what it can reach; local: none unless said, host only if allowed",
    },
    {
        .name = "resources",
        .type = PARAM_ENV,
        .offset = offsetof(struct args, resources),
        .hidden = true,
        .help = "cpu, memory, disk, pids and gpu in one object, also as \"500m\" and \"256Mi\"",
    },
    {
        .name = "egress",
        .type = PARAM_STRINGS,
        .offset = offsetof(struct args, egress),
        .hidden = true,
        .max = 253,
        .help = "opensandbox: names that alone may be reached, such as *.pypi.org",
    },
    {
        .name = "volumes",
        .type = PARAM_OBJECTS,
        .offset = offsetof(struct args, volumes),
        .hidden = true,
        .fields = volume_fields,
        .n_fields = COUNTOF(volume_fields),
        .fields_size = sizeof(struct volume),
        .help = "opensandbox: volumes to mount",
    },
    {
        .name = "reuse",
        .type = PARAM_BOOLEAN,
        .offset = offsetof(struct args, reuse),
        .help = "take the live one of that name",
    },
    {
        .name = "gpu",
        .type = PARAM_BOOLEAN,
        .offset = offsetof(struct args, gpu),
        .hidden = true,
        .help = "whether it sees the machine's GPUs",
    },
};

const struct tool tool_create_sandbox = {
    .name = "create_sandbox",
    .title = "Create a sandbox",
    .help = "Make an isolated sandbox; answers its sandbox_id, limits and folders. It ends by "
            "itself, with its files, after 30 minutes without use or at its timeout. "
            "It becomes active if none is. exec_bash needs none: it makes one.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_DEFAULT | TOOLSET_OPEN | TOOLSET_MCP | TOOLSET_ALL,
    .hints = 0,
    .run = run,
};
