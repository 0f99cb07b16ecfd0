/* What a keeper says, and what one that lies could say. */
#include <string.h>

#include "base/base64url.h"
#include "core/python.h"
#include "test.h"

struct fixture {
    struct arena arena;
    struct python_result out;
    struct python_reader reader;
    struct python_ear ear;
    struct buf bytes, printed[2];
    uint64_t lost[2];
    int alive;
    struct err e;
};

static int keep(void *arg, enum stream from, struct str bytes, struct err *e)
{
    struct fixture *x = arg;

    (void)e;
    buf_add(&x->printed[from], bytes);
    return 0;
}

static void lose(void *arg, enum stream from, uint64_t n)
{
    ((struct fixture *)arg)->lost[from] += n;
}

static void live(void *arg)
{
    ((struct fixture *)arg)->alive++;
}

static int setup(void **state)
{
    struct fixture *x = calloc(1, sizeof(*x));

    arena_init(&x->arena, 32u << 20);
    x->ear = (struct python_ear){
        .output = {.write = keep, .lost = lose, .arg = x}, .alive = live, .arg = x};
    python_reader_init(&x->reader, &x->arena, &x->ear, &x->out);
    buf_init(&x->bytes, 16u << 20);
    buf_init(&x->printed[0], 1u << 20);
    buf_init(&x->printed[1], 1u << 20);
    *state = x;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *x = *state;

    python_reader_fini(&x->reader);
    buf_fini(&x->bytes);
    buf_fini(&x->printed[0]);
    buf_fini(&x->printed[1]);
    arena_fini(&x->arena);
    free(x);
    return 0;
}

static void add(struct fixture *x, char kind, struct str payload)
{
    size_t size = payload.len + 1;

    for (int shift = 24; shift >= 0; shift -= 8) {
        buf_addc(&x->bytes, (char)(size >> shift & 0xff));
    }
    buf_addc(&x->bytes, kind);
    buf_add(&x->bytes, payload);
}

static int feed(struct fixture *x)
{
    int rc = python_reader_feed(&x->reader, buf_str(&x->bytes), &x->e);

    buf_clear(&x->bytes);
    return rc;
}

static void a_call_is_read(void **state)
{
    struct fixture *x = *state;

    add(x, 'P', S("/home/user/.anybox/python/1-vm"));
    add(x, 'W', S("running"));
    add(x, 'O', S("out"));
    add(x, 'L', S("E120"));
    add(x, 'E', S("err"));
    add(x, 'V', S("42"));
    add(x, 'I', S("image/png\n\x89PNG"));
    add(x, 'F', S("3\0/w/a\0/w/b c\0not absolute"));
    add(x, 'N', S("a note"));
    add(x, 'D',
        S("exit=3\nmore_files=1\nrestarted=1\ntimed_out=1\nsignal=9\nfirst=1\nms=1500\nnew=x\n"));
    /* It may come in any pieces. */
    for (size_t i = 0; i < x->bytes.len; i++) {
        assert_false(x->reader.done);
        assert_ok(python_reader_feed(&x->reader, (struct str){x->bytes.p + i, 1}, &x->e), &x->e);
    }
    assert_true(x->reader.done && x->reader.heard && x->reader.first);
    assert_str(x->reader.socket, S("/home/user/.anybox/python/1-vm"));
    assert_str(buf_str(&x->printed[STREAM_OUT]), S("out"));
    assert_str(buf_str(&x->printed[STREAM_ERR]), S("err"));
    assert_int_equal(x->lost[STREAM_ERR], 120);
    assert_int_equal(x->alive, 1);
    assert_str(x->out.value, S("42"));
    assert_str(x->out.note, S("a note"));
    assert_int_equal(x->out.n_images, 1);
    assert_str(x->out.images[0].bytes, S("\x89PNG"));
    assert_int_equal(x->out.n_files, 2);
    assert_int_equal(x->out.all_files, 3);
    assert_str(x->out.files[1], S("/w/b c"));
    assert_int_equal(x->out.end, PYTHON_ENDED);
    assert_int_equal(x->out.code, 3);
    assert_int_equal(x->out.signal, 9);
    assert_int_equal(x->out.wall_ms, 1500);
    assert_true(x->out.timed_out && x->out.restarted && x->out.more_files);
}

static void other_ends(void **state)
{
    static const struct {
        const char *said;
        enum python_end end;
    } ends[] = {{"left=1\nms=7\n", PYTHON_LEFT},
                {"busy=1\n", PYTHON_BUSY},
                {"nothing=1\n", PYTHON_NOTHING},
                {"exit=-4\n", PYTHON_ENDED},
                {"exit=99999999999999999999\nsignal=x\n", PYTHON_ENDED},
                {"", PYTHON_ENDED}};
    struct fixture *x = *state;

    for (size_t i = 0; i < COUNTOF(ends); i++) {
        x->out = (struct python_result){0};
        x->reader.done = false;
        add(x, 'D', str_from(ends[i].said));
        assert_ok(feed(x), &x->e);
        assert_int_equal(x->out.end, ends[i].end);
        assert_int_equal(x->out.code, 0);
    }
}

