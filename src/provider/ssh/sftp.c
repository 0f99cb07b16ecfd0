#include "provider/ssh/sftp.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"

#define IDLE_MAX  2
#define VERSION   3
#define SILENT_MS 60000
#define NOISE_MAX (64u << 10) /* of a login shell */

/* ---- building ---------------------------------------------------------------------------- */

void sftp_u32(struct sftp *s, uint32_t n)
{
    uint32_t big = htobe32(n);

    buf_add(&s->packet, (struct str){(const char *)&big, sizeof(big)});
}

void sftp_u64(struct sftp *s, uint64_t n)
{
    sftp_u32(s, (uint32_t)(n >> 32));
    sftp_u32(s, (uint32_t)n);
}

void sftp_text(struct sftp *s, struct str text)
{
    sftp_u32(s, (uint32_t)text.len);
    buf_add(&s->packet, text);
}

static void begin_bare(struct sftp *s, enum sftp_type type)
{
    buf_clear(&s->packet);
    sftp_u32(s, 0); /* the length, once it is known */
    buf_addc(&s->packet, (char)type);
}

uint32_t sftp_begin(struct sftp *s, enum sftp_type type)
{
    uint32_t id = s->next_id++;

    begin_bare(s, type);
    sftp_u32(s, id);
    return id;
}

/* ---- moving ------------------------------------------------------------------------------ */

/* What came goes behind what is not looked at yet. */
static void take_in(struct sftp *s)
{
    struct buf came = s->out[0];

    if (s->in_at < s->in.len) {
        buf_drop(&s->in, s->in_at);
        buf_add(&s->in, buf_str(&came));
    } else {
        s->out[0] = s->in;
        s->in = came;
        s->in.max = s->in_max;
    }
    s->in_at = 0;
    buf_clear(&s->out[0]);
}

/* Takes what came; sleeps once when there is nothing. */
static int pull(struct sftp *s, const struct ctx *ctx, bool sleep, struct err *e)
{
    struct chan_news news;

    chan_take(s->chan, s->out, &news);
    buf_clear(&s->out[1]); /* what the server's side complains about is of no use here */
    if (s->out[0].len > 0) {
        take_in(s);
        return s->in.cut ? sftp_bad(s, e) : 0;
    }
    if (news.state == CHAN_ENDED) {
        s->is_broken = true;
        if (news.why.kind != ERR_NONE) {
            *e = news.why;
            return -1;
        }
        return err_set(e, ERR_UNREACHABLE,
                       "the host's sftp server ended; is it installed (openssh-sftp-server) and "
                       "named by \"Subsystem sftp\" in sshd_config?");
    }
    if (!sleep) {
        return 0;
    }
    int ready = chan_wait(s->chan, ctx, NULL, clock_mono_ms() + SILENT_MS, e);
    if (ready < 0) {
        s->is_broken = true;
        return -1;
    }
    if (ready == 0) {
        s->is_broken = true;
        return err_set(e, ERR_UNREACHABLE, "the host's sftp server has not answered for %d s",
                       SILENT_MS / 1000);
    }
    return 0;
}

int sftp_send(struct sftp *s, const struct ctx *ctx, struct err *e)
{
    uint32_t length = htobe32((uint32_t)(s->packet.len - sizeof(length)));
    struct str rest;

    if (s->packet.cut) {
        return err_set(e, ERR_LIMIT, "a path is too long for the host's sftp server");
    }
    memcpy(s->packet.p, &length, sizeof(length));
    rest = buf_str(&s->packet);
    for (;;) {
        rest = str_skip(rest, chan_put(s->chan, rest));
        if (rest.len == 0) {
            return 0;
        }
        if (pull(s, ctx, true, e) < 0) {
            return -1;
        }
    }
}

int sftp_get(struct sftp *s, const struct ctx *ctx, struct sftp_packet *out, struct err *e)
{
    for (;;) {
        ssize_t used = sftp_cut(str_skip(buf_str(&s->in), s->in_at), out);

        if (used < 0) {
            return sftp_bad(s, e);
        }
        if (used > 0) {
            s->in_at += (size_t)used;
            return 0;
        }
        if (pull(s, ctx, true, e) < 0) {
            return -1;
        }
    }
}

int sftp_ask(struct sftp *s, const struct ctx *ctx, uint32_t id, struct sftp_packet *out,
             struct err *e)
{
    if (sftp_send(s, ctx, e) < 0 || sftp_get(s, ctx, out, e) < 0) {
        return -1;
    }
    return out->id == id ? 0 : sftp_bad(s, e);
}

int sftp_bad(struct sftp *s, struct err *e)
{
    s->is_broken = true;
    return err_set(e, ERR_PROTOCOL, "the host's sftp server sent something that cannot be read");
}

/* ---- their life -------------------------------------------------------------------------- */

static void destroy(struct sftp *s)
{
    chan_close(s->chan);
    buf_fini(&s->in);
    buf_fini(&s->out[0]);
    buf_fini(&s->out[1]);
    buf_fini(&s->packet);
    free(s);
}

