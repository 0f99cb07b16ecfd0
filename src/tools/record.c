/*
 * record.c - one line per call, with what an operator may know: who, what, how long, how it
 * ended. Arguments are commands, contents of files and environment variables, and so are
 * never told: the audit log has a digest of them, and the text of commands where
 * audit.commands says so.
 */
#include "tools/record.h"

#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "core/audit.h"
#include "core/token.h"
#include "json/js.h"

static int feed_digest(const char *bytes, size_t n, void *arg)
{
    hmac256_add(arg, (struct str){bytes, n});
    return 0;
}

/* Sorted, so that the same arguments have the same digest. */
static int digest_arguments(struct record *r, const json_t *arguments, struct err *e)
{
    unsigned char hash[SHA256_SIZE];
    struct hmac256 m;

    if (token_digest(r->call->services->tokens, &m, e) < 0) {
        return err_wrap(e, "nothing is run that cannot be recorded");
    }
    if (arguments != NULL) {
        (void)json_dump_callback(arguments, feed_digest, &m,
                                 JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    }
    hmac256_end(&m, hash);
    (void)sha256_hex(hash, r->digest);
    return 0;
}

/* What a tool runs; tools that run something call it by one of these names. */
static struct str command_of(const struct call *c, const json_t *arguments)
{
    static const char *const names[] = {"command", "code"};
    struct str command = STR_EMPTY;

    for (size_t i = 0; i < COUNTOF(names) && command.len == 0; i++) {
        command = js_str(js_get(arguments, names[i]));
    }
    return arena_str(c->ctx->arena, command);
}

int record_begin(struct record *r, const struct tool *t, struct call *c, const json_t *arguments,
                 struct err *e)
{
    struct audit *audit = c->services->audit;

    *r = (struct record){.tool = t, .call = c, .started_ms = clock_mono_ms()};
    id_hex(r->id, 8);
    if (audit == NULL) {
        return 0;
    }
    if (audit_ready(audit, e) < 0 || digest_arguments(r, arguments, e) < 0) {
        return -1;
    }
    if (c->services->config->audit_commands != 0) {
        r->command = command_of(c, arguments);
    }
    r->audited = true;
    return 0;
}

static void write_audit(const struct record *r, struct str outcome, int64_t ms)
{
    const struct call *c = r->call;
    const struct audit_entry entry = {
        .who = c->scope->owner,
        .transport = str_from(c->transport),
        .request = c->request_id,
        .call = str_from(r->id),
        .tool = str_from(r->tool->name),
        .box = c->box_id,
        .digest = str_from(r->digest),
        .command = r->command,
        .outcome = outcome,
        .ms = ms,
    };
    char quoted[LOG_QUOTE_SIZE];
    struct err e;

    if (audit_write(c->services->audit, &entry, &e) < 0) {
        log_line(LOG_ERROR, "audit", "call=%s lost=yes error=%s", r->id,
                 log_quote(str_from(e.msg), quoted));
    }
}

void record_end(struct record *r)
{
    const struct call *c = r->call;
    int64_t ms = clock_mono_ms() - r->started_ms;
    struct str outcome = c->asked                ? S("asked")
                         : c->failed == ERR_NONE ? S("ok")
                                                 : str_from(err_kind_name(c->failed));
    char owner[LOG_QUOTE_SIZE], request[LOG_QUOTE_SIZE];

    if (r->audited) {
        write_audit(r, outcome, ms);
    }
    log_line(LOG_INFO, "call",
             "call=%s transport=%s owner=%s request=%s tool=%s box=%.*s ms=%lld outcome=%.*s",
             r->id, c->transport != NULL ? c->transport : "none", log_quote(c->scope->owner, owner),
             log_quote(c->request_id, request), r->tool->name, STR_ARG(c->box_id), (long long)ms,
             STR_ARG(outcome));
}
