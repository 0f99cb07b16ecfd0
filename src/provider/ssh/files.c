/* Files by SFTP: looking, reading, making folders. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/path.h"
#include "provider/ssh/own.h"
#include "provider/ssh/sftp_file.h"

#define BIG_BYTES (1 << 20) /* from here on larger requests are worth a question */

/* ---- the pieces --------------------------------------------------------------------------- */

int file_begin(struct file_job *j, struct box *b, const struct ctx *ctx, struct str path,
               struct err *e)
{
    struct facts facts;

    j->machine = machine_of(b);
    j->ctx = ctx;
    j->given = path;
    if (path.len == 0 || path.len >= PATH_MAX_REMOTE || str_has(path, '\0')) {
        (void)err_set(e, ERR_INVALID, "a path has 1 to %d bytes and no NUL", PATH_MAX_REMOTE - 1);
        return -1;
    }
    if (ssh_facts(j->machine, ctx, &facts, e) < 0) {
        return -1;
    }
    j->path = path_tilde(ctx->arena, path, facts.home);
    j->sftp = sftp_take(j->machine, ctx, e);
    return j->sftp != NULL ? 0 : -1;
}

void file_end(struct file_job *j)
{
    sftp_give(j->machine, j->sftp);
}

int file_simple(struct file_job *j, enum sftp_type type, struct str path, const char *doing,
                struct err *e)
{
    struct sftp_packet p = {0};
    uint32_t id = sftp_begin(j->sftp, type);

    sftp_text(j->sftp, path);
    if (type == SFTP_MKDIR) {
        sftp_u32(j->sftp, 0); /* no attributes */
    }
    if (sftp_ask(j->sftp, j->ctx, id, &p, e) < 0) {
        return -1;
    }
    return sftp_status_of(&p) == SFTP_OK ? 0 : sftp_fail(&p, doing, path, e);
}

int file_look(struct file_job *j, enum sftp_type type, struct str path, struct file_info *out,
              struct err *e)
{
    struct sftp_packet p = {0};
    uint32_t id = sftp_begin(j->sftp, type);

    sftp_text(j->sftp, path);
    if (sftp_ask(j->sftp, j->ctx, id, &p, e) < 0) {
        return -1;
    }
    if (p.type != SFTP_ATTRS) {
        return sftp_fail(&p, "look at", path, e);
    }
    struct sftp_in in = {.rest = p.body};
    *out = (struct file_info){.path = arena_str(j->ctx->arena, path)};
    sftp_get_attrs(&in, out);
    return in.bad ? sftp_bad(j->sftp, e) : 0;
}

int file_open(struct file_job *j, enum sftp_type type, struct str path, uint32_t flags, mode_t mode,
              struct str *handle, struct err *e)
{
    struct sftp_packet p = {0};
    uint32_t id = sftp_begin(j->sftp, type);

    sftp_text(j->sftp, path);
    if (type == SFTP_OPEN) {
        sftp_u32(j->sftp, flags);
        sftp_u32(j->sftp, mode != 0 ? 4 : 0); /* the attribute "permissions", or none */
        if (mode != 0) {
            sftp_u32(j->sftp, mode);
        }
    }
    if (sftp_ask(j->sftp, j->ctx, id, &p, e) < 0) {
        return -1;
    }
    if (p.type != SFTP_HANDLE) {
        return sftp_fail(&p, "open", path, e);
    }
    struct sftp_in in = {.rest = p.body};
    *handle = arena_str(j->ctx->arena, sftp_get_text(&in));
    return in.bad ? sftp_bad(j->sftp, e) : 0;
}

int file_close(struct file_job *j, struct str handle, struct err *e)
{
    return file_simple(j, SFTP_CLOSE, handle, "close", e);
}

/* ---- stat ------------------------------------------------------------------------------------ */

static int ssh_stat(struct box *b, const struct ctx *ctx, struct str path, struct file_info *out,
                    struct err *e)
{
    struct file_job j own_job = {0};

    if (file_begin(&j, b, ctx, path, e) < 0 || file_look(&j, SFTP_LSTAT, j.path, out, e) < 0) {
        return -1;
    }
    out->path = arena_str(ctx->arena, path);
    return 0;
}

