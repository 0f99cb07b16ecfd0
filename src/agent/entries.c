#include "agent/entries.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { ENTRY = 0, DATA = 1, HOLE = 2, DONE = 3, FAILED = 4, PARTS = 5 };

#define KIND       7 /* bits of a tag */
#define TYPE_SHIFT 3
#define HAS_SUM    (1u << 5)
#define META_ONLY  (1u << 6)
#define SAME_MODE  (1u << 7)

#define VARINT_MAX 10
/* An entry without its path and target: tag, six numbers, a sum. */
#define ENTRY_MAX (1 + 7 * VARINT_MAX + TREE_SUM)
#define DATA_LEN  3 /* bytes that the length of data always takes */

/* ---- writing ------------------------------------------------------------------------ */

void entries_out_init(struct entries_out *o, bool compress,
                      int (*send)(void *arg, struct str block, uint32_t unpacked, struct err *e),
                      void *arg)
{
    *o = (struct entries_out){.send = send, .arg = arg};
    buf_init(&o->block, ENTRIES_BLOCK);
    if (compress) {
        o->lz = xcalloc(1, sizeof *o->lz);
        o->packed = xmalloc(ENTRIES_BLOCK);
    }
}

void entries_out_fini(struct entries_out *o)
{
    buf_fini(&o->block);
    free(o->lz);
    free(o->packed);
    o->lz = NULL;
    o->packed = NULL;
}

int entries_flush(struct entries_out *o, struct err *e)
{
    struct str block = buf_str(&o->block);
    size_t packed = 0;
    if (block.len == 0) {
        return 0;
    }
    if (o->lz != NULL) {
        packed = lz_pack(o->lz, block, o->packed, block.len - block.len / 16);
    }
    int rc = packed > 0 ? o->send(o->arg, (struct str){o->packed, packed}, (uint32_t)block.len, e)
                        : o->send(o->arg, block, 0, e);
    buf_clear(&o->block);
    return rc;
}

/* Sends the block unless it has room for n bytes more. */
static int need(struct entries_out *o, size_t n, struct err *e)
{
    return n > ENTRIES_BLOCK - o->block.len ? entries_flush(o, e) : 0;
}

/* Each of these writes at `to`, where there is room, and returns what follows. */
static char *put_number(char *to, uint64_t v)
{
    for (; v > 127; v >>= 7) {
        *to++ = (char)(v | 128);
    }
    *to++ = (char)v;
    return to;
}

static char *put_bytes(char *to, struct str bytes)
{
    if (bytes.len > 0) {
        memcpy(to, bytes.p, bytes.len);
    }
    return to + bytes.len;
}

/* Room for n bytes; the block is sent before when it has none. NULL: that failed. */
static char *room_for(struct entries_out *o, size_t n, struct err *e)
{
    return need(o, n, e) < 0 ? NULL : buf_room(&o->block, n);
}

static void put_end(struct entries_out *o, const char *end)
{
    o->block.len = (size_t)(end - o->block.p);
}

static uint64_t zigzag(int64_t v)
{
    return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
}

static char *put_path(struct entries_out *o, char *to, struct str path)
{
    size_t most = path.len < o->last_len ? path.len : o->last_len;
    size_t shared = 0;
    while (shared < most && path.p[shared] == o->last[shared]) {
        shared++;
    }
    struct str rest = str_skip(path, shared);
    (void)put_bytes(o->last + shared, rest);
    o->last_len = path.len;
    return put_bytes(put_number(put_number(to, shared), rest.len), rest);
}

static char *put_time(struct entries_out *o, char *to, int64_t mtime_ns)
{
    struct timespec t = tree_timespec(mtime_ns);
    bool with_ns = t.tv_nsec != 0 && !o->whole_seconds;
    /* Seconds of 64-bit nanoseconds have 35 bits: nothing here overflows. */
    to = put_number(to, zigzag(t.tv_sec - o->seconds) << 1 | (with_ns ? 1 : 0));
    o->seconds = t.tv_sec;
    return with_ns ? put_number(to, (uint64_t)t.tv_nsec) : to;
}

