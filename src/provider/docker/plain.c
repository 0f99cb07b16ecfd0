/*
 * plain.c - containers that our agent does not run in: the engine's exec instead.
 *
 * Either the operator does not want it there (docker.agent), or none is for the image's processor, or
 * the container's first process cannot be it: a folder is mounted noexec, a policy refuses it. Then PID 1 is a
 * script of ours in the image's own sh, which reaps, and ends when the box's time is over or nobody used it. Each command
 * is an exec of the engine's (plain_exec.c); files, trees and figures go by scripts (provider/over_shell.h). A
 * handle of such a box has a provider of its own, whose operations these are: so nobody above needs to ask.
 *
 * PID 1 runs as the same user as the code in the box, as a program that can be traced: a hostile one could keep
 * it from ending. What holds in any case is kept from outside: a container whose lifetime is over is
 * removed by whoever looks next (sweep.c).
 */
#include "provider/docker/plain.h"

#include <string.h>

#include "agent/proto.h"
#include "base/alloc.h"
#include "base/own.h"
#include "base/path.h"
#include "base/thread.h"
#include "provider/shell.h"
#include "provider/sink.h"

#define TICK_MOST_S 30
#define TICK_PART   30 /* of the shorter of its times */
#define ASK_MAX     4096

/* ---- the texts --------------------------------------------------------------------------------- */

/* A process whose session it leads is a command that runs, or a task. Its name may hold anything. */
#define IS_BUSY                                                                                    \
    "busy() { for p in /proc/[0-9]*;do b=;while read -r x;do b=\"$b $x\";done <$p/stat;"           \
    "p=${p#/proc/};set -- ${b##*) };[ \"$4\" != $p ]||[ $p = 1 ]||[ \"$1\" = Z ]||return 0;done;"  \
    "return 1;} 2>/dev/null;"

void plain_add_first(struct buf *to, const struct limits *l)
{
    int32_t least = l->idle_s > 0 ? l->idle_s : INT32_MAX;

    least = l->lifetime_s > 0 && l->lifetime_s < least ? l->lifetime_s : least;
    int32_t tick = least / TICK_PART;
    tick = tick < 1 ? 1 : tick > TICK_MOST_S ? TICK_MOST_S : tick;
    buf_addf(to,
             "trap 'exit %d' TERM INT;" IS_BUSY
             "now() { read -r u x </proc/uptime;u=${u%%%%.*};};now;b0=$u;n=$u;o=$u;"
             "while :;do sleep %d & wait $!||exit 127;now;d=$((u-o));o=$u;",
             AGENT_EXIT_SIGNAL, tick);
    if (l->lifetime_s > 0) {
        buf_addf(to, "[ $((u-b0)) -lt %d ]||exit %d;", l->lifetime_s, AGENT_EXIT_LIFETIME);
    }
    if (l->idle_s > 0) {
        /* The time of a pause is no idleness. */
        buf_addf(to,
                 "[ $d -le %d ]||n=$((n+d-%d));if [ -e " PLAIN_USED " ];then rm -f " PLAIN_USED
                 ";n=$u;elif busy;then n=$u;fi;[ $((u-n)) -lt %d ]||exit %d;",
                 tick + 5, tick, l->idle_s, AGENT_EXIT_IDLE);
    }
    buf_add(to, S("done"));
}

void plain_add_kill(struct buf *to, long session, int grace_ms)
{
    buf_addf(to,
             "k() { r=1;for p in /proc/[0-9]*;do b=;while read -r x;do b=\"$b $x\";done <$p/stat;"
             "p=${p#/proc/};set -- $1 ${b##*) };[ \"$5\" = %ld ]&&[ \"$2\" != Z ]||continue;"
             "kill -s $1 $p&&r=0;done;return $r;} 2>/dev/null;"
             "k TERM;i=0;while [ $i -lt %d ]&&k 0;do sleep 0.1||sleep 1;i=$((i+1));done;"
             "i=0;while [ $i -lt 10 ]&&k KILL;do i=$((i+1));done;:",
             session, grace_ms / 100);
}

/* ---- what it is like --------------------------------------------------------------------------- */

static const struct shell_facts any_shell = {.known = true, .is_plain_shell = true};

static int run_in_sh(struct docker_box *db, const struct ctx *ctx, struct str script,
                     const struct source *input, const struct sink *output, int *status,
                     struct err *e)
{
    const struct exec_req req = {.shell = SHELL_SH, .command = script, .input = input};
    struct exec_result result = {0};

    if (plain_exec_with(db, ctx, &any_shell, &req, output, &result, e) < 0) {
        return -1;
    }
    *status = result.end == EXEC_EXITED ? result.code : 128 + result.code;
    return 0;
}

