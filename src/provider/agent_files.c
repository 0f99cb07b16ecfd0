/* Files over the agent's protocol. The worker in the box does exactly what code in the
 * box could do, so paths need no checking here beyond their form. */
#include <string.h>

#include "base/clock.h"
#include "provider/over_agent.h"
#include "provider/talk.h"

_Static_assert((int)FILE_PARENTS == (int)WRITE_PARENTS && (int)FILE_APPEND == (int)WRITE_APPEND &&
                   (int)FILE_NEW == (int)WRITE_NEW,
               "the flags travel as they are");

/* Opens a conversation whose request begins with a path. */
static int begin(struct talk *t, struct box *b, const struct ctx *ctx, struct str path,
                 struct err *e)
{
    if (talk_check_text(path, PATH_MAX_BYTES, false, "the path", e) < 0) {
        return -1;
    }
    return talk_open(t, b, ctx, e);
}

static int finish(struct wire_out *w, struct err *e)
{
    if (!wire_end(w)) {
        return err_set(e, ERR_BUG, "a file request did not fit its buffer");
    }
    return 0;
}

static enum file_type type_of(uint8_t said)
{
    switch (said) {
    case ENTRY_FILE: return FILE_REGULAR;
    case ENTRY_DIR: return FILE_DIR;
    case ENTRY_LINK: return FILE_SYMLINK;
    default: return FILE_OTHER;
    }
}

static int get_entry(const struct ctx *ctx, struct frame f, struct file_info *out, struct err *e)
{
    struct wire_in r = wire_read(f.fields);
    struct str path = wire_get_str(&r);
    uint8_t type = wire_get_u8(&r);
    uint32_t mode = wire_get_u32(&r);
    uint64_t size = wire_get_u64(&r);
    uint64_t mtime = wire_get_u64(&r);
    if (f.type != FRAME_ENTRY || !wire_done(&r) || size > INT64_MAX) {
        return talk_bad(e, "the description of a file");
    }
    *out = (struct file_info){
        .path = arena_str(ctx->arena, path),
        .type = type_of(type),
        .mode = (mode_t)(mode & 07777),
        .size = (int64_t)size,
        .mtime_s = (int64_t)mtime,
    };
    return 0;
}

static int file_stat(struct box *b, const struct ctx *ctx, struct str path, struct file_info *out,
                     struct err *e)
{
    struct talk t own_talk = TALK_NONE;
    if (begin(&t, b, ctx, path, e) < 0) {
        return -1;
    }
    struct wire_out w = wire_begin(&t.out, FRAME_STAT);
    wire_str(&w, path);
    wire_u8(&w, 1);
    struct frame f;
    if (finish(&w, e) < 0 || talk_get(&t, ctx, &f, e) < 0) {
        return -1;
    }
    return get_entry(ctx, f, out, e);
}

static int file_list(struct box *b, const struct ctx *ctx, const struct list_req *req,
                     file_info_fn *each, void *arg, bool *more, struct err *e)
{
    struct talk t own_talk = TALK_NONE;
    if (begin(&t, b, ctx, req->dir, e) < 0) {
        return -1;
    }
    struct wire_out w = wire_begin(&t.out, FRAME_LIST);
    wire_str(&w, req->dir);
    wire_u8(&w, req->recursive ? 1 : 0);
    wire_u32(&w, req->max);
    if (finish(&w, e) < 0) {
        return -1;
    }
    for (uint32_t seen = 0;; seen++) {
        struct frame f;
        if (talk_get(&t, ctx, &f, e) < 0) {
            return -1;
        }
        if (f.type == FRAME_OK) {
            struct wire_in r = wire_read(f.fields);
            *more = wire_get_u8(&r) != 0;
            return 0;
        }
        struct file_info info;
        if (seen >= req->max) {
            return talk_bad(e, "more files than were asked for,");
        }
        if (get_entry(ctx, f, &info, e) < 0 || each(arg, &info, e) < 0) {
            return -1;
        }
    }
}

static int read_chunks(struct talk *t, const struct ctx *ctx, int64_t max, const struct sink *to,
                       struct err *e)
{
    int64_t left = max;
    for (;;) {
        struct frame f;
        if (talk_get(t, ctx, &f, e) < 0) {
            return -1;
        }
        if (f.type == FRAME_OK) {
            return 0;
        }
        struct wire_in r = wire_read(f.fields);
        struct str bytes = wire_get_str(&r);
        if (f.type != FRAME_CHUNK || !wire_done(&r) || bytes.len > DATA_MAX ||
            (int64_t)bytes.len > left) {
            return talk_bad(e, "a piece of a file");
        }
        left -= (int64_t)bytes.len;
        if (bytes.len > 0 && to->write(to->arg, STREAM_OUT, bytes, e) < 0) {
            return -1;
        }
    }
}

