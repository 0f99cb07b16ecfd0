#include "provider/agent_script.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/id.h"
#include "provider/over_agent.h"
#include "provider/talk.h"

#define REMOVE_WAIT_MS 2000

/* Two strings, one after the other. */
struct pieces {
    struct str piece[2];
};

static ssize_t read_pieces(void *arg, char *to, size_t cap, struct err *e)
{
    (void)e;
    struct pieces *p = arg;
    struct str *from = p->piece[0].len > 0 ? &p->piece[0] : &p->piece[1];
    size_t n = from->len < cap ? from->len : cap;
    if (n > 0) {
        memcpy(to, from->p, n);
        *from = str_skip(*from, n);
    }
    return (ssize_t)n;
}

static int write_script(struct box *b, const struct ctx *ctx, struct str text,
                        const struct argv *argv, struct err *e)
{
    char first[SCRIPT_PATH_SIZE + 32];
    (void)snprintf(first, sizeof first, "command rm -f -- %s; ", argv->script);
    struct pieces pieces = {{str_from(first), text}};
    struct source from = {.read = read_pieces, .arg = &pieces, .fd = -1};
    struct file_info written;
    if (files_over_agent.write(b, ctx, str_from(argv->script), 0600, FILE_NEW, &from, &written, e) <
        0) {
        return err_wrap(e, "the long command could not be put into the sandbox");
    }
    return 0;
}

int script_argv(struct box *b, const struct ctx *ctx, const struct exec_req *req, struct argv *out,
                struct err *e)
{
    *out = (struct argv){.words = req->argv, .n = req->n_argv};
    if (req->shell == SHELL_NONE) {
        return 0;
    }
    out->words = out->shell;
    out->n = COUNTOF(out->shell);
    out->shell[0] = req->shell == SHELL_BASH ? S("bash") : S("sh");
    out->shell[1] = S("-c");
    out->shell[2] = req->command;
    if (req->command.len <= ARG_BYTES_MAX) {
        return 0;
    }
    char id[17];
    id_hex(id, 8);
    (void)snprintf(out->script, sizeof out->script, "/tmp/.anybox-%s.sh", id);
    if (write_script(b, ctx, req->command, out, e) < 0) {
        return -1;
    }
    out->shell[2] = arena_printf(ctx->arena, ". %s", out->script);
    return 0;
}

void script_remove(struct box *b, const struct ctx *ctx, const struct argv *argv)
{
    if (argv->script[0] == '\0') {
        return;
    }
    struct ctx quiet = {.arena = ctx->arena, .deadline_ms = clock_mono_ms() + REMOVE_WAIT_MS};
    struct err ignored = {0};
    (void)!files_over_agent.remove(b, &quiet, str_from(argv->script), &ignored);
}
