#include "agent/request.h"

#include <string.h>

#include "agent/entries.h"
#include "agent/proto.h"
#include "tree/exclude.h"

static bool is_part(uint8_t type)
{
    return type == FRAME_TREE_PART_PUT || type == FRAME_TREE_PART_GET;
}

static bool is_tree(uint8_t type)
{
    return (type >= FRAME_TREE_LIST && type <= FRAME_TREE_PRUNE) || is_part(type);
}

bool request_is_file(uint8_t type)
{
    return (type >= FRAME_STAT && type <= FRAME_REMOVE) || is_tree(type);
}

bool request_is_dial(uint8_t type)
{
    return type == FRAME_TCP || type == FRAME_UNIX;
}

static int check_text(struct str s, const char *what, size_t max, struct err *e)
{
    if (s.len > max) {
        return err_set(e, ERR_INVALID, "%s of %zu bytes; at most %zu are accepted", what, s.len,
                       max);
    }
    if (str_has(s, '\0')) {
        return err_set(e, ERR_INVALID, "%s holds a NUL byte, which no program can be given", what);
    }
    return 0;
}

static int check_exec(const struct request *r, struct err *e)
{
    if (r->n_argv == 0 || r->argv[0].len == 0) {
        return err_set(e, ERR_INVALID, "no program to run: argv is empty");
    }
    for (size_t i = 0; i < r->n_argv; i++) {
        if (check_text(r->argv[i], "an argument", FRAME_MAX, e) < 0) {
            return -1;
        }
    }
    for (size_t i = 0; i < r->n_env; i++) {
        struct str s = r->env[i];
        struct str value;

        if (check_text(s, "an environment variable", FRAME_MAX, e) < 0) {
            return -1;
        }
        if (str_cut(s, '=', &value).len == 0 || !str_has(s, '=')) {
            return err_set(e, ERR_INVALID, "environment: \"%.*s\" is not NAME=value",
                           STR_ARG(str_head(s, 80)));
        }
    }
    return check_text(r->cwd, "cwd", PATH_MAX_BYTES - 1, e);
}

static int check_path(const struct request *r, struct err *e)
{
    if (r->path.len == 0) {
        return err_set(e, ERR_INVALID, "the path is empty");
    }
    if (is_tree(r->type) &&
        ((r->flags & ~TREE_FLAGS) != 0 || (r->digest.len != 0 && r->digest.len != TREE_SUM))) {
        return err_set(e, ERR_PROTOCOL, "request %u asks for what this agent does not know",
                       r->type);
    }
    if (is_part(r->type) && (r->name.len == 0 || !tree_path_ok(r->name))) {
        return err_set(e, ERR_INVALID, "\"%.*s\" is no path of a file in a tree",
                       STR_ARG(str_head(r->name, 300)));
    }
    return check_text(r->path, "a path", PATH_MAX_BYTES - 1, e);
}

/* An offset and a length that a file can have. */
static int check_range(const struct request *r, struct err *e)
{
    uint64_t n = r->type == FRAME_TREE_WANT ? r->max : r->bytes.len;

    if (n == 0 || r->from > INT64_MAX || n > INT64_MAX - r->from) {
        return err_set(e, ERR_PROTOCOL, "request %u names a part that no file can have", r->type);
    }
    return 0;
}

static int check(const struct request *r, struct err *e)
{
    if (check_text(r->id, "an id", ID_MAX, e) < 0) {
        return -1;
    }
    if (r->type == FRAME_EXEC) {
        return check_exec(r, e);
    }
    if (request_is_file(r->type) || r->type == FRAME_UNIX) {
        return check_path(r, e);
    }
    if (r->type == FRAME_TCP && r->port == 0) {
        return err_set(e, ERR_INVALID, "that is no port; 1 to 65535 are accepted");
    }
    if ((r->type == FRAME_TREE_WANT || r->type == FRAME_TREE_SLICE) && check_range(r, e) < 0) {
        return -1;
    }
    if (r->bytes.len > DATA_MAX || r->unpacked > ENTRIES_BLOCK) {
        return err_set(e, ERR_PROTOCOL, "%zu bytes in one frame; at most %u are accepted",
                       r->bytes.len, DATA_MAX);
    }
    return 0;
}

