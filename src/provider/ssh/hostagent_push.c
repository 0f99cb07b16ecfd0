/* The agent's way to a host: see hostagent.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/proto.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/own.h"
#include "base/sha256.h"
#include "provider/command.h"
#include "provider/over_agent.h"
#include "provider/ssh/hostagent.h"
#include "provider/ssh/own.h"
#include "provider/ssh/relay.h"

#define AGENT_MAX  (16u << 20) /* bytes of the program */
#define SCRIPT_MAX 4096u
#define IDLE_S     "3600" /* that the agent stays without anything to do */

/* ---- which program ---------------------------------------------------------------------- */

struct program {
    struct str bytes; /* in the call's arena */
    char hash[SHA256_HEX_SIZE];
};

static int find_program(struct machine *m, const struct ctx *ctx, const char *name, struct str *out)
{
    static const char *const places[] = {"", "/../libexec/anybox"};
    struct err ignored = {0};

    for (size_t i = 0; i < COUNTOF(places); i++) {
        struct str path = arena_printf(ctx->arena, "%s%s/%s", m->program_dir, places[i], name);

        if (fd_read_file(AT_FDCWD, path.p, AGENT_MAX, ctx->arena, out, &ignored) == 0) {
            return 0;
        }
    }
    return -1;
}

/* The agent for the host's system and processor: our own boxinit where they are ours. */
static int load_program(struct machine *m, const struct ctx *ctx, struct str system,
                        struct program *out, struct err *e)
{
    struct utsname here;
    struct str processor;
    struct str kernel = str_cut(system, ' ', &processor);
    unsigned char hash[SHA256_SIZE];
    const char *name;

    if (!str_eq(kernel, S("Linux")) || processor.len == 0) {
        return err_set(e, ERR_UNSUPPORTED, "there is no agent for the system \"%.*s\"",
                       STR_ARG(system));
    }
    bool is_ours = uname(&here) == 0 && str_eq(processor, str_from(here.machine));
    name = is_ours ? "boxinit" : arena_printf(ctx->arena, "boxinit-%.*s", STR_ARG(processor)).p;
    if (str_has(processor, '/') || find_program(m, ctx, name, &out->bytes) < 0) {
        return err_set(e, ERR_UNSUPPORTED, "there is no agent for \"%.*s\" beside this anybox (%s)",
                       STR_ARG(system), name);
    }
    sha256_of(out->bytes, hash);
    (void)sha256_hex(hash, out->hash);
    return 0;
}

/* ---- what the host is told -------------------------------------------------------------- */

#define FOLDER "d=${XDG_CACHE_HOME:-$HOME/.cache}/anybox;"

/* Starts the relay when the agent is there and is what it should be. A host without a program
 * that tells a hash is believed only about a file that was sent just now. */
static void add_start(struct buf *script, const struct program *p, const char *mark, bool is_sent)
{
    buf_addf(script,
             FOLDER "f=$d/agent-%s;"
                    "if [ -f \"$f\" ]&&[ ! -L \"$f\" ]&&[ -O \"$f\" ];then "
                    "s=$(sha256sum <\"$f\" 2>/dev/null||shasum -a 256 <\"$f\" 2>/dev/null);"
                    "s=${s%%%% *};[ -n \"$s\" ]||s=%s;"
                    "if [ \"$s\" = %s ];then "
                    "exec \"$f\" relay --socket \"$d/" PLACE_OF "%.*s\" --idle " IDLE_S
                    " --marker %s;fi;fi;echo \"%s need\"",
             p->hash, is_sent ? p->hash : "unknown", p->hash, PLACE_OF_DIGITS, p->hash, mark, mark);
}

/* Takes the agent from stdin. What other versions left for a month goes; the agent that is started
 * now removes what nobody uses any more (boxinit/place.h). */
static void add_upload(struct buf *script, const struct program *p, const char *mark)
{
    buf_addf(script,
             FOLDER
             "umask 077;mkdir -p \"$d\"&&chmod 700 \"$d\"||exit 1;"
             "t=$d/.agent.$$;trap 'rm -f \"$t\"' EXIT;trap 'exit 1' HUP INT TERM PIPE;"
             "cat >\"$t\"||exit 1;"
             "if [ $(wc -c <\"$t\") -ne %zu ];then echo 'it came in part only' >&2;exit 1;fi;"
             "chmod 700 \"$t\"&&mv -f \"$t\" \"$d/agent-%s\"||exit 1;"
             "find \"$d\" -maxdepth 1 -name 'agent-*' ! -name agent-%s -mtime +30 "
             "-exec rm -f {} + 2>/dev/null;"
             "find \"$d\" -maxdepth 1 -name '.agent.*' -mtime +1 -exec rm -f {} + "
             "2>/dev/null;"
             "echo \"%s sent\"",
             p->bytes.len, p->hash, p->hash, mark);
}

/* ---- talking to it ---------------------------------------------------------------------- */

struct visit {
    struct machine *machine;
    const struct ctx *ctx;
    struct facts facts;
    struct program program;
    char mark[MARK_SIZE];
    char said[RELAY_LINE_MAX];
};

