#include "provider/tar.h"

#include <stdio.h>
#include <string.h>

/* Where the fields of a header are. */
enum {
    NAME = 0,
    MODE = 100,
    UID = 108,
    GID = 116,
    SIZE = 124,
    MTIME = 136,
    SUM = 148,
    TYPE = 156,
    LINK = 157,
    MAGIC = 257,
    PREFIX = 345,
};
#define NAME_LEN   100
#define PREFIX_LEN 155
#define ID_LEN     8
#define NUM_LEN    12
#define END_BYTES  ((size_t)2 * TAR_BLOCK)
#define SIZE_OCTAL ((UINT64_C(1) << 33) - 1)

/* ---- writing ------------------------------------------------------------------------ */

static void put_octal(char *field, size_t len, uint64_t v)
{
    for (size_t i = len - 1; i-- > 0;) {
        field[i] = (char)('0' + (v & 7));
        v >>= 3;
    }
    field[len - 1] = '\0';
}

static unsigned sum_of(const char *block)
{
    unsigned sum = 0;
    for (size_t i = 0; i < TAR_BLOCK; i++) {
        sum += i >= SUM && i < SUM + ID_LEN ? ' ' : (unsigned char)block[i];
    }
    return sum;
}

static void put_header(struct buf *to, char type, struct str name, struct str link, uint32_t mode,
                       uint64_t size, int64_t seconds)
{
    static const char magic[] = {'u', 's', 't', 'a', 'r', '\0', '0', '0'};
    char h[TAR_BLOCK] = {0};
    memcpy(h + NAME, name.p ? name.p : "", name.len < NAME_LEN ? name.len : NAME_LEN);
    memcpy(h + LINK, link.p ? link.p : "", link.len < NAME_LEN ? link.len : NAME_LEN);
    put_octal(h + MODE, ID_LEN, mode);
    put_octal(h + UID, ID_LEN, 0);
    put_octal(h + GID, ID_LEN, 0);
    put_octal(h + SIZE, NUM_LEN, size <= SIZE_OCTAL ? size : 0);
    put_octal(h + MTIME, NUM_LEN, seconds > 0 ? (uint64_t)seconds : 0);
    h[TYPE] = type;
    memcpy(h + MAGIC, magic, sizeof magic);
    put_octal(h + SUM, ID_LEN - 1, sum_of(h));
    h[SUM + ID_LEN - 1] = ' ';
    buf_add(to, (struct str){h, TAR_BLOCK});
}

static size_t digits(size_t n)
{
    size_t count = 1;
    for (; n >= 10; n /= 10) {
        count++;
    }
    return count;
}

/* "length key=value\n", where the length counts its own digits. */
static void put_record(struct buf *to, const char *key, struct str value)
{
    size_t rest = strlen(key) + value.len + 3;
    size_t len = rest + 1;
    while (len != rest + digits(len)) {
        len = rest + digits(len);
    }
    buf_addf(to, "%zu %s=", len, key);
    buf_add(to, value);
    buf_addc(to, '\n');
}

/* What does not fit into a header comes before it. */
static void put_pax(struct buf *to, const struct tree_entry *entry)
{
    struct buf records own_buf = {0};
    char size[32];
    buf_init(&records, TAR_META_MAX);
    if (entry->path.len > NAME_LEN) {
        put_record(&records, "path", entry->path);
    }
    if (entry->target.len > NAME_LEN) {
        put_record(&records, "linkpath", entry->target);
    }
    if (entry->size > SIZE_OCTAL) {
        (void)snprintf(size, sizeof size, "%llu", (unsigned long long)entry->size);
        put_record(&records, "size", str_from(size));
    }
    if (records.len > 0) {
        put_header(to, 'x', S("pax"), STR_EMPTY, 0644, records.len, 0);
        buf_add(to, buf_str(&records));
        tar_pad(to, records.len);
    }
}

