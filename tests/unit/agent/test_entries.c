#include "agent/entries.h"
#include "test.h"

/* ---- what is written is read again ------------------------------------------------------- */

static uint32_t seed = 7;

static uint32_t below(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

struct log {
    struct buf text;
    struct buf blocks; /* u32 length, u32 unpacked, bytes */
    size_t n_blocks;
};

static int log_entry(void *arg, const struct tree_entry *x, struct err *e)
{
    struct log *l = arg;
    (void)e;
    buf_addf(&l->text, "%.*s|%d %o %llu %lld %.*s %d %02x\n", STR_ARG(x->path), (int)x->type,
             x->mode, (unsigned long long)x->size, (long long)x->mtime_ns, STR_ARG(x->target),
             x->meta_only, x->has_sum ? x->sum[31] : 0);
    return 0;
}

static int log_data(void *arg, struct str bytes, struct err *e)
{
    (void)e;
    buf_add(&((struct log *)arg)->text, bytes);
    return 0;
}

static int log_hole(void *arg, uint64_t n, struct err *e)
{
    (void)e;
    buf_addf(&((struct log *)arg)->text, "<hole %llu>", (unsigned long long)n);
    return 0;
}

static int log_done(void *arg, bool ok, struct str why, struct err *e)
{
    (void)e;
    buf_addf(&((struct log *)arg)->text, "<%d %.*s>", ok, STR_ARG(why));
    return 0;
}

static struct tree_sink log_sink(struct log *l)
{
    return (struct tree_sink){
        .entry = log_entry, .data = log_data, .hole = log_hole, .done = log_done, .arg = l};
}

static int keep_block(void *arg, struct str block, uint32_t unpacked, struct err *e)
{
    struct log *l = arg;
    uint32_t head[2] = {(uint32_t)block.len, unpacked};
    (void)e;
    assert_in_range(block.len, 1, ENTRIES_BLOCK);
    buf_add(&l->blocks, (struct str){(const char *)head, sizeof head});
    buf_add(&l->blocks, block);
    l->n_blocks++;
    return 0;
}

static void log_init(struct log *l)
{
    memset(l, 0, sizeof *l);
    buf_init(&l->text, 64 << 20);
    buf_init(&l->blocks, 64 << 20);
}

static void log_fini(struct log *l)
{
    buf_fini(&l->text);
    buf_fini(&l->blocks);
}

static int replay(struct entries_in *in, struct str blocks, struct log *to, struct err *e)
{
    struct tree_sink sink = log_sink(to);
    while (blocks.len > 0) {
        uint32_t head[2];
        memcpy(head, blocks.p, sizeof head);
        blocks = str_skip(blocks, sizeof head);
        if (entries_read(in, str_head(blocks, head[0]), head[1], &sink, e) < 0) {
            return -1;
        }
        blocks = str_skip(blocks, head[0]);
    }
    return entries_end(in, e);
}

/* A sequence to both sinks. */
static void write_random(const struct tree_sink *a, const struct tree_sink *b)
{
    static char bytes[150000];
    char path[64] = "";
    struct err e;
    for (int i = 0; i < 300; i++) {
        struct tree_entry x = {.type = (enum tree_type)below(4),
                               .mode = below(3) ? 0644 : below(512),
                               .mtime_ns = (int64_t)below(1u << 31) * 1000000007 - 1000000000};
        snprintf(path, sizeof path, "d%03d/\xff-%d", i / 10, i % 10);
        x.path = str_from(path);
        if (x.type == TREE_FILE) {
            x.size = below(200000);
            x.has_sum = below(2);
            x.meta_only = below(4) == 0;
            memset(x.sum, (int)i, sizeof x.sum);
        }
        if (x.type == TREE_LINK) {
            x.target = S("../somewhere else");
        }
        const struct tree_sink *both[] = {a, b};
        uint32_t from = seed;
        for (int k = 0; k < 2; k++) {
            seed = from;
            assert_ok(both[k]->entry(both[k]->arg, &x, &e), &e);
            if (x.type != TREE_FILE || x.meta_only) {
                continue;
            }
            for (uint32_t n = below(4); n > 0; n--) {
                size_t len = 1 + below(below(5) == 0 ? sizeof bytes - 1 : 3000);
                memset(bytes, (int)('a' + below(26)), len);
                if (below(5) == 0) {
                    assert_ok(both[k]->hole(both[k]->arg, 1 + below(1u << 20), &e), &e);
                }
                assert_ok(both[k]->data(both[k]->arg, (struct str){bytes, len}, &e), &e);
            }
            bool ok = below(5) > 0;
            assert_ok(both[k]->done(both[k]->arg, ok, ok ? STR_EMPTY : S("it vanished"), &e), &e);
        }
    }
}

static void sequences_travel(void **state)
{
    (void)state;
    for (int packed = 0; packed < 2; packed++) {
        struct log want;
        struct log got;
        struct entries_out out;
        struct entries_in in;
        struct err e;
        log_init(&want);
        log_init(&got);
        entries_out_init(&out, packed, keep_block, &got);
        struct tree_sink to = entries_sink(&out);
        struct tree_sink text = log_sink(&want);
        write_random(&to, &text);
        assert_ok(entries_flush(&out, &e), &e);
        entries_in_init(&in);
        assert_ok(replay(&in, buf_str(&got.blocks), &got, &e), &e);
        assert_str(buf_str(&got.text), buf_str(&want.text));
        if (packed) {
            assert_true(got.blocks.len < want.text.len / 4);
        }
        entries_in_fini(&in);
        entries_out_fini(&out);
        log_fini(&want);
        log_fini(&got);
    }
}

static void a_listing_is_small(void **state)
{
    (void)state;
    struct log got;
    struct entries_out out;
    struct err e;
    log_init(&got);
    entries_out_init(&out, true, keep_block, &got);
    out.whole_seconds = true;
    struct tree_sink to = entries_sink(&out);
    for (int i = 0; i < 5000; i++) {
        char path[64];
        snprintf(path, sizeof path, "dir%02d/file%04d.txt", i / 100, i);
        struct tree_entry x = {.path = str_from(path),
                               .mode = 0644,
                               .size = 2048,
                               .mtime_ns = 1700000000000000000 + (int64_t)i * 12345678};
        assert_ok(to.entry(to.arg, &x, &e), &e);
    }
    assert_ok(entries_flush(&out, &e), &e);
    assert_in_range(got.blocks.len, 1, 40000);
    entries_out_fini(&out);
    log_fini(&got);
}

/* ---- what cannot be right -------------------------------------------------------------------- */

static int read_block(const struct entries_in *like, struct str block, uint32_t unpacked,
                      struct err *e)
{
    struct log got;
    struct entries_in in;
    log_init(&got);
    entries_in_init(&in);
    in.any_order = like->any_order;
    in.list_only = like->list_only;
    in.sized = like->sized;
    struct tree_sink to = log_sink(&got);
    int rc = entries_read(&in, block, unpacked, &to, e);
    if (rc == 0) {
        rc = entries_end(&in, e);
    }
    entries_in_fini(&in);
    log_fini(&got);
    return rc;
}

#define FILE_A                                                                                     \
    "\x80\x00\x01"                                                                                 \
    "a\x05\x00" /* a, 5 bytes long */

static void what_cannot_be_right_is_refused(void **state)
{
    (void)state;
    struct entries_in any = {0};
    struct entries_in list = {.list_only = true};
    struct entries_in sized = {.sized = true};
    struct err e;
    assert_ok(read_block(&any, S(FILE_A "\x03"), 0, &e), &e);
    assert_ok(read_block(&list, S(FILE_A), 0, &e), &e);
    assert_ok(read_block(&sized, S(FILE_A "\x01\x05hello\x03"), 0, &e), &e);
    assert_ok(read_block(&any, S(FILE_A "\x01\x06hello!\x03"), 0, &e), &e);
    const struct str bad[] = {
        S(FILE_A),                      /* no end */
        S(FILE_A "\x03" FILE_A "\x03"), /* the same path again */
        S("\x80\x00\x01"
          "b\x05\x00\x03" FILE_A "\x03"), /* not in order */
        S("\x80\x01\x01"
          "a\x05\x00\x03"),              /* shares what is not there */
        S("\x80\x00\x02..\x05\x00\x03"), /* leads out */
        S("\x80\x00\x02/a\x05\x00\x03"), /* absolute */
        S("\x80\x00\x03"
          "a\x00"
          "b\x05\x00\x03"), /* a NUL */
        S("\x00\x00\x01"
          "a\x80\x08\x05\x00\x03"), /* mode 02000 */
        S("\x80\x00\x7f"
          "a"), /* longer than the block */
        S("\x80\x00\x01"
          "a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x03"), /* size 2^64 - 1 */
        S("\x80\x00\x01"
          "a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x00\x03"), /* no number */
        S("\x80\x00\x01"
          "a\x05\x01\xff\xff\xff\xff\x7f\x03"), /* a minute of ns */
        S("\x90\x00\x01"
          "a\x00\x02x\x00"), /* a target with a NUL */
        S("\x03"),           /* an end of nothing */
        S("\x01\x01x"),      /* contents of nothing */
        S("\x88\x00\x01"
          "d\x00\x01\x01x"),       /* of a folder */
        S(FILE_A "\x02\x00\x03"),  /* an empty hole */
        S(FILE_A "\x01\x00\x03"),  /* empty data */
        S(FILE_A "\x01\x09x\x03"), /* more than there is */
        S(FILE_A "\x04\x05x"),     /* the same of a reason */
        S("\x05"),                 /* no such item */
        S("\xff"),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (read_block(&any, bad[i], 0, &e) == 0) {
            fail_msg("block %zu was taken", i);
        }
        assert_int_equal(e.kind, ERR_PROTOCOL);
    }
    assert_fails(read_block(&sized, S(FILE_A "\x01\x06hello!\x03"), 0, &e), &e, ERR_PROTOCOL,
                 "length");
    assert_fails(read_block(&sized, S(FILE_A "\x02\x06\x03"), 0, &e), &e, ERR_PROTOCOL, "length");
    assert_fails(read_block(&list, S(FILE_A "\x01\x01x"), 0, &e), &e, ERR_PROTOCOL, "length");
    assert_fails(read_block(&any, S("\x10"), 100, &e), &e, ERR_PROTOCOL, "packed");
    assert_fails(read_block(&any, S("\x10"), ENTRIES_BLOCK + 1, &e), &e, ERR_PROTOCOL, "size");
}

static void a_file_that_became_shorter_has_failed(void **state)
{
    (void)state;
    struct log got;
    struct entries_in in;
    struct err e;
    log_init(&got);
    entries_in_init(&in);
    in.sized = true;
    struct tree_sink to = log_sink(&got);
    assert_ok(entries_read(&in, S(FILE_A "\x01\x02he\x03"), 0, &to, &e), &e);
    assert_non_null(strstr(got.text.p, "<0 it became shorter"));
    entries_in_fini(&in);
    log_fini(&got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences_travel),
        cmocka_unit_test(a_listing_is_small),
        cmocka_unit_test(what_cannot_be_right_is_refused),
        cmocka_unit_test(a_file_that_became_shorter_has_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