static void get_exec(struct wire_in *in, struct arena *a, struct request *r)
{
    uint8_t flags;

    r->id = wire_get_str(in);
    r->n_argv = wire_get_list(in, a, ARGV_MAX, &r->argv);
    r->cwd = wire_get_str(in);
    r->n_env = wire_get_list(in, a, ENV_MAX, &r->env);
    flags = wire_get_u8(in);
    r->with_input = (flags & EXEC_INPUT) != 0;
    r->keep = (flags & EXEC_KEEP) != 0;
    r->timeout_ms = wire_get_u64(in);
    r->grace_ms = wire_get_u32(in);
}

/* A number that is no port is read as 0, which check() refuses. */
static uint16_t get_port(struct wire_in *in)
{
    uint32_t port = wire_get_u32(in);

    return port <= UINT16_MAX ? (uint16_t)port : 0;
}

/* False: no such request. */
static bool get_task(struct wire_in *in, struct arena *a, struct request *r)
{
    switch (r->type) {
    case FRAME_EXEC: get_exec(in, a, r); return true;
    case FRAME_ATTACH:
        r->id = wire_get_str(in);
        r->from_out = wire_get_u64(in);
        r->from_err = wire_get_u64(in);
        return true;
    case FRAME_KILL:
        r->id = wire_get_str(in);
        r->grace_ms = wire_get_u32(in);
        return true;
    case FRAME_STATE: r->id = wire_get_str(in); return true;
    case FRAME_INPUT:
    case FRAME_CHUNK: r->bytes = wire_get_str(in); return true;
    case FRAME_TREE_GIVE:
        r->unpacked = wire_get_u32(in);
        r->bytes = wire_get_str(in);
        return true;
    case FRAME_TREE_SLICE:
        r->from = wire_get_u64(in);
        r->unpacked = wire_get_u32(in);
        r->bytes = wire_get_str(in);
        return true;
    case FRAME_TREE_WANT:
        r->from = wire_get_u64(in);
        r->max = wire_get_u64(in);
        return true;
    case FRAME_EXTEND:
        r->lifetime_ms = wire_get_u64(in);
        r->idle_ms = wire_get_u64(in);
        return true;
    case FRAME_TCP: r->port = get_port(in); return true;
    case FRAME_UNIX: r->path = wire_get_str(in); return true;
    case FRAME_DETACH:
    case FRAME_USAGE:
    case FRAME_SHUTDOWN: return true;
    default: return false;
    }
}

static void get_file(struct wire_in *in, struct arena *a, struct request *r)
{
    r->path = wire_get_str(in);
    if (is_tree(r->type)) {
        r->flags = wire_get_u8(in);
    }
    switch (r->type) {
    case FRAME_TREE_LIST:
        r->digest = wire_get_str(in);
        r->n_excludes = wire_get_list(in, a, EXCLUDES_MAX, &r->excludes);
        return;
    case FRAME_TREE_PART_PUT:
        r->name = wire_get_str(in);
        r->temp = wire_get_str(in);
        return;
    case FRAME_TREE_PART_GET: r->name = wire_get_str(in); return;
    case FRAME_STAT: r->follow = wire_get_u8(in) != 0; return;
    case FRAME_LIST:
        r->recursive = wire_get_u8(in) != 0;
        r->max = wire_get_u32(in);
        return;
    case FRAME_READ:
        r->from = wire_get_u64(in);
        r->max = wire_get_u64(in);
        return;
    case FRAME_WRITE:
        r->mode = wire_get_u32(in);
        r->flags = wire_get_u8(in);
        return;
    default: return;
    }
}

int request_parse(struct frame frame, struct arena *a, struct request *out, struct err *e)
{
    struct wire_in in = wire_read(frame.fields);

    *out = (struct request){.type = frame.type};
    if (request_is_file(frame.type)) {
        get_file(&in, a, out);
    } else if (!get_task(&in, a, out)) {
        return err_set(e, ERR_PROTOCOL, "unknown request %u; this agent speaks version %d",
                       frame.type, AGENT_VERSION);
    }
    if (!wire_done(&in)) {
        return err_set(e, ERR_PROTOCOL, "request %u cannot be read: its fields end too %s",
                       frame.type, in.bad ? "early" : "late");
    }
    return check(out, e);
}
