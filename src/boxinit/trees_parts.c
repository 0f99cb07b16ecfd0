/*
 * trees_parts.c - parts of one large file, for a client that moves it over several connections.
 *
 * A conversation is for one file and has no end of its own: the client goes when it has, or has
 * heard, what it wanted. What is written goes into the temporary file that the worker of another
 * conversation has made and will put in place.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/lz.h"
#include "base/own.h"
#include "boxinit/box.h"
#include "boxinit/command.h"
#include "boxinit/server.h"
#include "boxinit/trees.h"
#include "tree/apply.h"
#include "tree/read.h"

#define TOLD_EVERY 16 /* slices; and whenever there is nothing else to do */

/* Says why, and waits until the client has gone: what it has sent meanwhile must not be in the
 * way of that. */
static int part_refuse(struct worker *w, struct err *e)
{
    struct frame ignored;
    struct err end;
    if (e->kind == ERR_PROTOCOL || e->kind == ERR_CANCELLED) {
        return -1;
    }
    box_put_fail(&w->out, e);
    if (worker_flush(w, &end) == 0) {
        while (worker_next(w, &ignored, &end) == 0) {
        }
    }
    return err_set(e, ERR_CANCELLED, "the client is gone");
}

static int next_of(struct worker *w, uint8_t type, struct request *out, struct err *e)
{
    struct frame frame;
    if (worker_next(w, &frame, e) < 0 || request_parse(frame, &w->arena, out, e) < 0) {
        return -1;
    }
    return out->type == type
               ? 0
               : err_set(e, ERR_PROTOCOL, "request %u in the middle of a file", out->type);
}

/* ---- put ---------------------------------------------------------------------------------- */

static bool has_more(const struct worker *w)
{
    struct frame ignored;
    struct err e;
    return wire_parse(str_skip(buf_str(w->in), w->used), &ignored, &e) > 0;
}

static bool all_zero(struct str s)
{
    return s.p[0] == '\0' && memcmp(s.p, s.p + 1, s.len - 1) == 0;
}

/* Zeros stay the hole that they are in a fresh file. 0, or the errno. */
static int write_slice(int fd, uint64_t at, struct str bytes)
{
    if (all_zero(bytes)) {
        return 0;
    }
    while (bytes.len > 0) {
        ssize_t n = pwrite(fd, bytes.p, bytes.len, (off_t)at);
        if (n < 0 && errno != EINTR) {
            return errno;
        }
        at += n > 0 ? (uint64_t)n : 0;
        bytes = str_skip(bytes, n > 0 ? (size_t)n : 0);
    }
    return 0;
}

static int take_slices(struct worker *w, const struct request *r, int fd, struct err *e)
{
    char *room own_mem = xmalloc(ENTRIES_BLOCK);
    for (uint64_t n = 1;; n++) {
        struct request slice;
        if (next_of(w, FRAME_TREE_SLICE, &slice, e) < 0) {
            return -1;
        }
        struct str bytes = slice.bytes;
        if (slice.unpacked > 0) {
            if (lz_unpack(bytes, room, slice.unpacked) != (ssize_t)slice.unpacked) {
                return err_set(e, ERR_PROTOCOL, "a packed part of a file cannot be right");
            }
            bytes = (struct str){room, slice.unpacked};
        }
        int why = write_slice(fd, slice.from, bytes);
        if (why != 0) {
            return worker_fail(w, why, r->name, "write to", e);
        }
        if (n % TOLD_EVERY == 0 || !has_more(w)) {
            struct wire_out o = wire_begin(&w->out, FRAME_TREE_WRITTEN);
            wire_u64(&o, n);
            (void)!wire_end(&o);
            if (worker_flush(w, e) < 0) {
                return err_set(e, ERR_CANCELLED, "the client is gone");
            }
        }
    }
}

