#include "provider/ssh/sftp_group.h"

#include "base/path.h"

static void group_init(struct group *g)
{
    arena_init(&g->arena, 64u << 20);
    for (size_t i = 0; i < GROUP; i++) {
        buf_init(&g->items[i].bytes, GROUP_SMALL);
    }
}

void group_fini(struct group *g)
{
    arena_fini(&g->arena);
    for (size_t i = 0; i < GROUP; i++) {
        buf_fini(&g->items[i].bytes);
    }
    file_end(&g->job);
}

void group_clear(struct group *g)
{
    for (size_t i = 0; i < g->n; i++) {
        struct buf bytes = g->items[i].bytes;
        buf_clear(&bytes);
        g->items[i] = (struct item){.bytes = bytes};
    }
    g->n = 0;
    arena_fini(&g->arena);
}

struct str group_path(struct group *g, struct str path)
{
    return path.len > 0 ? path_join(&g->arena, g->root, path) : g->root;
}

int group_begin(struct group *g, struct box *b, const struct ctx *ctx, struct str root,
                struct err *e)
{
    group_init(g);
    if (file_begin(&g->job, b, ctx, root, e) < 0) {
        return -1;
    }
    g->root = arena_str(ctx->arena, g->job.path);
    return 0;
}

void item_failed(struct item *it, const struct sftp_packet *p, const char *doing)
{
    if (!it->has_failed) {
        it->has_failed = true;
        (void)sftp_fail(p, doing, it->entry.path, &it->why);
    }
}

static struct item *item_of(struct group *g, uint32_t id)
{
    for (size_t i = 0; i < g->n; i++) {
        if (g->items[i].is_asked && g->items[i].id == id) {
            return &g->items[i];
        }
    }
    return NULL;
}

int group_ask(struct group *g, enum which which, ask_fn *ask, answer_fn *answer, struct err *e)
{
    size_t owed = 0;
    for (size_t i = 0; i < g->n; i++) {
        struct item *it = &g->items[i];
        it->is_asked = it->has_failed == (which == FAILED) && ask(g, it);
        if (it->is_asked) {
            owed++;
            if (sftp_send(g->job.sftp, g->job.ctx, e) < 0) {
                return -1;
            }
        }
    }
    for (; owed > 0; owed--) {
        struct sftp_packet p;
        if (sftp_get(g->job.sftp, g->job.ctx, &p, e) < 0) {
            return -1;
        }
        struct item *it = item_of(g, p.id);
        if (it == NULL) {
            return sftp_bad(g->job.sftp, e);
        }
        it->is_asked = false;
        if (answer(g, it, &p, e) < 0) {
            g->job.sftp->is_broken = owed > 1;
            return -1;
        }
    }
    return 0;
}

int group_answer_handle(struct group *g, struct item *it, const struct sftp_packet *p,
                        struct err *e)
{
    struct sftp_in in = {.rest = p->body};
    if (p->type != SFTP_HANDLE) {
        item_failed(it, p, "open");
        return 0;
    }
    it->handle = arena_str(&g->arena, sftp_get_text(&in));
    it->is_open = true;
    return in.bad ? sftp_bad(g->job.sftp, e) : 0;
}

int group_answer_status(struct group *g, struct item *it, const struct sftp_packet *p,
                        struct err *e)
{
    (void)g, (void)e;
    if (sftp_status_of(p) != SFTP_OK) {
        item_failed(it, p, "write");
    }
    return 0;
}

int group_answer_ignored(struct group *g, struct item *it, const struct sftp_packet *p,
                         struct err *e)
{
    (void)g, (void)it, (void)p, (void)e;
    return 0;
}

bool group_ask_close(struct group *g, struct item *it)
{
    if (!it->is_open) {
        return false;
    }
    it->is_open = false;
    it->id = sftp_begin(g->job.sftp, SFTP_CLOSE);
    sftp_text(g->job.sftp, it->handle);
    return true;
}

void group_add(struct group *g, struct str path)
{
    struct item *it = &g->items[g->n++];
    it->entry.path = path;
    it->full = group_path(g, path);
}