/* ---- read ------------------------------------------------------------------------------------ */

struct slot {
    uint32_t id;
    int64_t from;
    uint32_t len;    /* asked for */
    struct buf data; /* what came, when it was not its turn yet or came in parts */
    bool is_done;
};

struct reading {
    struct file_job *job;
    struct str handle;
    const struct sink *to;
    int64_t next, end; /* offsets: to ask for, and where to stop */
    uint32_t block;    /* bytes of one request */
    struct slot slots[SFTP_SLOTS];
    unsigned first, n; /* a ring: under way */
    struct str direct; /* what the first slot waited for: not copied, gone with the next packet */
    bool is_at_end;    /* the file's end was seen: ask for no more */
};

static int ask_read(struct reading *r, struct slot *s, struct err *e)
{
    s->id = sftp_begin(r->job->sftp, SFTP_READ);
    sftp_text(r->job->sftp, r->handle);
    sftp_u64(r->job->sftp, (uint64_t)s->from + s->data.len);
    sftp_u32(r->job->sftp, s->len - (uint32_t)s->data.len);
    return sftp_send(r->job->sftp, r->job->ctx, e);
}

static int ask_ahead(struct reading *r, struct err *e)
{
    while (r->n < SFTP_AHEAD / r->block && r->next < r->end && !r->is_at_end) {
        struct slot *s = &r->slots[(r->first + r->n) % SFTP_SLOTS];
        int64_t left = r->end - r->next;

        s->from = r->next;
        s->len = left < r->block ? (uint32_t)left : r->block;
        s->is_done = false;
        buf_init(&s->data, r->block);
        r->next += s->len;
        r->n++;
        if (ask_read(r, s, e) < 0) {
            return -1;
        }
    }
    return 0;
}

static struct slot *slot_of(struct reading *r, uint32_t id)
{
    for (unsigned i = 0; i < r->n; i++) {
        struct slot *s = &r->slots[(r->first + i) % SFTP_SLOTS];

        if (s->id == id && !s->is_done) {
            return s;
        }
    }
    return NULL;
}

static int take_answer(struct reading *r, struct err *e)
{
    struct sftp_packet p = {0};

    if (sftp_get(r->job->sftp, r->job->ctx, &p, e) < 0) {
        return -1;
    }
    struct slot *s = slot_of(r, p.id);
    if (s == NULL) {
        return sftp_bad(r->job->sftp, e);
    }
    if (p.type == SFTP_DATA) {
        struct sftp_in in = {.rest = p.body};
        struct str data = sftp_get_text(&in);

        if (s == &r->slots[r->first] && s->data.len == 0 && !in.bad && data.len == s->len) {
            r->direct = data;
            s->is_done = true;
            return 0;
        }
        buf_add(&s->data, data);
        if (in.bad || data.len == 0 || s->data.cut || s->data.len > s->len) {
            return sftp_bad(r->job->sftp, e);
        }
        s->is_done = s->data.len == s->len;
        return s->is_done ? 0 : ask_read(r, s, e);
    }
    if (sftp_status_of(&p) != SFTP_EOF) {
        r->job->sftp->is_broken = true; /* more answers are on their way */
        return sftp_fail(&p, "read", r->job->given, e);
    }
    s->is_done = true;
    r->is_at_end = true;
    return 0;
}

static int read_all(struct reading *r, struct err *e)
{
    bool is_short = false; /* behind a block that ended early nothing belongs to the file */

    for (;;) {
        if (ask_ahead(r, e) < 0) {
            return -1;
        }
        if (r->n == 0) {
            return 0;
        }
        struct slot *s = &r->slots[r->first];
        while (!s->is_done) {
            if (take_answer(r, e) < 0) {
                return -1;
            }
        }
        struct str data = r->direct.len > 0 ? r->direct : buf_str(&s->data);
        if (!is_short && data.len > 0 && r->to->write(r->to->arg, STREAM_OUT, data, e) < 0) {
            r->job->sftp->is_broken = true;
            return -1;
        }
        is_short = is_short || data.len < s->len;
        r->direct = STR_EMPTY;
        buf_fini(&s->data);
        r->first = (r->first + 1) % SFTP_SLOTS;
        r->n--;
    }
}

