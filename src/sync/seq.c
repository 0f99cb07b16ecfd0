#include "sync/seq.h"

#include <string.h>

#define TYPE_BITS 2
#define HAS_SUM   (1u << 2)
#define META_ONLY (1u << 3)
#define TAG_SHIFT 4
#define TAG_MAX   15u

void seq_init(struct seq *s)
{
    buf_init(&s->bytes, SEQ_BYTES_MAX);
    s->n = 0;
    s->last_len = 0;
}

void seq_fini(struct seq *s)
{
    buf_fini(&s->bytes);
}

/* ---- writing ------------------------------------------------------------------------------ */

#define NUMBER_MAX 10 /* bytes of a number */
/* Of an entry without its path and target: head, sum, the numbers and lengths. */
#define ENTRY_MAX (1 + TREE_SUM + 6 * NUMBER_MAX)

/* Each of these writes at `to`, where there is room, and returns what follows. */
static char *put_number(char *to, uint64_t v)
{
    while (v >= 0x80) {
        *to++ = (char)(unsigned char)(v | 0x80);
        v >>= 7;
    }
    *to++ = (char)(unsigned char)v;
    return to;
}

static char *put_bytes(char *to, struct str s)
{
    if (s.len > 0) {
        memcpy(to, s.p, s.len);
    }
    return to + s.len;
}

/* Small negative numbers stay short too. */
static uint64_t fold(int64_t v)
{
    return ((uint64_t)v << 1) ^ (v < 0 ? UINT64_MAX : 0);
}

static char *put_text(char *to, struct str s)
{
    return put_bytes(put_number(to, s.len), s);
}

static size_t shared_with_last(const struct seq *s, struct str path)
{
    size_t n = 0;

    while (n < s->last_len && n < path.len && s->last[n] == path.p[n]) {
        n++;
    }
    return n;
}

static char *put_path(struct seq *s, char *to, struct str path)
{
    size_t shared = shared_with_last(s, path);
    struct str rest = str_skip(path, shared);

    (void)put_bytes(s->last + shared, rest);
    s->last_len = path.len;
    return put_text(put_number(to, shared), rest);
}

static int check(const struct seq *s, const struct tree_entry *entry, struct err *e)
{
    if (!tree_path_ok(entry->path) || entry->target.len > TREE_PATH_MAX) {
        return err_set(e, ERR_PROTOCOL, "a path in the list is not one that a folder can have");
    }
    if (s->n > 0 && tree_path_cmp((struct str){s->last, s->last_len}, entry->path) >= 0) {
        return err_set(e, ERR_PROTOCOL, "the list is not in order");
    }
    return 0;
}

int seq_add(struct seq *s, const struct tree_entry *entry, unsigned tag, struct err *e)
{
    unsigned head = (unsigned)entry->type | (entry->has_sum ? HAS_SUM : 0) |
                    (entry->meta_only ? META_ONLY : 0) | (tag & TAG_MAX) << TAG_SHIFT;

    char *start, *to;

    if (check(s, entry, e) < 0) {
        return -1;
    }
    start = to = buf_room(&s->bytes, ENTRY_MAX + entry->path.len + entry->target.len);
    if (start == NULL) {
        return err_set(e, ERR_LIMIT,
                       "the folder has more files than can be held in memory (%llu and more); "
                       "sync its folders one by one",
                       (unsigned long long)s->n);
    }
    *to++ = (char)(unsigned char)head;
    to = put_path(s, to, entry->path);
    to = put_number(to, entry->mode);
    to = put_number(to, fold(entry->mtime_ns));
    if (entry->type == TREE_FILE) {
        to = put_number(to, entry->size);
    }
    if (entry->type == TREE_LINK) {
        to = put_text(to, entry->target);
    }
    if (entry->has_sum) {
        to = put_bytes(to, (struct str){(const char *)entry->sum, TREE_SUM});
    }
    s->bytes.len += (size_t)(to - start);
    s->n++;
    return 0;
}

/* ---- reading: only what seq_add() wrote ------------------------------------------------------ */

void seq_read(struct seq_reader *r, const struct seq *s)
{
    r->seq = s;
    r->at = 0;
    r->path_len = 0;
}

static unsigned char get_byte(struct seq_reader *r)
{
    return (unsigned char)r->seq->bytes.p[r->at++];
}

static uint64_t get_number(struct seq_reader *r)
{
    uint64_t v = 0;

    for (unsigned shift = 0;; shift += 7) {
        unsigned char c = get_byte(r);

        v |= (uint64_t)(c & 0x7f) << shift;
        if (c < 0x80) {
            return v;
        }
    }
}

static struct str get_bytes(struct seq_reader *r, size_t n)
{
    struct str s = {r->seq->bytes.p + r->at, n};

    r->at += n;
    return s;
}

static int64_t unfold(uint64_t v)
{
    return (int64_t)((v >> 1) ^ ((v & 1) != 0 ? UINT64_MAX : 0));
}

static void get_path(struct seq_reader *r)
{
    size_t shared = (size_t)get_number(r);
    struct str rest = get_bytes(r, (size_t)get_number(r));

    if (rest.len > 0) {
        memcpy(r->path + shared, rest.p, rest.len);
    }
    r->path_len = shared + rest.len;
    r->path[r->path_len] = '\0';
}

bool seq_next(struct seq_reader *r, struct tree_entry *out, unsigned *tag)
{
    unsigned head;

    if (r->at >= r->seq->bytes.len) {
        return false;
    }
    head = get_byte(r);
    get_path(r);
    *out = (struct tree_entry){
        .path = {r->path, r->path_len},
        .type = (enum tree_type)(head & ((1u << TYPE_BITS) - 1)),
        .mode = (uint32_t)get_number(r),
        .meta_only = (head & META_ONLY) != 0,
        .has_sum = (head & HAS_SUM) != 0,
    };
    out->mtime_ns = unfold(get_number(r));
    if (out->type == TREE_FILE) {
        out->size = get_number(r);
    }
    if (out->type == TREE_LINK) {
        out->target = get_bytes(r, (size_t)get_number(r));
    }
    if (out->has_sum) {
        memcpy(out->sum, get_bytes(r, TREE_SUM).p, TREE_SUM);
    }
    if (tag != NULL) {
        *tag = head >> TAG_SHIFT;
    }
    return true;
}
