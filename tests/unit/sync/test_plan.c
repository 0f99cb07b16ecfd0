#include "sync/plan.h"
#include "test.h"

/*
 * Trees as text, one entry on a line: "d path [mode] [seconds]", "f path size [seconds] [mode]",
 * "l path target", "o path". Steps as text: an action's letter and the path.
 */
#define LINES_MAX 64

static void add_line(struct seq *s, struct str line)
{
    struct str words[5];
    size_t n = 0;
    struct tree_entry entry = {.mode = 0644};
    int64_t v;
    struct err e;

    for (struct str rest = line; rest.p != NULL && n < 5;) {
        words[n++] = str_cut(rest, ' ', &rest);
    }
    entry.path = str_eq(words[1], S("-")) ? STR_EMPTY : words[1];
    switch (words[0].p[0]) {
    case 'd': entry.type = TREE_DIR; break;
    case 'l': entry.type = TREE_LINK; break;
    case 'o': entry.type = TREE_OTHER; break;
    default: entry.type = TREE_FILE;
    }
    if (entry.type == TREE_LINK) {
        entry.target = words[2];
    } else if (n > 2 && entry.type == TREE_FILE) {
        assert_ok(str_to_i64(words[2], 0, INT64_MAX, &v, &e), &e);
        entry.size = (uint64_t)v;
    }
    if (n > 3) {
        assert_ok(str_to_i64(words[3], INT64_MIN, INT64_MAX, &v, &e), &e);
        entry.mtime_ns = v * 1000000;
    }
    if (n > 4 && words[4].len == 64) { /* a sum, by its first digit */
        entry.has_sum = true;
        entry.sum[0] = (uint8_t)words[4].p[0];
    } else if (n > 4) {
        assert_ok(str_to_i64(words[4], 0, 1000, &v, &e), &e);
        entry.mode = (uint32_t)v;
    }
    assert_ok(seq_add(s, &entry, 0, &e), &e);
}

static void parse(struct seq *s, const char *text)
{
    seq_init(s);
    for (struct str rest = str_from(text); rest.len > 0;) {
        add_line(s, str_cut(rest, '\n', &rest));
    }
}

static int add_step(void *arg, enum sync_action action, const struct tree_entry *entry,
                    struct err *e)
{
    (void)e;
    buf_addf(arg, "%c %.*s\n", "dncmx"[action], STR_ARG(entry->path));
    return 0;
}

struct run {
    struct seq from, to;
    struct sync_plan *plan;
    struct buf text;
};

static void compare(struct run *r, const char *from, const char *to, struct plan_req req)
{
    struct err e;

    parse(&r->from, from);
    parse(&r->to, to);
    r->plan = plan_new(SYNC_UP);
    req.from = &r->from;
    req.to = &r->to;
    buf_init(&r->text, 1 << 16);
    buf_addc(&r->text, '\n');
    assert_ok(plan_compare(r->plan, &req, &e), &e);
    assert_ok(sync_plan_each(r->plan, add_step, &r->text, &e), &e);
}

static void done(struct run *r)
{
    seq_fini(&r->from);
    seq_fini(&r->to);
    sync_plan_free(r->plan);
    buf_fini(&r->text);
}