/* sshd starts an sftp server through the login shell, whose own files may print something
 * first: that is skipped up to what can only be the server's greeting. */
static int skip_noise(struct sftp *s, const struct ctx *ctx, struct err *e)
{
    static const char greeting[] = {SFTP_VERSION, 0, 0, 0, VERSION};

    for (;;) {
        struct str in = buf_str(&s->in);
        const char *at = in.len > 0 ? memmem(in.p, in.len, greeting, sizeof(greeting)) : NULL;

        if (at != NULL && at - in.p >= 4) {
            s->in_at = (size_t)(at - in.p) - 4;
            return 0;
        }
        if (in.len > NOISE_MAX) {
            buf_drop(&s->in, in.len - sizeof(greeting) - 4);
        }
        if (pull(s, ctx, true, e) < 0) {
            return -1;
        }
    }
}

static int greet(struct sftp *s, const struct ctx *ctx, struct err *e)
{
    struct sftp_packet p;

    begin_bare(s, SFTP_INIT);
    sftp_u32(s, VERSION);
    if (sftp_send(s, ctx, e) < 0 || skip_noise(s, ctx, e) < 0 || sftp_get(s, ctx, &p, e) < 0) {
        return -1;
    }
    struct sftp_in in = {.rest = p.body};
    uint32_t version = sftp_get_u32(&in);
    if (p.type != SFTP_VERSION || version != VERSION) {
        return sftp_bad(s, e);
    }
    while (in.rest.len > 0 && !in.bad) {
        struct str name = sftp_get_text(&in);

        (void)sftp_get_text(&in);
        s->has_posix_rename = s->has_posix_rename || str_eq(name, S("posix-rename@openssh.com"));
        s->has_limits = s->has_limits || str_eq(name, S("limits@openssh.com"));
    }
    return 0;
}

int sftp_learn_block(struct sftp *s, const struct ctx *ctx, struct err *e)
{
    struct sftp_packet p;

    if (s->block > 0) {
        return 0;
    }
    s->block = SFTP_BLOCK;
    if (!s->has_limits) {
        return 0;
    }
    uint32_t id = sftp_begin(s, SFTP_EXTENDED);
    sftp_text(s, S("limits@openssh.com"));
    if (sftp_ask(s, ctx, id, &p, e) < 0) {
        return -1;
    }
    struct sftp_in in = {.rest = p.body};
    (void)sftp_get_u64(&in); /* of a packet */
    uint64_t reads = sftp_get_u64(&in), writes = sftp_get_u64(&in);
    if (p.type == SFTP_EXTENDED_REPLY && !in.bad && reads >= SFTP_BLOCK && writes >= SFTP_BLOCK) {
        uint64_t both = reads < writes ? reads : writes;

        s->block = both < SFTP_BLOCK_MAX ? (uint32_t)both : SFTP_BLOCK_MAX;
    }
    return 0;
}

/* An idle one whose connection is still there. */
static struct sftp *take_idle(struct machine *m)
{
    for (;;) {
        struct sftp *s = NULL;
        struct chan_news news;

        lock(&m->lock);
        if (!list_empty(&m->idle_sftp)) {
            s = list_entry(m->idle_sftp.prev, struct sftp, link);
            list_del(&s->link);
            m->n_idle_sftp--;
        }
        unlock(&m->lock);
        if (s == NULL) {
            return NULL;
        }
        chan_take(s->chan, NULL, &news);
        if (news.state == CHAN_OPEN) {
            return s;
        }
        destroy(s);
    }
}

struct sftp *sftp_take(struct machine *m, const struct ctx *ctx, struct err *e)
{
    struct sftp *s = take_idle(m);

    if (s != NULL) {
        return s;
    }
    struct chan *c = chan_open(m, CHAN_SFTP, STR_EMPTY, 0, e);
    if (c == NULL) {
        return NULL;
    }
    s = xcalloc(1, sizeof(*s));
    s->chan = c;
    list_init(&s->link);
    s->in_max = CHAN_BULK_MAX + SFTP_PACKET_MAX + 4096;
    buf_init(&s->in, s->in_max);
    buf_init(&s->out[0], CHAN_BULK_MAX);
    buf_init(&s->out[1], CHAN_BULK_MAX);
    buf_init(&s->packet, SFTP_PACKET_MAX);
    if (greet(s, ctx, e) < 0) {
        destroy(s);
        return NULL;
    }
    return s;
}

void sftp_give(struct machine *m, struct sftp *s)
{
    if (s == NULL) {
        return;
    }
    lock(&m->lock);
    bool keep = !s->is_broken && m->n_idle_sftp < IDLE_MAX && !m->is_closing;
    if (keep) {
        list_add_tail(&m->idle_sftp, &s->link);
        m->n_idle_sftp++;
    }
    unlock(&m->lock);
    if (!keep) {
        destroy(s);
    }
}

void sftp_drop_idle(struct machine *m)
{
    for (struct sftp *s = take_idle(m); s != NULL; s = take_idle(m)) {
        destroy(s);
    }
}