int plain_run(struct docker_box *db, const struct ctx *ctx, struct str script, int *status,
              struct err *e)
{
    const struct sink nowhere = sink_nowhere();

    return run_in_sh(db, ctx, script, NULL, &nowhere, status, e);
}

/* Asked once for each handle: bash, timeout, home, work folder, a line each. */
static int know(struct docker_box *db, const struct ctx *ctx, struct plain_facts *out,
                struct err *e)
{
    struct buf said own_buf = {0};
    const struct sink sink = sink_stdout(&said);
    struct plain_facts facts = {.shell = any_shell};
    struct str rest;
    int status = 0;

    lock(&db->lock);
    *out = db->plain;
    unlock(&db->lock);
    if (out->shell.known) {
        return 0;
    }
    buf_init(&said, ASK_MAX);
    if (run_in_sh(db, ctx,
                  S("command -v bash >/dev/null&&echo 1||echo 0;"
                    "timeout -k 1 9 true >/dev/null 2>&1&&echo 1||echo 0;"
                    "printf '%s\\n%s\\n' \"$HOME\" \"$PWD\""),
                  NULL, &sink, &status, e) < 0) {
        return -1;
    }
    facts.shell.has_bash = str_eq(str_cut(buf_str(&said), '\n', &rest), S("1"));
    facts.shell.has_timeout = str_eq(str_cut(rest, '\n', &rest), S("1"));
    struct str home = str_cut(rest, '\n', &rest);
    struct str work = str_cut(rest, '\n', &rest);
    if (status != 0 || !path_is_absolute(home) || !path_is_absolute(work) ||
        home.len >= sizeof(facts.home) || work.len >= sizeof(facts.work)) {
        return err_set(e, ERR_PROTOCOL,
                       "the container's shell does not tell where its folders are");
    }
    memcpy(facts.home, home.p, home.len);
    memcpy(facts.work, work.p, work.len);
    *out = facts;
    LOCKED(&db->lock);
    db->plain = facts;
    return 0;
}

int plain_exec(struct box *b, const struct ctx *ctx, const struct exec_req *req,
               const struct sink *output, struct exec_result *out, struct err *e)
{
    struct docker_box *db = docker_box_of(b);
    struct plain_facts facts;

    *out = (struct exec_result){.not_sent = true};
    return know(db, ctx, &facts, e) < 0
               ? -1
               : plain_exec_with(db, ctx, &facts.shell, req, output, out, e);
}

/* ---- how scripts are run ----------------------------------------------------------------------- */

static int run(struct box *b, const struct ctx *ctx, struct str script, const struct source *input,
               const struct sink *output, int *status, struct err *e)
{
    return run_in_sh(docker_box_of(b), ctx, script, input, output, status, e);
}

static int has_tools(struct box *b, const struct ctx *ctx, struct err *e)
{
    struct docker_box *db = docker_box_of(b);

    lock(&db->lock);
    bool is_known = db->has_tools;
    unlock(&db->lock);
    if (is_known) {
        return 1;
    }
    int rc = shell_find_tools(&docker_shell, b, ctx, e);
    if (rc <= 0) {
        return rc < 0 ? -1 : shell_no_tools(e);
    }
    LOCKED(&db->lock);
    db->has_tools = true;
    return 1;
}

static int home(struct box *b, const struct ctx *ctx, struct str *out, struct err *e)
{
    struct plain_facts facts;

    if (know(docker_box_of(b), ctx, &facts, e) < 0) {
        return -1;
    }
    *out = arena_str(ctx->arena, str_from(facts.home));
    return 0;
}

static int place(struct box *b, const struct ctx *ctx, struct str path, struct str *out,
                 struct err *e)
{
    struct plain_facts facts;

    if (know(docker_box_of(b), ctx, &facts, e) < 0) {
        return -1;
    }
    struct str at_home = arena_str(ctx->arena, str_from(facts.home));
    *out = path_join(ctx->arena, arena_str(ctx->arena, str_from(facts.work)),
                     path_tilde(ctx->arena, path, at_home));
    return 0;
}

const struct shell_way docker_shell = {
    .run = run, .has_tools = has_tools, .home = home, .place = place};

/* ---- ports ------------------------------------------------------------------------------------- */

static int dial(struct box *b, const struct ctx *ctx, uint16_t port, struct err *e)
{
    (void)b;
    (void)ctx;
    (void)port;
    return err_set(e, ERR_UNSUPPORTED,
                   "ports are reached by our agent in the container, which is not there (see "
                   "isolation in list_sandboxes): make a sandbox of another image, or have the "
                   "operator allow it with agent = true below [docker]");
}

const struct port_ops plain_ports = {.dial = dial};
