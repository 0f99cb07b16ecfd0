/* scratch.h - folders for the tests of trees: random ones, and ones to compare. */
#ifndef TESTS_TREE_SCRATCH_H
#define TESTS_TREE_SCRATCH_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/sha256.h"
#include "test.h"
#include "tree/apply.h"
#include "tree/read.h"
#include "tree/walk.h"

struct scratch {
    char path[64];
    int fd;
};

static inline struct scratch scratch_new(void)
{
    struct scratch s = {.path = "/tmp/anybox-tree-XXXXXX"};
    assert_non_null(mkdtemp(s.path));
    s.fd = open(s.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(s.fd >= 0);
    return s;
}

static inline void scratch_end(struct scratch *s)
{
    struct err e;
    close(s->fd);
    assert_ok(fd_remove_tree(AT_FDCWD, s->path, &e), &e);
}

static inline void make_dir(int at, const char *path, mode_t mode)
{
    assert_int_equal(mkdirat(at, path, 0700), 0);
    assert_int_equal(fchmodat(at, path, mode, 0), 0);
}

static inline void make_file(int at, const char *path, struct str bytes, mode_t mode)
{
    struct err e;
    int fd = openat(at, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_ok(fd_write_all(fd, bytes, &e), &e);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static inline void set_time(int at, const char *path, int64_t ns)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, tree_timespec(ns)};
    assert_int_equal(utimensat(at, path, times, AT_SYMLINK_NOFOLLOW), 0);
}

/* ---- a tree as text: one line for each entry ----------------------------------------- */

struct dump {
    struct buf text;
    bool times;
    char last[TREE_PATH_MAX + 1];
    bool any;
};

static inline int dump_entry(void *arg, const struct tree_entry *entry, struct err *e)
{
    struct dump *d = arg;
    char hex[SHA256_HEX_SIZE];
    (void)e;
    assert_true(tree_path_ok(entry->path));
    assert_true(!d->any || tree_path_cmp(str_from(d->last), entry->path) < 0);
    d->any = true;
    (void)snprintf(d->last, sizeof d->last, "%.*s", STR_ARG(entry->path));
    buf_addf(&d->text, "%.*s\t%d %o %llu %.*s %s", STR_ARG(entry->path), (int)entry->type,
             entry->type == TREE_LINK ? 0 : entry->mode, (unsigned long long)entry->size,
             STR_ARG(entry->target), entry->has_sum ? sha256_hex(entry->sum, hex) : "-");
    if (d->times) {
        buf_addf(&d->text, " %lld", (long long)entry->mtime_ns);
    }
    buf_addc(&d->text, '\n');
    return 0;
}

static inline struct dump dump_tree(const struct walk_req *req, bool times)
{
    struct dump d = {.times = times};
    struct err e;
    buf_init(&d.text, 64 << 20);
    assert_ok(tree_walk(req, dump_entry, &d, &e), &e);
    assert_false(d.text.cut);
    return d;
}

static inline void assert_same_tree(int a, int b)
{
    struct dump left = dump_tree(&(struct walk_req){.root_fd = a, .sums = true}, true);
    struct dump right = dump_tree(&(struct walk_req){.root_fd = b, .sums = true}, true);
    assert_str(buf_str(&right.text), buf_str(&left.text));
    buf_fini(&left.text);
    buf_fini(&right.text);
}

/* ---- one tree into another --------------------------------------------------------------- */

struct copying {
    struct tree_reader *from;
    const struct tree_sink *to;
};

static inline int copy_entry(void *arg, const struct tree_entry *entry, struct err *e)
{
    struct copying *c = arg;
    struct tree_entry is;
    char bytes[8192];
    if (c->to->entry(c->to->arg, entry, e) < 0 || entry->type != TREE_FILE) {
        return entry->type == TREE_FILE ? -1 : e->kind == ERR_NONE ? 0 : -1;
    }
    assert_ok(tree_reader_open(c->from, entry->path, &is, e), e);
    for (;;) {
        uint64_t hole = tree_reader_hole(c->from);
        if (hole > 0 && c->to->hole(c->to->arg, hole, e) < 0) {
            return -1;
        }
        ssize_t n = tree_reader_read(c->from, bytes, sizeof bytes, e);
        assert_true(n >= 0);
        if (n == 0) {
            break;
        }
        if (c->to->data(c->to->arg, (struct str){bytes, (size_t)n}, e) < 0) {
            return -1;
        }
    }
    return c->to->done(c->to->arg, true, STR_EMPTY, e);
}

static inline void copy_tree(int from, int to, struct apply_stats *stats)
{
    struct err e = {0};
    struct apply *a = apply_open(&(struct apply_req){.root_fd = to});
    struct copying c = {.from = tree_reader_new(from), .to = apply_sink(a)};
    assert_ok(tree_walk(&(struct walk_req){.root_fd = from}, copy_entry, &c, &e), &e);
    tree_reader_free(c.from);
    if (stats != NULL) {
        *stats = *apply_stats(a);
    }
    assert_ok(apply_close(a, true, &e), &e);
}

/* ---- chance -------------------------------------------------------------------------------- */

static uint32_t seed UNUSED = 6;

static inline uint32_t below(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

/* A name that is hard on somebody: quotes, newlines, dashes, long ones, no UTF-8. */
static inline void random_name(char to[256])
{
    static const char *const odd[] = {
        "-rf", "a\nb", "\"'`$x", "\xff\xfe\x80", "...", " ",   "a b", "*",    "#x",
        "A",   "a",    "a.",     "..x",          "~",   "\\n", "a-b", "%s%n", "\x01\x1b[31m"};
    if (below(20) == 0) {
        memset(to, 'L', 255);
        to[255] = '\0';
        return;
    }
    int n = snprintf(to, 256, "%s", odd[below(sizeof odd / sizeof *odd)]);
    (void)snprintf(to + n, 256 - (size_t)n, "%.*x", (int)below(3), below(256));
}

static inline void random_bytes(int dir, const char *name)
{
    static char bytes[200000];
    size_t len = below(4) == 0 ? below(sizeof bytes) : below(3000);
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (char)below(256);
    }
    if (len > 20000 && below(2) == 0) {
        memset(bytes + 8192, 0, len - 9000);
    }
    static const mode_t modes[] = {0644, 0755, 0600, 0444, 0400, 0777, 0640};
    make_file(dir, name, (struct str){bytes, len}, modes[below(7)]);
}

static inline void random_fill(int dir, int depth)
{
    for (uint32_t n = below(12); n > 0; n--) {
        char name[256];
        random_name(name);
        if (faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
            continue;
        }
        switch (below(depth > 0 ? 5 : 3)) {
        case 0: assert_int_equal(symlinkat(below(2) ? "/etc/passwd" : "../x", dir, name), 0); break;
        case 1:
        case 2: random_bytes(dir, name); break;
        default: {
            static const mode_t modes[] = {0755, 0700, 0555, 0500, 0777};
            assert_int_equal(mkdirat(dir, name, 0700), 0);
            int below_fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            assert_true(below_fd >= 0);
            random_fill(below_fd, depth - 1);
            assert_int_equal(fchmod(below_fd, modes[below(5)]), 0);
            close(below_fd);
        }
        }
        set_time(dir, name, (int64_t)below(2000000000) * 1000000000 + below(1000000000));
    }
}

#endif