static int put_entry(void *arg, const struct tree_entry *entry, struct err *e)
{
    struct entries_out *o = arg;
    bool same_mode = (entry->mode & 0777) == o->mode;
    if (!tree_path_ok(entry->path) || entry->target.len > TREE_PATH_MAX) {
        return err_set(e, ERR_INVALID, "\"%.*s\" is no path in a tree",
                       STR_ARG(str_head(entry->path, 300)));
    }
    char *to = room_for(o, ENTRY_MAX + entry->path.len + entry->target.len, e);
    if (to == NULL) {
        return -1;
    }
    unsigned tag = ENTRY | (unsigned)entry->type << TYPE_SHIFT | (entry->has_sum ? HAS_SUM : 0) |
                   (entry->meta_only ? META_ONLY : 0) | (same_mode ? SAME_MODE : 0);
    *to++ = (char)tag;
    to = put_path(o, to, entry->path);
    if (!same_mode) {
        to = put_number(to, entry->mode & 0777);
        o->mode = entry->mode & 0777;
    }
    if (entry->type == TREE_FILE) {
        to = put_number(to, entry->size);
    }
    to = put_time(o, to, entry->mtime_ns);
    if (entry->type == TREE_LINK) {
        to = put_bytes(put_number(to, entry->target.len), entry->target);
    }
    if (entry->has_sum) {
        to = put_bytes(to, (struct str){(const char *)entry->sum, TREE_SUM});
    }
    put_end(o, to);
    return 0;
}

int entries_put_path(struct entries_out *o, struct str path, struct err *e)
{
    return put_entry(o, &(struct tree_entry){.path = path, .mtime_ns = 0}, e);
}

int entries_room(struct entries_out *o, char **to, size_t *cap, struct err *e)
{
    if (need(o, 1 + DATA_LEN + 1, e) < 0) {
        return -1;
    }
    *cap = ENTRIES_BLOCK - o->block.len - 1 - DATA_LEN;
    char *room = buf_room(&o->block, *cap + 1 + DATA_LEN);
    if (room == NULL) {
        return err_set(e, ERR_BUG, "a block of entries has no room");
    }
    *to = room + 1 + DATA_LEN;
    return 0;
}

/* The length is as long as the longest, so that it could be left out at first. */
void entries_filled(struct entries_out *o, size_t n)
{
    char *at = o->block.p + o->block.len;
    if (n == 0) {
        return;
    }
    at[0] = DATA;
    at[1] = (char)(n | 128);
    at[2] = (char)(n >> 7 | 128);
    at[3] = (char)(n >> 14);
    o->block.len += 1 + DATA_LEN + n;
}

static int put_data(void *arg, struct str bytes, struct err *e)
{
    while (bytes.len > 0) {
        char *to = NULL;
        size_t cap = 0;
        if (entries_room(arg, &to, &cap, e) < 0 || to == NULL) {
            return -1;
        }
        size_t n = bytes.len < cap ? bytes.len : cap;
        memcpy(to, bytes.p, n);
        entries_filled(arg, n);
        bytes = str_skip(bytes, n);
    }
    return 0;
}

static int put_hole(void *arg, uint64_t n, struct err *e)
{
    struct entries_out *o = arg;
    if (n == 0) {
        return 0;
    }
    char *to = room_for(o, 1 + VARINT_MAX, e);
    if (to == NULL) {
        return -1;
    }
    *to++ = HOLE;
    put_end(o, put_number(to, n));
    return 0;
}

static int put_done(void *arg, bool ok, struct str why, struct err *e)
{
    struct entries_out *o = arg;
    char *to = room_for(o, 1 + VARINT_MAX + ENTRIES_WHY, e);
    if (to == NULL) {
        return -1;
    }
    *to++ = ok ? DONE : FAILED;
    if (!ok) {
        why = str_head(why, ENTRIES_WHY);
        to = put_bytes(put_number(to, why.len), why);
    }
    put_end(o, to);
    return 0;
}

int entries_put_parts(struct entries_out *o, struct err *e)
{
    char *to = room_for(o, 1, e);
    if (to == NULL) {
        return -1;
    }
    *to++ = PARTS;
    put_end(o, to);
    return 0;
}