static int ssh_read(struct box *b, const struct ctx *ctx, struct str path, int64_t from,
                    int64_t max, const struct sink *to, struct file_info *out, struct err *e)
{
    struct file_job j own_job = {0};
    struct file_info info = {0};

    if (from < 0 || max < 0) {
        return err_set(e, ERR_INVALID, "an offset and a length cannot be negative");
    }
    if (file_begin(&j, b, ctx, path, e) < 0 || file_look(&j, SFTP_STAT, j.path, &info, e) < 0) {
        return -1;
    }
    if (info.type == FILE_DIR) {
        return err_set(e, ERR_INVALID, "\"%.*s\" is a folder; list it instead",
                       STR_ARG(str_head(path, 256)));
    }
    if (info.type != FILE_REGULAR) {
        return err_set(e, ERR_INVALID, "\"%.*s\" is not a regular file",
                       STR_ARG(str_head(path, 256)));
    }
    struct reading r = {.job = &j, .to = to, .next = from, .block = SFTP_BLOCK};
    if (info.size > BIG_BYTES && max > BIG_BYTES) {
        if (sftp_learn_block(j.sftp, ctx, e) < 0) {
            return -1;
        }
        r.block = j.sftp->block;
    }
    r.end = max > INT64_MAX - from ? INT64_MAX : from + max;
    if (file_open(&j, SFTP_OPEN, j.path, SFTP_OPEN_READ, 0, &r.handle, e) < 0) {
        return -1;
    }
    int rc = read_all(&r, e);
    for (; r.n > 0; r.n--, r.first = (r.first + 1) % SFTP_SLOTS) {
        buf_fini(&r.slots[r.first].data);
    }
    if (rc < 0 || file_close(&j, r.handle, e) < 0) {
        return -1;
    }
    info.path = arena_str(ctx->arena, path);
    *out = info;
    return 0;
}

/* ---- folders ----------------------------------------------------------------------------------- */

/* Whether it is there; a file in its place fails. */
static int is_folder(struct file_job *j, struct str path, bool *is_there, struct err *e)
{
    struct file_info info = {0};

    *is_there = false;
    if (file_look(j, SFTP_STAT, path, &info, e) < 0) {
        return e->kind == ERR_NOT_FOUND ? 0 : -1;
    }
    *is_there = true;
    return info.type == FILE_DIR
               ? 0
               : err_set(e, ERR_INVALID, "\"%.*s\" is not a folder", STR_ARG(str_head(path, 256)));
}

static int make_folder(struct file_job *j, struct str path, struct err *e)
{
    bool is_there = false;

    if (file_simple(j, SFTP_MKDIR, path, "make the folder", e) == 0) {
        return 0;
    }
    /* Somebody else may have made it just now. */
    struct err why = *e;
    if (e->kind == ERR_SYSTEM && is_folder(j, path, &is_there, e) == 0 && is_there) {
        return 0;
    }
    *e = why;
    return -1;
}

int file_make_folders(struct file_job *j, struct str path, struct err *e)
{
    struct str missing[PATH_MAX_REMOTE / 2];
    size_t n = 0;

    for (struct str at = path; !str_eq(at, S(".")); at = path_dir(at)) {
        bool is_there = false;

        if (is_folder(j, at, &is_there, e) < 0) {
            return -1;
        }
        if (is_there || str_eq(path_dir(at), at)) {
            break;
        }
        if (n == COUNTOF(missing)) {
            return err_set(e, ERR_LIMIT, "folders are nested too deeply: more than %zu", n);
        }
        missing[n++] = at;
    }
    while (n > 0) {
        if (make_folder(j, missing[--n], e) < 0) {
            return -1;
        }
    }
    return 0;
}

static int ssh_mkdir_p(struct box *b, const struct ctx *ctx, struct str path, struct err *e)
{
    struct file_job j own_job = {0};

    if (file_begin(&j, b, ctx, path, e) < 0) {
        return -1;
    }
    return file_make_folders(&j, path_clean(ctx->arena, j.path), e);
}

const struct file_ops ssh_files_plain = {
    .stat = ssh_stat,
    .list = ssh_file_list,
    .read = ssh_read,
    .write = ssh_file_write,
    .mkdir = ssh_mkdir_p,
    .remove = ssh_file_remove,
};
