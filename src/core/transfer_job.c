/* transfer_job.c - a sync's options as one text in its row. */
#include "base/own.h"
#include "base/pack.h"
#include "core/transfer_own.h"
#include "tree/exclude.h"

#define OPTIONS_MAX (4u << 20)

static const struct {
    char letter;
    size_t offset;
} flags[] = {
    {'d', offsetof(struct sync_job, delete_extras)},
    {'c', offsetof(struct sync_job, checksum)},
    {'g', offsetof(struct sync_job, gitignore)},
    {'l', offsetof(struct sync_job, legacy_style)},
};

int transfer_pack_job(const struct sync_job *job, struct arena *a, struct str *out, struct err *e)
{
    struct buf letters own_buf = {0};
    struct buf text own_buf = {0};

    buf_init(&letters, COUNTOF(flags) + 1);
    buf_init(&text, OPTIONS_MAX);
    for (size_t i = 0; i < COUNTOF(flags); i++) {
        const void *flag = (const char *)job + flags[i].offset;

        if (*(const bool *)flag) {
            buf_addc(&letters, flags[i].letter);
        }
    }
    pack_add(&text, buf_str(&letters));
    for (size_t i = 0; i < job->n_excludes; i++) {
        pack_add(&text, job->excludes[i]);
    }
    if (text.cut) {
        return err_set(e, ERR_LIMIT, "excludes are longer than %u bytes in all", OPTIONS_MAX);
    }
    *out = arena_str(a, buf_str(&text));
    return 0;
}

int transfer_unpack_job(const struct transfer_row *row, struct arena *a, struct sync_job *out,
                        struct err *e)
{
    struct sync_job job = {
        .direction = row->down ? SYNC_DOWN : SYNC_UP,
        .local = row->local,
        .remote = row->remote,
    };
    struct str rest = row->options;
    struct str letters, line;
    struct str *excludes;
    int rc;

    if (pack_take(&rest, &letters, e) < 0) {
        return err_wrap(e, "the options of transfer %lld", (long long)row->id);
    }
    for (size_t i = 0; i < COUNTOF(flags); i++) {
        *(bool *)(void *)((char *)&job + flags[i].offset) = str_has(letters, flags[i].letter);
    }
    excludes = arena_alloc(a, EXCLUDES_MAX + 1, sizeof(*excludes));
    for (rc = pack_next(&rest, &line, e); rc > 0; rc = pack_next(&rest, &line, e)) {
        if (job.n_excludes >= EXCLUDES_MAX) {
            return err_set(e, ERR_LIMIT, "transfer %lld has more than %d excludes",
                           (long long)row->id, EXCLUDES_MAX);
        }
        excludes[job.n_excludes++] = line;
    }
    job.excludes = excludes;
    if (rc == 0) {
        *out = job;
    }
    return rc;
}