struct tree_sink entries_sink(struct entries_out *o)
{
    return (struct tree_sink){
        .entry = put_entry, .data = put_data, .hole = put_hole, .done = put_done, .arg = o};
}

/* ---- reading ------------------------------------------------------------------------- */

/* What is left of a block. Once it is bad it stays so, and gives zeros. */
struct rest {
    struct str s;
    bool bad;
};

void entries_in_init(struct entries_in *i)
{
    *i = (struct entries_in){0};
}

void entries_in_fini(struct entries_in *i)
{
    free(i->unpacked);
    i->unpacked = NULL;
}

static int bad(struct err *e, const char *what)
{
    return err_set(e, ERR_PROTOCOL, "%s of a tree cannot be right", what);
}

static uint64_t get_number(struct rest *r)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64 && r->s.len > 0; shift += 7) {
        unsigned char c = (unsigned char)r->s.p[0];
        r->s = str_skip(r->s, 1);
        if (shift == 63 && c > 1) {
            break;
        }
        v |= (uint64_t)(c & 127) << shift;
        if (c < 128) {
            return v;
        }
    }
    r->bad = true;
    r->s.len = 0;
    return 0;
}

static struct str get_bytes(struct rest *r, uint64_t n)
{
    if (n > r->s.len) {
        r->bad = true;
        r->s.len = 0;
        return STR_EMPTY;
    }
    struct str bytes = str_head(r->s, (size_t)n);
    r->s = str_skip(r->s, (size_t)n);
    return bytes;
}

/* Makes i->path the new one. False: it cannot be one. */
static bool get_path(struct entries_in *i, struct rest *r)
{
    uint64_t shared = get_number(r);
    struct str more = get_bytes(r, get_number(r));
    if (r->bad || shared > i->path_len || shared + more.len > TREE_PATH_MAX) {
        return false;
    }
    /* What follows the shared part decides the order, so the old path is not needed any more. */
    struct str old = {i->path + shared, i->path_len - (size_t)shared};
    bool after = !i->any || tree_path_cmp(old, more) < 0;
    if (more.len > 0) {
        memcpy(i->path + shared, more.p, more.len);
    }
    i->path_len = (size_t)shared + more.len;
    i->path[i->path_len] = '\0';
    i->any = true;
    return (after || i->any_order) && tree_path_ok((struct str){i->path, i->path_len});
}

static bool get_time(struct entries_in *i, struct rest *r, int64_t *mtime_ns)
{
    uint64_t v = get_number(r);
    uint64_t ns = v & 1 ? get_number(r) : 0;
    uint64_t step = v >> 1;
    int64_t seconds;
    int64_t delta = (int64_t)(step >> 1) ^ -(int64_t)(step & 1);
    if (ns >= 1000000000 || __builtin_add_overflow(i->seconds, delta, &seconds)) {
        return false;
    }
    i->seconds = seconds;
    *mtime_ns = tree_time_ns((struct timespec){.tv_sec = seconds, .tv_nsec = (long)ns});
    return true;
}

static int read_entry(struct entries_in *i, unsigned tag, struct rest *r,
                      const struct tree_sink *to, struct err *e)
{
    struct tree_entry entry = {.type = (enum tree_type)(tag >> TYPE_SHIFT & 3)};
    if (i->in_file || !get_path(i, r)) {
        return bad(e, "a path");
    }
    entry.path = (struct str){i->path, i->path_len};
    entry.meta_only = (tag & META_ONLY) != 0 && entry.type == TREE_FILE;
    entry.has_sum = (tag & HAS_SUM) != 0 && entry.type == TREE_FILE;
    i->mode = tag & SAME_MODE ? i->mode : (uint32_t)get_number(r);
    entry.mode = i->mode;
    entry.size = entry.type == TREE_FILE ? get_number(r) : 0;
    bool time_ok = get_time(i, r, &entry.mtime_ns);
    if (entry.type == TREE_LINK) {
        entry.target = get_bytes(r, get_number(r));
    }
    struct str sum = tag & HAS_SUM ? get_bytes(r, TREE_SUM) : STR_EMPTY;
    if (r->bad || !time_ok || i->mode > 0777 || entry.size > INT64_MAX ||
        entry.target.len > TREE_PATH_MAX || str_has(entry.target, '\0')) {
        return bad(e, "an entry");
    }
    if (entry.has_sum) {
        memcpy(entry.sum, sum.p, TREE_SUM);
    }
    i->in_file = entry.type == TREE_FILE && !entry.meta_only && !i->list_only;
    i->in_parts = false;
    i->left = entry.size;
    return to->entry(to->arg, &entry, e);
}

