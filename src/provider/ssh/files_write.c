/*
 * Writing by SFTP. The bytes go to a file of another name beside the target, which takes the
 * target's place when it is whole; what is appended to cannot be replaced and is written to
 * directly. Up to SFTP_AHEAD blocks are under way.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/id.h"
#include "base/own.h"
#include "base/path.h"
#include "provider/ssh/sftp_file.h"

struct writing {
    struct file_job *job;
    const struct source *from;
    struct str target, part; /* part is empty when the target is written to directly */
    struct str handle;
    mode_t mode;
    int64_t at;
    unsigned n; /* answers that are owed */
};

/* Takes one owed answer. */
static int settle(struct writing *w, struct err *e)
{
    struct sftp_packet p;

    if (sftp_get(w->job->sftp, w->job->ctx, &p, e) < 0) {
        return -1;
    }
    w->n--;
    if (sftp_status_of(&p) == SFTP_OK) {
        return 0;
    }
    (void)sftp_fail(&p, "write to", w->job->given, e);
    if (e->kind == ERR_SYSTEM) {
        return err_set(e, ERR_LIMIT,
                       "cannot write to %.*s: the host refused the bytes; its disk or the user's "
                       "quota is probably full",
                       STR_ARG(str_head(w->job->given, 256)));
    }
    return -1;
}

/* The next bytes of the source: as read(). */
static ssize_t next_bytes(struct writing *w, char *to, size_t cap, struct err *e)
{
    if (w->from->fd >= 0) {
        struct pollfd fd = {.fd = w->from->fd, .events = POLLIN};

        if (ctx_wait(w->job->ctx, &fd, 1, 0, e) < 0) {
            return -1;
        }
    }
    return w->from->read(w->from->arg, to, cap, e);
}

static int write_blocks(struct writing *w, struct err *e)
{
    struct sftp *s = w->job->sftp;
    char *block own_mem = xmalloc(SFTP_BLOCK_MAX);
    uint32_t size = SFTP_BLOCK;

    for (;;) {
        ssize_t n = next_bytes(w, block, size, e);

        if (n < 0) {
            return -1;
        }
        if (n == 0) {
            break;
        }
        if (w->at == 0 && n == SFTP_BLOCK) { /* there is more than a little */
            if (sftp_learn_block(s, w->job->ctx, e) < 0) {
                return -1;
            }
            size = s->block;
        }
        (void)sftp_begin(s, SFTP_WRITE);
        sftp_text(s, w->handle);
        sftp_u64(s, (uint64_t)w->at);
        sftp_text(s, (struct str){block, (size_t)n});
        w->n++;
        w->at += n;
        if (sftp_send(s, w->job->ctx, e) < 0 || (w->n >= SFTP_AHEAD / size && settle(w, e) < 0)) {
            return -1;
        }
    }
    while (w->n > 0) {
        if (settle(w, e) < 0) {
            return -1;
        }
    }
    return 0;
}

static int set_mode(struct writing *w, struct err *e)
{
    struct sftp_packet p;
    uint32_t id = sftp_begin(w->job->sftp, SFTP_FSETSTAT);

    sftp_text(w->job->sftp, w->handle);
    sftp_u32(w->job->sftp, 4); /* permissions */
    sftp_u32(w->job->sftp, w->mode);
    if (sftp_ask(w->job->sftp, w->job->ctx, id, &p, e) < 0) {
        return -1;
    }
    return sftp_status_of(&p) == SFTP_OK ? 0 : sftp_fail(&p, "set the mode of", w->job->given, e);
}

/* Puts the whole file in its place. Plain RENAME fails when something is there, which is
 * what FILE_NEW wants. */
static int put_in_place(struct writing *w, bool is_new, struct err *e)
{
    struct sftp *s = w->job->sftp;
    bool replaces = !is_new && s->has_posix_rename;
    struct sftp_packet p;
    uint32_t id = sftp_begin(s, replaces ? SFTP_EXTENDED : SFTP_RENAME);

    if (replaces) {
        sftp_text(s, S("posix-rename@openssh.com"));
    } else if (!is_new) {
        struct err ignored = {0};

        /* A server without the atomic one: there is a moment without the file. */
        (void)!file_simple(w->job, SFTP_REMOVE, w->target, "replace", &ignored);
        id = sftp_begin(s, SFTP_RENAME);
    }
    sftp_text(s, w->part);
    sftp_text(s, w->target);
    if (sftp_ask(s, w->job->ctx, id, &p, e) < 0) {
        return -1;
    }
    if (sftp_status_of(&p) == SFTP_OK) {
        return 0;
    }
    if (is_new && sftp_status_of(&p) == SFTP_FAILURE) {
        return err_set(e, ERR_EXISTS, "\"%.*s\" exists already on the host",
                       STR_ARG(str_head(w->job->given, 256)));
    }
    return sftp_fail(&p, "put in place", w->target, e);
}