static void what_cannot_be_read_is_refused(void **state)
{
    static const struct str frames[] = {
        {"\0\0\0\0O", 5},   {"\x7f\xff\xff\xffO", 5}, {"\0\0\0\1?", 5}, {"\0\0\0\1P", 5},
        {"\0\0\0\3Pre", 7}, {"\0\0\0\1I", 5},         {"\0\0\0\1L", 5}, {"\0\0\0\4Ix\ny", 8}};
    struct fixture *x = *state;

    for (size_t i = 0; i < COUNTOF(frames); i++) {
        python_reader_fini(&x->reader);
        python_reader_init(&x->reader, &x->arena, &x->ear, &x->out);
        buf_add(&x->bytes, frames[i]);
        assert_fails(feed(x), &x->e, ERR_PROTOCOL, "interpreter");
    }
}

static void nothing_comes_behind_the_end(void **state)
{
    struct fixture *x = *state;

    add(x, 'D', S("exit=0\n"));
    add(x, 'V', S("forged"));
    assert_fails(feed(x), &x->e, ERR_PROTOCOL, "behind");
}

static void results_are_bounded(void **state)
{
    struct fixture *x = *state;
    struct buf much own_buf = {0};

    buf_init(&much, 1u << 20);
    while (!much.cut) {
        buf_add(&much, S("image/png\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"));
    }
    for (int i = 0; i < 3; i++) {
        add(x, 'V', buf_str(&much));
        assert_ok(feed(x), &x->e);
    }
    add(x, 'I', buf_str(&much));
    assert_ok(feed(x), &x->e);
    add(x, 'I', buf_str(&much));
    assert_fails(feed(x), &x->e, ERR_PROTOCOL, "more than");
    python_reader_fini(&x->reader);
    python_reader_init(&x->reader, &x->arena, &x->ear, &x->out);
    x->out = (struct python_result){0};
    for (int i = 0; i < 2 * PYTHON_IMAGES_MAX; i++) {
        add(x, 'I', S("image/png\nx"));
    }
    buf_clear(&much);
    buf_add(&much, S("7"));
    for (int i = 0; i < 2 * PYTHON_FILES_MAX; i++) {
        buf_add(&much, (struct str){"\0/f", 3});
    }
    add(x, 'F', buf_str(&much));
    assert_ok(feed(x), &x->e);
    assert_int_equal(x->out.n_images, PYTHON_IMAGES_MAX);
    assert_int_equal(x->out.n_files, PYTHON_FILES_MAX);
    assert_int_equal(x->out.all_files, PYTHON_FILES_MAX);
}

/* The sizes have bytes that end a line or are no text, and so have the payloads. */
static void what_the_driver_prints_is_text(void **state)
{
    struct fixture *x = *state;
    struct buf text own_buf = {0};

    buf_init(&text, 1u << 20);
    add(x, 'O', S("123456789"));
    add(x, 'O', S("123456789\r\n\xff"));
    add(x, 'D', S("exit=0\n"));
    for (struct str rest = buf_str(&x->bytes); rest.len > 0; rest = str_skip(rest, 8)) {
        size_t from = text.len;

        base64url_add(&text, str_head(rest, 8));
        for (size_t i = from; i < text.len; i++) {
            text.p[i] = text.p[i] == '-' ? '+' : text.p[i] == '_' ? '/' : text.p[i];
        }
        while ((text.len - from) % 4 != 0) {
            buf_addc(&text, '=');
        }
        buf_addc(&text, '\n');
    }
    for (size_t i = 0; i < text.len; i++) {
        assert_ok(python_reader_feed_text(&x->reader, (struct str){text.p + i, 1}, &x->e), &x->e);
    }
    assert_true(x->reader.done);
    assert_str(buf_str(&x->printed[STREAM_OUT]), S("123456789123456789\r\n\xff"));
}

static void text_that_is_no_base64_is_refused(void **state)
{
    struct fixture *x = *state;
    static const char *const texts[] = {"AAA", "A\xef\xbf\xbd", "A===", "AA A", "QR=="};

    assert_ok(python_reader_feed_text(&x->reader, str_from(texts[0]), &x->e), &x->e);
    assert_fails(python_reader_feed_text(&x->reader, S("!"), &x->e), &x->e, ERR_PROTOCOL, "read");
    for (size_t i = 1; i < COUNTOF(texts); i++) {
        assert_fails(python_reader_feed_text(&x->reader, str_from(texts[i]), &x->e), &x->e,
                     ERR_PROTOCOL, "read");
    }
}

int main(void)
{
#define WITH(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH(a_call_is_read),
        WITH(other_ends),
        WITH(what_cannot_be_read_is_refused),
        WITH(nothing_comes_behind_the_end),
        WITH(results_are_bounded),
        WITH(what_the_driver_prints_is_text),
        WITH(text_that_is_no_base64_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