/* Contents that come: no more than were announced. */
static int take(struct entries_in *i, uint64_t n, struct err *e)
{
    if (!i->in_file || i->in_parts || (i->sized && n > i->left)) {
        return bad(e, "the length of a file");
    }
    i->left -= i->sized ? n : 0;
    return 0;
}

static int read_contents(struct entries_in *i, unsigned kind, struct rest *r,
                         const struct tree_sink *to, struct err *e)
{
    uint64_t n = get_number(r);
    if (kind == HOLE) {
        if (r->bad || n == 0 || n > INT64_MAX) {
            return bad(e, "a hole");
        }
        return take(i, n, e) < 0 ? -1 : to->hole(to->arg, n, e);
    }
    struct str bytes = get_bytes(r, n);
    if (r->bad || n == 0) {
        return bad(e, "a piece");
    }
    return take(i, n, e) < 0 ? -1 : to->data(to->arg, bytes, e);
}

static int read_end(struct entries_in *i, unsigned kind, struct rest *r, const struct tree_sink *to,
                    struct err *e)
{
    struct str why = kind == FAILED ? get_bytes(r, get_number(r)) : STR_EMPTY;
    if (r->bad || !i->in_file || why.len > ENTRIES_WHY) {
        return bad(e, "the end of a file");
    }
    i->in_file = false;
    if (kind == DONE && i->sized && i->left > 0) {
        return to->done(to->arg, false, S("it became shorter while it was read"), e);
    }
    return to->done(to->arg, kind == DONE, why, e);
}

static int read_parts(struct entries_in *i, const struct tree_sink *to, struct err *e)
{
    if (!i->in_file || to->parts == NULL) {
        return bad(e, "a file in parts");
    }
    if (i->in_parts) {
        return 0;
    }
    i->in_parts = true;
    i->left = 0;
    return to->parts(to->arg, e);
}

static int read_item(struct entries_in *i, struct rest *r, const struct tree_sink *to,
                     struct err *e)
{
    unsigned tag = (unsigned char)r->s.p[0];
    unsigned kind = tag & KIND;
    r->s = str_skip(r->s, 1);
    if (kind == ENTRY) {
        return read_entry(i, tag, r, to, e);
    }
    if (tag != kind) {
        return bad(e, "an item");
    }
    switch (kind) {
    case DATA:
    case HOLE: return read_contents(i, kind, r, to, e);
    case DONE:
    case FAILED: return read_end(i, kind, r, to, e);
    case PARTS: return read_parts(i, to, e);
    default: return bad(e, "an item");
    }
}

int entries_read(struct entries_in *i, struct str block, uint32_t unpacked,
                 const struct tree_sink *to, struct err *e)
{
    struct rest r = {.s = block};
    if (unpacked > ENTRIES_BLOCK || block.len > ENTRIES_BLOCK) {
        return bad(e, "the size of a block");
    }
    if (unpacked > 0) {
        if (i->unpacked == NULL) {
            i->unpacked = xmalloc(ENTRIES_BLOCK);
        }
        if (lz_unpack(block, i->unpacked, unpacked) != (ssize_t)unpacked) {
            return bad(e, "a packed block");
        }
        r.s = (struct str){i->unpacked, unpacked};
    }
    while (r.s.len > 0) {
        if (read_item(i, &r, to, e) < 0) {
            return -1;
        }
    }
    return 0;
}

int entries_end(const struct entries_in *i, struct err *e)
{
    return i->in_file ? bad(e, "the end") : 0;
}