static const struct row {
    const char *what;
    const char *from, *to;
    bool delete_extras, checksum;
    const char *steps;
} rows[] = {
    {"nothing on either side", "d -\n", "d -\n", false, false, "\n"},
    {"a new tree is made with its root", "d -\nd a\nf a/x 3\nl b a\n", "", false, false,
     "\nd \nd a\nn a/x\nn b\n"},
    {"size decides", "d -\nf x 3\n", "d -\nf x 4\n", false, false, "\nc x\n"},
    {"a second is nothing", "d -\nf x 3 5000\n", "d -\nf x 3 6999\n", false, false, "\n"},
    {"two seconds are", "d -\nf x 3 5000\n", "d -\nf x 3 7000\n", false, false, "\nc x\n"},
    {"times before 1970", "d -\nf x 3 -500\n", "d -\nf x 3 500\n", false, false, "\n"},
    {"mode alone", "d -\nf x 3 0 493\n", "d -\nf x 3 0 420\n", false, false, "\nm x\n"},
    {"a folder's mtime", "d -\nd a x 9000\n", "d -\nd a x 1000\n", false, false, "\nm a\n"},
    {"the root's own mode and mtime stay", "d - x 9000\n", "d - x 1000\n", false, false, "\n"},
    {"links by target", "d -\nl a x\nl b y\n", "d -\nl a x\nl b z\n", false, false, "\nc b\n"},
    {"extras stay", "d -\n", "d -\nf x 3\n", false, false, "\n"},
    {"extras go", "d -\nf a 1\n", "d -\nf a 1\nd x\nf x/y 3\n", true, false, "\nx x\nx x/y\n"},
    {"a special file is not sent", "d -\no s\n", "d -\n", false, false, "\n"},
    {"nor is what stands in its place removed", "d -\no s\n", "d -\nd s\nf s/x 1\n", true, false,
     "\n"},
    {"one in the destination is replaced", "d -\nf s 1\n", "d -\no s\n", false, false, "\nc s\n"},
    {"one in the destination is an extra", "d -\n", "d -\no s\n", true, false, "\nx s\n"},
    {"a file becomes a folder", "d -\nd x\nf x/y 1\n", "d -\nf x 9\n", false, false,
     "\nd x\nn x/y\n"},
    {"a folder becomes a file", "d -\nf x 1\n", "d -\nd x\nf x/y 1\n", false, false, "\nc x\n"},
    {"a folder becomes a file, and what was in it goes", "d -\nf x 1\n", "d -\nd x\nf x/y 1\n",
     true, false, "\nc x\nx x\nx x/y\n"},
    {"a link becomes a folder", "d -\nd x\n", "d -\nl x /etc\n", false, false, "\nd x\n"},
    {"a folder becomes a link", "d -\nl x /etc\n", "d -\nd x\n", false, false, "\nc x\n"},
    {"a file becomes a link", "d -\nl x y\n", "d -\nf x 1\n", false, false, "\nc x\n"},
    {"sums decide, not times",
     "d -\nf x 3 0 a000000000000000000000000000000000000000000000000000000000000000\n"
     "f y 3 0 a000000000000000000000000000000000000000000000000000000000000000\n",
     "d -\nf x 3 90000 a000000000000000000000000000000000000000000000000000000000000000\n"
     "f y 3 0 b000000000000000000000000000000000000000000000000000000000000000\n",
     false, true, "\nm x\nc y\n"},
    {"without a sum it is sent", "d -\nf x 3\n", "d -\nf x 3\n", false, true, "\nc x\n"},
};

static void differences(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct run r;
        compare(&r, rows[i].from, rows[i].to,
                (struct plan_req){.delete_extras = rows[i].delete_extras,
                                  .checksum = rows[i].checksum});
        if (!str_eq(buf_str(&r.text), str_from(rows[i].steps))) {
            fail_msg("%s: got %s, want %s", rows[i].what, r.text.p, rows[i].steps);
        }
        done(&r);
    }
}

static void counts_tell_what_is_to_do(void **state)
{
    struct run r;

    (void)state;
    compare(&r, "d -\nd a\nf a/new 10\nf b 5\nf c 7\nl l x\no o\n",
            "d -\nf b 5\nf c 8\nd y\nf y/1 1\nl z z\n", (struct plan_req){.delete_extras = true});
    const struct sync_counts *c = sync_plan_counts(r.plan);
    assert_int_equal(c->dirs, 1);
    assert_int_equal(c->files, 2);
    assert_int_equal(c->links, 1);
    assert_int_equal(c->bytes, 17);
    assert_int_equal(c->unchanged, 1);
    assert_int_equal(c->delete_files, 2);
    assert_int_equal(c->delete_dirs, 1);
    assert_int_equal(c->special, 1);
    done(&r);
}

static void assert_all(const struct seq *s, const char *want)
{
    struct seq_reader *reader = malloc(sizeof *reader);
    struct tree_entry entry;
    struct buf text;

    buf_init(&text, 4096);
    seq_read(reader, s);
    while (seq_next(reader, &entry, NULL)) {
        buf_addf(&text, "%.*s\n", STR_ARG(entry.path));
    }
    assert_str(buf_str(&text), str_from(want));
    buf_fini(&text);
    free(reader);
}

static void what_is_in_the_way_goes_first(void **state)
{
    struct run r;

    (void)state;
    compare(&r, "d -\nf a 1\nf c 1\n", "d -\nd a\nd a/b\nf a/b/x 1\nf b 1\nf c 1\n",
            (struct plan_req){.delete_extras = true});
    assert_all(&r.plan->in_way, "a\na/b\na/b/x\n");
    assert_all(&r.plan->extras, "b\n");
    done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differences),
        cmocka_unit_test(counts_tell_what_is_to_do),
        cmocka_unit_test(what_is_in_the_way_goes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