int trees_part_put(struct worker *w, const struct request *r, struct err *e)
{
    const char *path = command_path(w->spec, &w->arena, r->path);
    int root own_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd own_fd = root < 0 ? -1 : tree_part_open(root, r->name, r->temp);
    if (fd < 0) {
        (void)worker_fail(w, errno, r->name, "write to", e);
        return part_refuse(w, e);
    }
    (void)take_slices(w, r, fd, e);
    return part_refuse(w, e);
}

/* ---- get ---------------------------------------------------------------------------------- */

struct reading {
    struct worker *w;
    struct tree_reader *file;
    struct lz *lz; /* NULL: nothing is packed */
    char *room, *packed;
};

static int say_piece(struct reading *g, uint64_t at, struct str bytes, struct err *e)
{
    struct wire_out o = wire_begin(&g->w->out, FRAME_TREE_PIECE);
    size_t packed = 0;
    if (g->lz != NULL && bytes.len > 0) {
        packed = lz_pack(g->lz, bytes, g->packed, bytes.len - bytes.len / 16);
    }
    wire_u64(&o, at);
    wire_u32(&o, packed > 0 ? (uint32_t)bytes.len : 0);
    wire_str(&o, packed > 0 ? (struct str){g->packed, packed} : bytes);
    (void)!wire_end(&o); /* pieces are bounded and the buffer is flushed early */
    return g->w->out.len > OUT_HIGH ? worker_flush(g->w, e) : 0;
}

static int send_range(struct reading *g, uint64_t at, uint64_t end, struct err *e)
{
    tree_reader_seek(g->file, at);
    while (at < end) {
        uint64_t hole = tree_reader_hole(g->file);
        if (hole > 0) {
            at = hole < end - at ? at + hole : end;
            continue;
        }
        size_t want = end - at < ENTRIES_BLOCK ? (size_t)(end - at) : ENTRIES_BLOCK;
        ssize_t n = tree_reader_read(g->file, g->room, want, e);
        if (n == 0) {
            return err_set(e, ERR_INVALID, "it became shorter while it was read");
        }
        if (n < 0 || say_piece(g, at, (struct str){g->room, (size_t)n}, e) < 0) {
            return -1;
        }
        at += (uint64_t)n;
    }
    return say_piece(g, end, STR_EMPTY, e) < 0 ? -1 : worker_flush(g->w, e);
}

static int serve_wants(struct reading *g, const struct tree_entry *entry, struct err *e)
{
    struct wire_out o = wire_begin(&g->w->out, FRAME_TREE_FILE);
    wire_u64(&o, entry->size);
    wire_u64(&o, (uint64_t)entry->mtime_ns);
    (void)!wire_end(&o);
    if (worker_flush(g->w, e) < 0) {
        return -1;
    }
    for (;;) {
        struct request want;
        if (next_of(g->w, FRAME_TREE_WANT, &want, e) < 0 ||
            send_range(g, want.from, want.from + want.max, e) < 0) {
            return -1;
        }
    }
}

int trees_part_get(struct worker *w, const struct request *r, struct err *e)
{
    const char *path = command_path(w->spec, &w->arena, r->path);
    int root own_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct reading g = {.w = w};
    struct tree_entry entry = {0};
    if (root < 0) {
        (void)worker_fail(w, errno, r->path, "read", e);
        return part_refuse(w, e);
    }
    g.file = tree_reader_new(root);
    g.room = xmalloc(ENTRIES_BLOCK);
    g.packed = xmalloc(ENTRIES_BLOCK);
    g.lz = (r->flags & TREE_COMPRESS) != 0 ? xcalloc(1, sizeof *g.lz) : NULL;
    if (tree_reader_open(g.file, r->name, &entry, e) == 0) {
        if (entry.type == TREE_FILE) {
            (void)serve_wants(&g, &entry, e);
        } else {
            (void)err_set(e, ERR_INVALID, "it is no file any more");
        }
    }
    tree_reader_free(g.file);
    free(g.lz);
    free(g.room);
    free(g.packed);
    return part_refuse(w, e);
}