/* What is there now decides about the mode and, when it is a link, about the place. */
static int look_at_target(struct writing *w, enum write_flags flags, mode_t mode, struct err *e)
{
    struct file_info info;
    struct err why = {0};
    struct sftp_packet p;

    w->mode = mode != 0 ? mode : 0644;
    if (file_look(w->job, SFTP_STAT, w->target, &info, &why) < 0) {
        if (why.kind == ERR_NOT_FOUND) {
            return 0;
        }
        *e = why;
        return -1;
    }
    if (info.type == FILE_DIR) {
        return err_set(e, ERR_INVALID, "\"%.*s\" is a folder; name a file in it",
                       STR_ARG(str_head(w->job->given, 256)));
    }
    if (info.type != FILE_REGULAR) {
        return err_set(e, ERR_INVALID, "\"%.*s\" is not a regular file",
                       STR_ARG(str_head(w->job->given, 256)));
    }
    if (flags & FILE_NEW) {
        return err_set(e, ERR_EXISTS, "\"%.*s\" exists already on the host",
                       STR_ARG(str_head(w->job->given, 256)));
    }
    w->mode = mode != 0 ? mode : info.mode;
    uint32_t id = sftp_begin(w->job->sftp, SFTP_REALPATH);
    sftp_text(w->job->sftp, w->target);
    if (sftp_ask(w->job->sftp, w->job->ctx, id, &p, e) < 0) {
        return -1;
    }
    struct sftp_in in = {.rest = p.body};
    if (p.type == SFTP_NAME && sftp_get_u32(&in) == 1) {
        w->target = arena_str(w->job->ctx->arena, sftp_get_text(&in));
    }
    return in.bad ? sftp_bad(w->job->sftp, e) : 0;
}

static int open_target(struct writing *w, enum write_flags flags, struct err *e)
{
    struct arena *a = w->job->ctx->arena;
    char random[17];

    if (flags & FILE_APPEND) {
        return file_open(w->job, SFTP_OPEN, w->target,
                         SFTP_OPEN_WRITE | SFTP_OPEN_APPEND | SFTP_OPEN_CREATE, w->mode, &w->handle,
                         e);
    }
    id_hex(random, 8);
    w->part = path_join(a, path_dir(w->target), arena_printf(a, ".anybox-%s", random));
    if (file_open(w->job, SFTP_OPEN, w->part,
                  SFTP_OPEN_WRITE | SFTP_OPEN_CREATE | SFTP_OPEN_EXCLUSIVE, 0600, &w->handle,
                  e) < 0) {
        return err_wrap(e, "cannot write %.*s", STR_ARG(str_head(w->job->given, 256)));
    }
    return 0;
}

/* After a failure: nothing is left. The conversation is in a state that only a new one mends. */
static void clean_up(struct writing *w)
{
    struct err ignored = {0};
    struct sftp *old = w->job->sftp;

    if (w->n > 0) {
        old->is_broken = true;
    }
    if (w->part.len == 0 || w->handle.len == 0) {
        return;
    }
    if (old->is_broken) {
        struct ctx ctx = {.arena = w->job->ctx->arena, .deadline_ms = 0};

        w->job->sftp = sftp_take(w->job->machine, &ctx, &ignored);
        sftp_give(w->job->machine, old);
        if (w->job->sftp == NULL) {
            return;
        }
    } else {
        (void)!file_close(w->job, w->handle, &ignored);
    }
    (void)!file_simple(w->job, SFTP_REMOVE, w->part, "remove", &ignored);
}

static int write_job(struct writing *w, enum write_flags flags, mode_t mode, struct err *e)
{
    if (look_at_target(w, flags, mode, e) < 0) {
        return -1;
    }
    if ((flags & FILE_PARENTS) && file_make_folders(w->job, path_dir(w->target), e) < 0) {
        return -1;
    }
    if (open_target(w, flags, e) < 0 || write_blocks(w, e) < 0) {
        return -1;
    }
    if (w->part.len > 0 && set_mode(w, e) < 0) {
        return -1;
    }
    if (file_close(w->job, w->handle, e) < 0) {
        return -1;
    }
    return w->part.len > 0 ? put_in_place(w, (flags & FILE_NEW) != 0, e) : 0;
}

int ssh_file_write(struct box *b, const struct ctx *ctx, struct str path, mode_t mode,
                   enum write_flags flags, const struct source *from, struct file_info *out,
                   struct err *e)
{
    struct file_job j own_job = {0};
    struct file_info info;

    if (path.len > 0 && path.p[path.len - 1] == '/') {
        return err_set(e, ERR_INVALID, "\"%.*s\" names a folder; name a file in it",
                       STR_ARG(str_head(path, 256)));
    }
    if (file_begin(&j, b, ctx, path, e) < 0) {
        return -1;
    }
    struct writing w = {.job = &j, .from = from, .target = path_clean(ctx->arena, j.path)};
    if (write_job(&w, flags, mode, e) < 0) {
        clean_up(&w);
        return -1;
    }
    if (file_look(&j, SFTP_STAT, w.target, &info, e) < 0) {
        return -1;
    }
    info.path = arena_str(ctx->arena, path);
    *out = info;
    return 0;
}