static struct chan *run_script(struct visit *v, struct str script, struct err *e)
{
    struct buf text own_buf = {0};

    buf_init(&text, 4 * (size_t)SCRIPT_MAX);
    const struct shell_facts shell = facts_of_shell(&v->facts);
    command_wrap(&shell, script, &text);
    if (text.cut) {
        (void)err_set(e, ERR_BUG, "the agent's script is too long");
        return NULL;
    }
    return relay_open(v->machine, buf_str(&text), v->mark, e);
}

/* Why a script ended without its line. */
static int fail_ended(struct visit *v, struct chan *c, const struct chan_news *news, struct err *e)
{
    char complaint[RELAY_LINE_MAX];

    (void)v;
    if (news->why.kind != ERR_NONE) {
        *e = news->why;
        return -1;
    }
    relay_complained(c, complaint);
    if (news->exit_code == 126) {
        return err_set(e, ERR_UNSUPPORTED,
                       "the host does not run programs of the user's cache folder (is it mounted "
                       "noexec?): %s",
                       complaint);
    }
    const char *said = complaint[0] != '\0' ? complaint : "the host's shell said nothing";
    if (news->exit_signal[0] != '\0') {
        return err_set(e, ERR_SYSTEM, "%s (ended by signal %s)", said, news->exit_signal);
    }
    if (!news->has_exit) {
        return err_set(e, ERR_SYSTEM, "%s (the server did not tell how it ended)", said);
    }
    return err_set(e, ERR_SYSTEM, "%s (exit code %d)", said, news->exit_code);
}

/* Until the marked line has come; bytes go to stdin meanwhile. */
static int await_line(struct visit *v, struct chan *c, struct str bytes, struct err *e)
{
    bool has_bytes = bytes.len > 0;

    for (;;) {
        struct chan_news news;

        chan_take(c, NULL, &news);
        if (relay_said(c, v->said)) {
            return 0;
        }
        if (news.state == CHAN_ENDED) {
            return fail_ended(v, c, &news, e);
        }
        bytes = str_skip(bytes, chan_put(c, bytes));
        if (has_bytes && bytes.len == 0) {
            chan_put_end(c);
            has_bytes = false;
        }
        if (chan_wait(c, v->ctx, NULL, 0, e) < 0) {
            return -1;
        }
    }
}

/* 1: *out is a relay; 0: the agent is not there. */
static int try_start(struct visit *v, bool is_sent, struct chan **out, struct err *e)
{
    struct buf script own_buf = {0};

    buf_init(&script, SCRIPT_MAX);
    add_start(&script, &v->program, v->mark, is_sent);
    struct chan *c = run_script(v, buf_str(&script), e);
    if (c == NULL) {
        return -1;
    }
    int rc = await_line(v, c, STR_EMPTY, e);
    if (rc == 0 && v->said[0] == '\0') {
        *out = c;
        return 1;
    }
    chan_close(c);
    return rc < 0 ? err_wrap(e, "start the agent") : 0;
}

static int send_program(struct visit *v, struct err *e)
{
    struct buf script own_buf = {0};

    buf_init(&script, SCRIPT_MAX);
    add_upload(&script, &v->program, v->mark);
    struct chan *c CLEANUP(chan_close_p) = run_script(v, buf_str(&script), e);
    if (c == NULL) {
        return -1;
    }
    return await_line(v, c, v->program.bytes, e) < 0 ? err_wrap(e, "put the agent there") : 0;
}

/* The agent that serves there may be an older one that another anybox left. */
struct probe {
    struct agent_box box;
    struct chan *relay;
};

static int probe_connect(struct box *b, const struct ctx *ctx, struct err *e)
{
    (void)ctx;
    return relay_connect(CONTAINER_OF(b, struct probe, box.box)->relay, e);
}

static int check_agent(struct visit *v, struct chan *relay, uint32_t *version, struct err *e)
{
    struct probe p = {.box = {.connect = probe_connect}, .relay = relay};
    struct agent_usage usage;

    atomic_init(&p.box.box.refs, 1);
    if (agent_usage(&p.box.box, v->ctx, &usage, e) < 0) {
        return -1;
    }
    *version = usage.version;
    return 0;
}

struct chan *hostagent_start(struct machine *m, const struct ctx *ctx, uint32_t *version,
                             struct err *e)
{
    struct visit v = {.machine = m, .ctx = ctx};
    struct chan *relay = NULL;

    if (ssh_facts(m, ctx, &v.facts, e) < 0) {
        return NULL;
    }
    id_hex(v.mark, (MARK_SIZE - 1) / 2);
    if (load_program(m, ctx, v.facts.system, &v.program, e) < 0) {
        return NULL;
    }
    int rc = try_start(&v, false, &relay, e);
    if (rc == 0) {
        rc = send_program(&v, e) < 0 ? -1 : try_start(&v, true, &relay, e);
    }
    if (rc == 0) {
        (void)err_set(e, ERR_SYSTEM, "the agent was sent, and is not what was sent");
    }
    if (rc > 0 && check_agent(&v, relay, version, e) < 0) {
        chan_close(relay);
        return NULL;
    }
    return rc > 0 ? relay : NULL;
}
