/*
 * output.c - what a command printed: bounded in memory, whole on disk when it was cut.
 *
 * Each stream has a capture that keeps head and tail. As long as a capture has lost
 * nothing, the disk is not touched. The first byte that it would lose moves the
 * stream to a file: first what was kept so far (which is everything), then what
 * comes. A stream that the capture kept whole but that is too long for the answer
 * gets its file when its text is asked for. A full disk costs the whole output,
 * never the command.
 */
#include "core/output.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/capture.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/own.h"
#include "base/plain.h"
#include "base/utf8.h"
#include "core/output_file.h"

#define SLACK      1024          /* bytes beyond four per character, for what plain text drops */
#define RECENT_MAX ((size_t)512) /* bytes of the last line that are remembered */
#define LINE_MAX_B 200           /* bytes of it that progress shows */

struct part {
    struct capture kept;
    int fd;          /* of the file; -1: none */
    int64_t written; /* bytes in the file */
    bool spilled;    /* the file was begun */
    bool failed;     /* and could not be written: there is no whole output */
};

struct output {
    char *folder; /* outputs of the box; NULL: the box's id is no file name */
    char id[OUTPUT_ID_LEN + 1];
    int64_t max_chars;
    struct part parts[2];
    uint64_t lines;
    enum stream recent_from;
    char recent[RECENT_MAX];
    size_t recent_len;
};

/* ---- the file of a stream ------------------------------------------------------------ */

static void spill_bytes(struct part *p, struct str bytes)
{
    struct err ignored = {0};
    int64_t room = OUTPUT_FILE_MAX - p->written;

    if (p->failed || room <= 0) {
        return;
    }
    bytes = str_head(bytes, (size_t)room);
    if (fd_write_all(p->fd, bytes, &ignored) < 0) {
        p->failed = true;
        return;
    }
    p->written += (int64_t)bytes.len;
}

/* Everything of the stream so far is in the capture: it goes to the file. */
static void spill(struct output *o, enum stream which)
{
    struct part *p = &o->parts[which];
    uint64_t from = 0;

    p->spilled = true;
    if (o->folder != NULL) {
        p->fd = output_file_new(o->folder, o->id, which == STREAM_ERR ? ".err" : "");
    }
    if (p->fd < 0) {
        p->failed = true;
        return;
    }
    for (struct str view = capture_at(&p->kept, &from); view.len > 0;
         view = capture_at(&p->kept, &from)) {
        spill_bytes(p, view);
        from += view.len;
    }
}

/* ---- taking it in -------------------------------------------------------------------- */

struct output *output_new(struct str state_dir, struct str box_id, int64_t max_chars)
{
    struct output *o = xcalloc(1, sizeof(*o));
    size_t side = (size_t)max_chars * 2 + SLACK / 2;

    o->max_chars = max_chars;
    o->folder = output_folder(state_dir, box_id);
    id_hex(o->id, OUTPUT_ID_BYTES);
    for (int i = 0; i < 2; i++) {
        capture_init(&o->parts[i].kept, side, side);
        o->parts[i].fd = -1;
    }
    return o;
}

void output_free(struct output *o)
{
    if (o == NULL) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        capture_fini(&o->parts[i].kept);
        if (o->parts[i].fd >= 0) {
            (void)close(o->parts[i].fd);
        }
    }
    free(o->folder);
    free(o);
}

static void count_lines(struct output *o, struct str bytes)
{
    const char *at = bytes.p;
    const char *end = bytes.p + bytes.len;

    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));

        if (newline == NULL) {
            return;
        }
        o->lines++;
        at = newline + 1;
    }
}

static void remember_recent(struct output *o, enum stream from, struct str bytes)
{
    size_t keep;

    if (from != o->recent_from) {
        o->recent_from = from;
        o->recent_len = 0;
    }
    if (bytes.len >= RECENT_MAX) {
        bytes = str_skip(bytes, bytes.len - RECENT_MAX);
    }
    keep = RECENT_MAX - bytes.len < o->recent_len ? RECENT_MAX - bytes.len : o->recent_len;
    memmove(o->recent, o->recent + o->recent_len - keep, keep);
    memcpy(o->recent + keep, bytes.p, bytes.len);
    o->recent_len = keep + bytes.len;
}

static void take_in(struct output *o, enum stream from, struct str bytes)
{
    struct part *p = &o->parts[from];

    if (!p->spilled && p->kept.total + bytes.len > p->kept.head_max + p->kept.tail_max) {
        spill(o, from);
    }
    if (p->spilled) {
        spill_bytes(p, bytes);
    }
    capture_add(&p->kept, bytes);
}

static int sink_write(void *arg, enum stream from, struct str bytes, struct err *e)
{
    struct output *o = arg;

    (void)e;
    if (bytes.len == 0) {
        return 0;
    }
    take_in(o, from, bytes);
    count_lines(o, bytes);
    remember_recent(o, from, bytes);
    return 0;
}

static void sink_lost(void *arg, enum stream from, uint64_t n)
{
    char text[128];
    int len = snprintf(text, sizeof(text),
                       "\n... [%" PRIu64 " bytes lost here: printed faster than they were read] "
                       "...\n",
                       n);

    take_in(arg, from, (struct str){text, (size_t)len});
}

