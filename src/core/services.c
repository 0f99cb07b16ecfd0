#include "core/services.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/path.h"
#include "base/thread.h"
#include "core/audit.h"
#include "core/boxes.h"
#include "core/forward.h"
#include "core/index_relay.h"
#include "core/journal.h"
#include "core/metrics.h"
#include "core/python.h"
#include "core/token.h"
#include "core/transfer.h"
#include "store/store.h"

#define TIDYING 8

static void set_problem(struct config *c, const struct err *e)
{
    if (c->problem.len == 0) {
        c->problem = arena_str(&c->arena, str_from(e->msg));
    }
}

/* A log that cannot be written must not stop the server: it goes to stderr then. */
static void start_log(struct config *c)
{
    enum log_level level;
    struct err e;

    if (log_level_parse(c->log_level, &level, &e) == 0) {
        log_set_level(level);
    }
    if (c->log_file.len == 0) {
        return;
    }
    (void)mkdir(arena_cstr(&c->arena, path_dir(c->log_file)), 0700); /* the last folder only */
    if (log_set_file(arena_cstr(&c->arena, c->log_file), c->log_max_bytes, (int)c->log_backups,
                     &e) < 0) {
        (void)err_wrap(&e, "log.file");
        set_problem(c, &e);
    }
}

/* With s->config. */
static int init(struct services *s, struct err *e)
{
    start_log(s->config);
    s->store = store_new(s->config->state_dir);
    s->tokens = tokens_new(s->config->state_dir);
    s->metrics = metrics_new();
    s->journal = journal_new();
    if (s->config->audit_file.len > 0) {
        s->audit = audit_new(s->config->audit_file);
    }
    s->boxes = boxes_new(s->config, s->store, e);
    s->transfers = s->boxes != NULL ? transfers_new(e) : NULL;
    if (s->transfers == NULL) {
        services_fini(s);
        return -1;
    }
    s->pythons = pythons_new();
    s->relays = index_relays_new();
    s->forwards = forwards_new();
    boxes_on_end(s->boxes, forwards_box_ended, s->forwards);
    /* As many again and some, for threads whose call is answered and which tidy up. */
    s->calls = pool_new("call", (2 * (unsigned)s->config->max_calls) + TIDYING);
    return 0;
}

int services_init(struct services *s, const struct config_flags *flags, struct err *e)
{
    *s = (struct services){.config = xcalloc(1, sizeof(*s->config))};
    config_load(s->config, flags);
    s->config->once = flags->once;
    if (flags->once) {
        s->config->pool = 0;
    }
    return init(s, e);
}

int services_init_with(struct services *s, struct config *config, struct err *e)
{
    *s = (struct services){.config = xcalloc(1, sizeof(*s->config))};
    *s->config = *config;
    *config = (struct config){0};
    s->config->pool = 0;
    return init(s, e);
}

void services_fini(struct services *s)
{
    pool_free(s->calls);
    transfers_free(s->transfers);
    forwards_free(s->forwards);
    index_relays_free(s->relays);
    pythons_free(s->pythons);
    boxes_free(s->boxes);
    audit_free(s->audit);
    tokens_free(s->tokens);
    store_free(s->store);
    metrics_free(s->metrics);
    journal_free(s->journal);
    if (s->config != NULL) {
        config_fini(s->config);
        free(s->config);
    }
    *s = (struct services){0};
}
