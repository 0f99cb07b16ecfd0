/*
 * cli.h - what the commands of the program share: the table's row, options, exit
 * statuses, and a session with the boxes.
 *
 * Commands are for people: they write to stdout and stderr themselves and return an
 * exit status. Text that came out of a box (names, reasons) goes through
 * cli_plain(); only the output of `run` and `exec` is passed on as it is.
 */
#ifndef CLI_H
#define CLI_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/ctx.h"
#include "base/err.h"
#include "base/str.h"
#include "config/config.h"
#include "core/boxes.h"
#include "core/services.h"
#include "provider/provider.h"

#define PROGRAM "anybox"

/* Besides EXIT_SUCCESS and EXIT_FAILURE; those from 124 on are what timeout(1), env(1)
 * and shells use. */
enum {
    EXIT_USAGE = 2,
    EXIT_TIMED_OUT = 124,
    EXIT_OURS = 125, /* run and exec: anybox failed, not the command */
    EXIT_CANNOT_RUN = 126,
    EXIT_NO_COMMAND = 127,
    EXIT_SIGNAL = 128, /* plus the signal */
};

struct command;

struct cli {
    struct config_flags flags; /* the global options so far */
    const struct command *command;
};

struct command {
    const char *name;
    const char *usage; /* what follows the name: "BOX CMD..." */
    const char *brief; /* one line for `anybox help` */
    const char *help;  /* lines for `anybox help NAME`, each with its newline */
    /* argv[0] is the command's name. Returns the exit status. */
    int (*run)(struct cli *cli, int argc, char **argv);
};

/* ---- options ------------------------------------------------------------ */

#define CLI_ENV_MAX 256

struct cli_env {
    struct str items[CLI_ENV_MAX]; /* "KEY=value" */
    size_t n;
};

enum opt_type {
    OPT_FLAG,    /* bool */
    OPT_TEXT,    /* struct str */
    OPT_SIZE,    /* int64_t bytes: "512m" */
    OPT_INTEGER, /* int64_t, 1 to 2147483647 */
    OPT_SECONDS, /* int64_t milliseconds, from seconds with a fraction */
    OPT_CPUS,    /* int64_t thousandths of a core, from "1.5" */
    OPT_ENV,     /* struct cli_env, one more "KEY=value" */
    OPT_WORDS,   /* struct cli_env, one more of anything */
};

struct opt {
    const char *name; /* with its dashes: "--memory" */
    enum opt_type type;
    void *to;
};

/*
 * Reads options from argv[1] on, the global ones too, up to the first word that is
 * none or behind "--". Returns the index of the first operand (argc when there is
 * none); -1 when the command is over: help was asked for, or a sentence about what is
 * wrong is on stderr; *status is the exit status then.
 */
int cli_options(struct cli *cli, const struct opt *opts, size_t n_opts, int argc, char **argv,
                int *status) MUST_CHECK;

/* The words as views, in the arena. */
const struct str *cli_words(struct arena *a, int n, char **words);

/* ---- saying things ------------------------------------------------------ */

/* "anybox run: <message>" on stderr. Returns `status`. */
int cli_fail(const struct cli *cli, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* The same for a wrong use, with a line that says where the help is. EXIT_USAGE. */
int cli_misused(const struct cli *cli, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* All of it to stdout. Returns EXIT_SUCCESS, or EXIT_FAILURE when nobody takes it. */
int cli_print(const struct cli *cli, const struct buf *text);
void cli_help(const struct command *c, struct buf *to);

/* One line of text that a box or another user may have chosen, harmless for a terminal. */
void cli_plain(struct buf *to, struct str s);
size_t cli_width(struct str s); /* columns of plain text */
/* `s` and spaces up to `width` columns. */
void cli_cell(struct buf *to, struct str s, size_t width);
/* "47s", "12m", "3h", "2d" */
struct str cli_span(struct arena *a, int64_t seconds);
/* "512 MiB", "1.5 GiB" */
struct str cli_size(struct arena *a, int64_t bytes);
bool cli_colour(void); /* stdout is a terminal that wants it */

/* ---- a session with the boxes ------------------------------------------- */

/*
 * SIGINT, SIGTERM and SIGHUP are taken by a thread: the first one fires `cancel`, so
 * that what runs in a box is killed and cleaned up; the second one ends the program.
 */
struct cli_signals {
    struct cancel cancel, done;
    atomic_int signo; /* the first one, 0: none yet */
    pthread_t thread;
    bool started;
};

int cli_signals_init(struct cli_signals *s, struct err *e) MUST_CHECK;
void cli_signals_fini(struct cli_signals *s);

struct session {
    struct services services;
    struct scope scope;
    struct arena arena;
    struct cli_signals signals;
    struct ctx ctx; /* with the arena, cancelled by signals, no deadline */
    bool scoped;
};

/* `owner` of the boxes that are meant: "" the user. A configuration that is wrong is an
 * error here: people can read it. */
int session_open(struct session *s, const struct cli *cli, struct str owner, struct err *e)
    MUST_CHECK;
void session_close(struct session *s); /* a zeroed one is fine */
#define own_session CLEANUP(session_close)

/* An owner by what a person typed: "user" is you. */
struct str cli_owner(struct str typed);
/* A box by what a person typed: id, the first 12 digits of one, or name. */
struct box_want cli_want(struct str typed);
struct box *cli_find(struct session *s, struct str typed, struct err *e) MUST_CHECK;

/* A ctx for cleaning up: not cancelled by signals, ends by itself. */
struct ctx session_last_ctx(struct session *s);

/*
 * Runs a command with our stdin, stdout and stderr and returns the exit status: the
 * command's, EXIT_SIGNAL plus its signal, EXIT_TIMED_OUT, or one of ours with a sentence
 * on stderr. When stdout is closed or a signal came, the command is killed.
 */
int cli_exec(const struct cli *cli, struct session *s, struct box *box, struct exec_req *req);

/* ---- the commands ------------------------------------------------------- */

int cmd_stdio(struct cli *cli, int argc, char **argv);
int cmd_serve(struct cli *cli, int argc, char **argv);
/* --mode http --port N, without a command. */
int cmd_serve_mode(struct cli *cli, struct str port);
int cmd_run(struct cli *cli, int argc, char **argv);
int cmd_ls(struct cli *cli, int argc, char **argv);
int cmd_exec(struct cli *cli, int argc, char **argv);
int cmd_pause(struct cli *cli, int argc, char **argv);
int cmd_resume(struct cli *cli, int argc, char **argv);
int cmd_rm(struct cli *cli, int argc, char **argv);
int cmd_cp(struct cli *cli, int argc, char **argv);
int cmd_logs(struct cli *cli, int argc, char **argv);
int cmd_attach(struct cli *cli, int argc, char **argv);
int cmd_sync(struct cli *cli, int argc, char **argv);
int cmd_doctor(struct cli *cli, int argc, char **argv);
int cmd_forward(struct cli *cli, int argc, char **argv);
int cmd_image(struct cli *cli, int argc, char **argv);
int cmd_audit(struct cli *cli, int argc, char **argv);
int cmd_key(struct cli *cli, int argc, char **argv);
int cmd_demo(struct cli *cli, int argc, char **argv);
int cmd_tools(struct cli *cli, int argc, char **argv);
int cmd_forward_worker(struct cli *cli, int argc, char **argv);
int cmd_transfer_worker(struct cli *cli, int argc, char **argv);
int cmd_watchdog(struct cli *cli, int argc, char **argv);
int cmd_config(struct cli *cli, int argc, char **argv);

/* The absolute path of this executable. */
struct str cli_self(struct arena *a);

#endif