void tar_put(struct buf *to, const struct tree_entry *entry)
{
    static const char types[] = {[TREE_FILE] = '0', [TREE_DIR] = '5', [TREE_LINK] = '2'};
    int64_t seconds = tree_timespec(entry->mtime_ns).tv_sec;
    put_pax(to, entry);
    put_header(to, types[entry->type], entry->path, entry->target, entry->mode & 0777, entry->size,
               seconds);
}

static void put_zeros(struct buf *to, size_t n)
{
    static const char zeros[TAR_BLOCK];
    while (n > 0) {
        size_t some = n < sizeof zeros ? n : sizeof zeros;
        buf_add(to, (struct str){zeros, some});
        n -= some;
    }
}

void tar_pad(struct buf *to, uint64_t size)
{
    put_zeros(to, (TAR_BLOCK - (size_t)(size % TAR_BLOCK)) % TAR_BLOCK);
}

void tar_end(struct buf *to, uint64_t total)
{
    size_t over = (size_t)((total + END_BYTES) % TAR_RECORD);
    put_zeros(to, END_BYTES + (over > 0 ? TAR_RECORD - over : 0));
}

/* ---- reading ------------------------------------------------------------------------- */

void tar_in_init(struct tar_in *t)
{
    *t = (struct tar_in){.state = TAR_HEADER};
    buf_init(&t->meta, TAR_META_MAX);
    buf_init(&t->path, TREE_PATH_MAX + 16);
    buf_init(&t->target, TREE_PATH_MAX + 16);
}

void tar_in_fini(struct tar_in *t)
{
    buf_fini(&t->meta);
    buf_fini(&t->path);
    buf_fini(&t->target);
}

bool tar_is_done(const struct tar_in *t)
{
    return t->state == TAR_DONE;
}

static int bad(struct err *e, const char *what)
{
    return err_set(e, ERR_PROTOCOL, "the host's tar sent %s that cannot be right", what);
}

/* Octal digits, or big-endian bytes with the first bit set. False: neither. */
static bool get_number(const char *field, size_t len, uint64_t *out)
{
    uint64_t v = 0;
    size_t i = 0;
    if ((unsigned char)field[0] == 0x80) {
        for (i = 1; i < len; i++) {
            if (v >> 56) {
                return false;
            }
            v = v << 8 | (unsigned char)field[i];
        }
        *out = v;
        return true;
    }
    while (i < len && field[i] == ' ') {
        i++;
    }
    for (; i < len && field[i] >= '0' && field[i] <= '7'; i++) {
        v = v << 3 | (uint64_t)(field[i] - '0');
    }
    *out = v;
    return i == len || field[i] == '\0' || field[i] == ' ';
}

static struct str get_text(const char *field, size_t len)
{
    return (struct str){field, strnlen(field, len)};
}

/* A decimal number with a fraction, as nanoseconds. */
static bool get_time(struct str s, int64_t *out)
{
    struct str fraction;
    struct err ignored;
    int64_t seconds;
    int64_t ns = 0;
    struct str whole = str_cut(s, '.', &fraction);
    if (str_to_i64(whole, -(1LL << 40), 1LL << 40, &seconds, &ignored) < 0) {
        return false;
    }
    for (size_t i = 0; i < 9; i++) {
        int digit = i < fraction.len ? fraction.p[i] - '0' : 0;
        if (digit < 0 || digit > 9) {
            return false;
        }
        ns = ns * 10 + digit;
    }
    bool is_negative = s.len > 0 && s.p[0] == '-';
    *out = tree_time_ns((struct timespec){.tv_sec = seconds - (is_negative && ns > 0 ? 1 : 0),
                                          .tv_nsec = is_negative && ns > 0 ? 1000000000 - ns : ns});
    return true;
}

static void set_text(struct buf *to, struct str s)
{
    buf_clear(to);
    buf_add(to, s);
}

static bool take_record(struct tar_in *t, struct str key, struct str value)
{
    struct err ignored;
    int64_t n;
    if (str_eq(key, S("path"))) {
        set_text(&t->path, value);
        return !t->path.cut;
    }
    if (str_eq(key, S("linkpath"))) {
        set_text(&t->target, value);
        return !t->target.cut;
    }
    if (str_eq(key, S("size"))) {
        t->has_size = str_to_i64(value, 0, INT64_MAX, &n, &ignored) == 0;
        t->size = t->has_size ? (uint64_t)n : 0;
        return t->has_size;
    }
    if (str_eq(key, S("mtime"))) {
        t->has_mtime = get_time(value, &t->mtime_ns);
        return t->has_mtime;
    }
    return true; /* of no meaning to us */
}