static int file_read(struct box *b, const struct ctx *ctx, struct str path, int64_t from,
                     int64_t max, const struct sink *to, struct file_info *out, struct err *e)
{
    if (from < 0 || max < 0) {
        return err_set(e, ERR_INVALID, "offset and length of a read cannot be negative");
    }
    struct talk t own_talk = TALK_NONE;
    if (begin(&t, b, ctx, path, e) < 0) {
        return -1;
    }
    struct wire_out w = wire_begin(&t.out, FRAME_READ);
    wire_str(&w, path);
    wire_u64(&w, (uint64_t)from);
    wire_u64(&w, (uint64_t)max);
    struct frame f;
    struct file_info info;
    if (finish(&w, e) < 0 || talk_get(&t, ctx, &f, e) < 0 || get_entry(ctx, f, &info, e) < 0 ||
        read_chunks(&t, ctx, max, to, e) < 0) {
        return -1;
    }
    *out = info;
    return 0;
}

/* ---- writing ---------------------------------------------------------------------- */

static int add_chunk(struct talk *t, const struct source *from, bool *done, struct err *e)
{
    char chunk[16 << 10];
    ssize_t n = from->read(from->arg, chunk, sizeof chunk, e);
    if (n < 0) {
        return -1;
    }
    struct wire_out w = wire_begin(&t->out, FRAME_CHUNK);
    wire_str(&w, (struct str){chunk, (size_t)n});
    *done = n == 0;
    return finish(&w, e);
}

/* A file on its way into a box. */
struct upload {
    struct talk *talk;
    const struct source *from;
    bool readable; /* from->read() will not block */
    bool done;     /* all of it was read */
};

static int add_chunks(struct upload *u, struct err *e)
{
    while (!u->done && u->readable && u->talk->out.len < DATA_MAX) {
        if (add_chunk(u->talk, u->from, &u->done, e) < 0) {
            return -1;
        }
        u->readable = u->from->fd < 0;
    }
    return talk_flush(u->talk, e);
}

/* Until there is an answer, room to send more, or more to send. */
static int wait_upload(struct upload *u, const struct ctx *ctx, struct err *e)
{
    bool may_block = u->from->fd >= 0;
    struct pollfd extra = {.fd = may_block ? u->from->fd : u->talk->fd,
                           .events = may_block ? POLLIN : POLLOUT};
    bool wait_more = !u->done && !talk_unsent(u->talk);
    /* The source may take its time, the box may not. */
    int64_t until_ms = wait_more && may_block ? 0 : clock_mono_ms() + TALK_SILENT_MS;
    int ready = talk_wait(u->talk, ctx, wait_more ? &extra : NULL, until_ms, e);
    if (ready <= 0) {
        return ready < 0 ? -1 : talk_silent(e, TALK_SILENT_MS);
    }
    u->readable = !may_block || (wait_more && extra.revents != 0);
    return 0;
}

/* Sends the contents while it watches for an answer that comes early: a FAIL. An error
 * of the source just ends the connection, which leaves the file as it was. */
static int send_chunks(struct talk *t, const struct ctx *ctx, const struct source *from,
                       struct frame *answer, struct err *e)
{
    struct upload u = {.talk = t, .from = from, .readable = from->fd < 0};
    for (;;) {
        int got = talk_next(t, answer, e);
        if (got != 0) {
            return got < 0 ? -1 : 0;
        }
        if (t->closed) {
            return talk_ended(t, ctx, e);
        }
        if (add_chunks(&u, e) < 0 || wait_upload(&u, ctx, e) < 0) {
            return -1;
        }
    }
}

static int file_write(struct box *b, const struct ctx *ctx, struct str path, mode_t mode,
                      enum write_flags flags, const struct source *from, struct file_info *out,
                      struct err *e)
{
    struct talk t own_talk = TALK_NONE;
    if (begin(&t, b, ctx, path, e) < 0) {
        return -1;
    }
    struct wire_out w = wire_begin(&t.out, FRAME_WRITE);
    wire_str(&w, path);
    wire_u32(&w, (uint32_t)mode & 07777);
    wire_u8(&w, (uint8_t)flags);
    struct frame f;
    if (finish(&w, e) < 0 || send_chunks(&t, ctx, from, &f, e) < 0) {
        return -1;
    }
    return get_entry(ctx, f, out, e);
}

/* A request that is only a path, answered by OK. */
static int ask_path(struct box *b, const struct ctx *ctx, uint8_t type, struct str path,
                    struct err *e)
{
    struct talk t own_talk = TALK_NONE;
    if (begin(&t, b, ctx, path, e) < 0) {
        return -1;
    }
    struct wire_out w = wire_begin(&t.out, type);
    wire_str(&w, path);
    struct frame f;
    if (finish(&w, e) < 0) {
        return -1;
    }
    return talk_expect(&t, ctx, FRAME_OK, &f, e);
}

static int file_mkdir(struct box *b, const struct ctx *ctx, struct str path, struct err *e)
{
    return ask_path(b, ctx, FRAME_MKDIR, path, e);
}

static int file_remove(struct box *b, const struct ctx *ctx, struct str path, struct err *e)
{
    return ask_path(b, ctx, FRAME_REMOVE, path, e);
}

const struct file_ops files_over_agent = {
    .stat = file_stat,
    .list = file_list,
    .read = file_read,
    .write = file_write,
    .mkdir = file_mkdir,
    .remove = file_remove,
};