bool output_is_kept(const struct output *o)
{
    return o != NULL && (o->parts[0].fd >= 0 || o->parts[1].fd >= 0);
}

struct sink output_sink(struct output *o)
{
    return (struct sink){.write = sink_write, .lost = sink_lost, .arg = o};
}

/* ---- giving it out ------------------------------------------------------------------- */

/* The kept bytes from *from up to `end`, appended. */
static void kept_bytes(const struct capture *c, uint64_t from, uint64_t end, struct buf *to)
{
    while (from < end) {
        struct str view = capture_at(c, &from);

        if (view.len == 0 || from >= end) {
            return;
        }
        view = str_head(view, (size_t)(end - from));
        buf_add(to, view);
        from += view.len;
    }
}

/* At most n characters and max bytes from the front; the text is valid UTF-8. */
static struct str head_chars(struct str s, int64_t n, size_t max)
{
    size_t at = 0;

    s = utf8_head(s, max);
    while (at < s.len) {
        if (((unsigned char)s.p[at] & 0xc0) != 0x80) {
            if (n == 0) {
                break;
            }
            n--;
        }
        at++;
    }
    return str_head(s, at);
}

static struct str tail_chars(struct str s, int64_t n, size_t max)
{
    size_t at;

    s = utf8_tail(s, max);
    at = s.len;
    while (at > 0 && n > 0) {
        at--;
        if (((unsigned char)s.p[at] & 0xc0) != 0x80) {
            n--;
        }
    }
    return str_skip(s, at);
}

static void add_marker(const struct output *o, enum stream which, uint64_t bytes, struct buf *to)
{
    const struct part *p = &o->parts[which];

    if (to->len > 0 && to->p[to->len - 1] != '\n') {
        buf_addc(to, '\n');
    }
    buf_addf(to, "... [%" PRIu64 " bytes cut here", bytes);
    if (!p->failed) {
        bool whole = p->written == (int64_t)p->kept.total;

        buf_addf(to, "; read_remote_file(\"output:%s%s\") has %s", o->id,
                 which == STREAM_ERR ? ".err" : "", whole ? "all of it" : "the first 16 MiB");
    }
    buf_add(to, S("] ...\n"));
}

static void add_cut(struct output *o, enum stream which, struct str head, struct str tail,
                    uint64_t lost, struct buf *to)
{
    size_t room = to->max - to->len;
    size_t side = room > SLACK ? (room - SLACK / 2) / 2 : 0; /* the rest is the marker's */
    int64_t head_n = o->max_chars - o->max_chars / 2;
    struct str first = head_chars(head, head_n, side);
    struct str last = tail_chars(tail, o->max_chars / 2, side);

    if (str_starts(last, S("\n"))) { /* the marker has ended that line */
        last = str_skip(last, 1);
    }
    if (!o->parts[which].spilled) {
        spill(o, which);
    }
    buf_add(to, first);
    add_marker(o, which, lost + (head.len - first.len) + (tail.len - last.len), to);
    buf_add(to, last);
}

void output_text(struct output *o, enum stream which, struct buf *to, bool *cut)
{
    const struct capture *c = &o->parts[which].kept;
    struct buf raw own_buf = {0};
    struct buf head own_buf = {0};
    struct buf tail own_buf = {0};
    uint64_t lost = capture_lost(c);

    *cut = false;
    if (c->total == 0) {
        return;
    }
    buf_init(&raw, c->head_max + c->tail_max);
    buf_init(&head, 4 * raw.max); /* an invalid byte becomes three */
    buf_init(&tail, 4 * raw.max);
    kept_bytes(c, 0, lost > 0 ? c->head_len : c->total, &raw);
    plain_text(buf_str(&raw), &head);
    if (lost == 0 && head.len <= to->max - to->len &&
        utf8_count(buf_str(&head)) <= (uint64_t)o->max_chars) {
        buf_add(to, buf_str(&head));
        return;
    }
    *cut = true;
    if (lost == 0) { /* head and tail are cut from the same text */
        int64_t head_n = o->max_chars - o->max_chars / 2;
        size_t split = head_chars(buf_str(&head), head_n, head.len).len;

        buf_add(&tail, str_skip(buf_str(&head), split));
        head.len = split;
    } else {
        buf_clear(&raw);
        kept_bytes(c, c->total - c->tail_len, c->total, &raw);
        plain_text(buf_str(&raw), &tail);
    }
    add_cut(o, which, buf_str(&head), buf_str(&tail), lost, to);
}

void output_last_line(const struct output *o, struct buf *to)
{
    struct buf plain own_buf = {0};
    struct str line;

    buf_init(&plain, 4 * RECENT_MAX);
    plain_text((struct str){o->recent, o->recent_len}, &plain);
    line = str_trim(buf_str(&plain));
    for (size_t i = line.len; i > 0; i--) {
        if (line.p[i - 1] == '\n') {
            line = str_skip(line, i);
            break;
        }
    }
    buf_add(to, utf8_head(line, LINE_MAX_B));
}

uint64_t output_lines(const struct output *o)
{
    return o->lines;
}