static int take_records(struct tar_in *t, struct str s, struct err *e)
{
    while (s.len > 0) {
        struct err ignored;
        struct str rest;
        int64_t len;
        struct str number = str_cut(s, ' ', &rest);
        if (str_to_i64(number, 5, (int64_t)s.len, &len, &ignored) < 0 ||
            (size_t)len < number.len + 4 || s.p[len - 1] != '\n') {
            return bad(e, "a record");
        }
        struct str record = {rest.p, (size_t)len - number.len - 2};
        struct str value;
        struct str key = str_cut(record, '=', &value);
        if (value.p == NULL || !take_record(t, key, value)) {
            return bad(e, "a record");
        }
        s = str_skip(s, (size_t)len);
    }
    return 0;
}

/* What was collected for the entry that follows. */
static int take_meta(struct tar_in *t, struct err *e)
{
    struct str text = buf_str(&t->meta);
    switch (t->meta_type) {
    case 'x': return take_records(t, text, e);
    case 'L': set_text(&t->path, get_text(text.p, text.len)); break;
    case 'K': set_text(&t->target, get_text(text.p, text.len)); break;
    default: break; /* 'g': about all entries; nothing that we would use */
    }
    return t->path.cut || t->target.cut ? bad(e, "a name") : 0;
}

static struct str clean_path(struct str path)
{
    while (str_starts(path, S("./"))) {
        path = str_skip(path, 2);
    }
    while (path.len > 1 && path.p[path.len - 1] == '/') {
        path.len--;
    }
    return str_eq(path, S(".")) ? STR_EMPTY : path;
}

static enum tree_type type_of(char type)
{
    switch (type) {
    case '0':
    case '\0':
    case '7': return TREE_FILE;
    case '5': return TREE_DIR;
    case '2': return TREE_LINK;
    default: return TREE_OTHER;
    }
}

static void forget(struct tar_in *t)
{
    buf_clear(&t->path);
    buf_clear(&t->target);
    t->has_size = t->has_mtime = false;
}

/* The names of a header, where none came before it. */
static int take_names(struct tar_in *t, struct err *e)
{
    const char *h = t->block;
    if (t->path.len == 0) {
        struct str prefix = get_text(h + PREFIX, PREFIX_LEN);
        if (memcmp(h + MAGIC, "ustar\0", 6) == 0 && prefix.len > 0) {
            buf_add(&t->path, prefix);
            buf_addc(&t->path, '/');
        }
        buf_add(&t->path, get_text(h + NAME, NAME_LEN));
    }
    if (t->target.len == 0) {
        buf_add(&t->target, get_text(h + LINK, NAME_LEN));
    }
    return tree_path_ok(clean_path(buf_str(&t->path))) ? 0 : bad(e, "a path");
}

static int take_entry(struct tar_in *t, uint64_t size, const struct tree_sink *to, struct err *e)
{
    struct tree_entry entry = {.type = type_of(t->block[TYPE])};
    uint64_t mode;
    uint64_t mtime;
    if (!get_number(t->block + MODE, ID_LEN, &mode) ||
        !get_number(t->block + MTIME, NUM_LEN, &mtime) || mtime > (UINT64_C(1) << 40)) {
        return bad(e, "a header");
    }
    if (take_names(t, e) < 0) {
        return -1;
    }
    entry.path = clean_path(buf_str(&t->path));
    entry.mode = mode & 0777;
    entry.size = entry.type == TREE_FILE ? size : 0;
    entry.mtime_ns =
        t->has_mtime ? t->mtime_ns : tree_time_ns((struct timespec){.tv_sec = (time_t)mtime});
    if (entry.type == TREE_LINK) {
        entry.target = buf_str(&t->target);
        if (entry.target.len == 0 || entry.target.len > TREE_PATH_MAX ||
            str_has(entry.target, '\0')) {
            return bad(e, "a link");
        }
    }
    t->is_file = entry.type == TREE_FILE;
    t->state = t->is_file ? TAR_BODY : TAR_SKIP;
    int rc = to->entry(to->arg, &entry, e);
    forget(t);
    return rc;
}

static bool is_zero(const char *block)
{
    return block[0] == '\0' && memcmp(block, block + 1, TAR_BLOCK - 1) == 0;
}

static int take_header(struct tar_in *t, const struct tree_sink *to, struct err *e)
{
    uint64_t sum;
    uint64_t size;
    char type = t->block[TYPE];
    if (is_zero(t->block)) {
        t->state = TAR_DONE;
        return 0;
    }
    if (!get_number(t->block + SUM, ID_LEN, &sum) || sum != sum_of(t->block) ||
        !get_number(t->block + SIZE, NUM_LEN, &size)) {
        return bad(e, "a header");
    }
    bool is_meta = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    if (!is_meta && t->has_size) {
        size = t->size;
    }
    if (size > INT64_MAX || (is_meta && size > TAR_META_MAX)) {
        return bad(e, "a size");
    }
    t->left = size;
    t->pad = (TAR_BLOCK - (size_t)(size % TAR_BLOCK)) % TAR_BLOCK;
    if (is_meta) {
        t->state = TAR_META;
        t->meta_type = type;
        buf_clear(&t->meta);
        return 0;
    }
    if (type == '1' || type == '5' || type == '2') {
        t->left = t->pad = 0; /* a size is told at times, and means nothing */
    }
    return take_entry(t, t->left, to, e);
}

/* All of an item has come. */
static int item_done(struct tar_in *t, const struct tree_sink *to, struct err *e)
{
    enum tar_state was = t->state;
    t->state = TAR_PAD;
    if (was == TAR_META) {
        return take_meta(t, e);
    }
    return was == TAR_BODY ? to->done(to->arg, true, STR_EMPTY, e) : 0;
}

static int take_bytes(struct tar_in *t, struct str *bytes, const struct tree_sink *to,
                      struct err *e)
{
    struct str some = str_head(*bytes, t->left < bytes->len ? (size_t)t->left : bytes->len);
    *bytes = str_skip(*bytes, some.len);
    t->left -= some.len;
    if (t->state == TAR_META) {
        buf_add(&t->meta, some);
    }
    return t->state == TAR_BODY && some.len > 0 ? to->data(to->arg, some, e) : 0;
}

static int tar_step(struct tar_in *t, struct str *bytes, const struct tree_sink *to, struct err *e)
{
    if (t->state == TAR_PAD) {
        size_t n = t->pad < bytes->len ? t->pad : bytes->len;
        *bytes = str_skip(*bytes, n);
        t->pad -= n;
        t->state = t->pad == 0 ? TAR_HEADER : TAR_PAD;
        return 0;
    }
    if (t->state != TAR_HEADER) {
        return t->left == 0 ? item_done(t, to, e) : take_bytes(t, bytes, to, e);
    }
    size_t n = TAR_BLOCK - t->have < bytes->len ? TAR_BLOCK - t->have : bytes->len;
    memcpy(t->block + t->have, bytes->p, n);
    *bytes = str_skip(*bytes, n);
    t->have += n;
    if (t->have < TAR_BLOCK) {
        return 0;
    }
    t->have = 0;
    return take_header(t, to, e);
}

int tar_read(struct tar_in *t, struct str bytes, const struct tree_sink *to, struct err *e)
{
    while (t->state != TAR_DONE) {
        bool is_whole = t->left == 0 && t->state != TAR_HEADER && t->state != TAR_PAD;
        bool is_padded = t->state == TAR_PAD && t->pad == 0;
        if (bytes.len == 0 && !is_whole && !is_padded) {
            return 0;
        }
        if (tar_step(t, &bytes, to, e) < 0) {
            return -1;
        }
    }
    return 0;
}
