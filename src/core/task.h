/*
 * task.h - jobs that outlive the call that started them, on any box.
 *
 * Theory of operation. A box needs nothing but a POSIX shell: three scripts (task_*.sh, built
 * into us) are each run by one box_exec(). What they keep lies in the box, not with us, so any
 * anybox that reaches the box knows as much as the one that started the job.
 *
 *   <log folder>/<name>.log            the log, as remote-sandbox-mcp writes it: three lines that begin
 *                                      with "== ", what the job prints, "EXIT_CODE=<n>"
 *   <log folder>/.anybox/<name>/       0700, of the latest run of that name:
 *     started   run id, where the run begins in the log, time, how; log; cwd; command's head
 *     script    the command        run   the supervisor
 *     pid, job  of supervisor and job: run id, pid, when that process began
 *     status    run id, how it ended, exit code, signal, time; made by rename
 *     cancelled the run id, when somebody asked for the end
 *     keeper    of a command that its call handed over: the agent, who has yet to write the status
 *     gaps      blank, or how many bytes of output the disk did not take ("some": not known)
 *   ~/.anybox/tasks/<name>             the folder above, for those who know only the name
 *
 * task_start.sh refuses before it touches anything when the working folder is missing or a
 * task of that name runs. Then it holds a lock (a folder with its pid in it), writes the
 * files and starts the supervisor: in a tmux session of that name on a host that has tmux, in a
 * session of its own on other hosts; in a box whose agent keeps commands (provider's tasks) it
 * becomes the supervisor itself, so that the agent counts it as use of the box. The
 * supervisor runs the command as a child in the foreground, waits for that one process, and
 * writes EXIT_CODE and then the status, whose place on the disk was taken at the start: a full disk costs
 * output, which is told, and never the result.
 *
 * How a task is (task_probe.sh): a status of this run is the truth. Without one it runs while
 * its supervisor, its job or its keeper lives, told apart from others by pid and time of birth. With
 * none of them, the last whole EXIT_CODE line of this run decides, as for jobs that others started
 * in tmux, and else it was interrupted: its supervisor was killed, or was told to end (HUP,
 * TERM: the session or the machine ended) and the job failed with it. A run id (the task's id)
 * is in every file: what an earlier run of the same name left is never taken for this one's.
 *
 * A start whose connection breaks is never tried again: we look for its run id instead.
 * task_cancel.sh ends the job's tree, its groups and sessions and whatever has the run id in
 * its environment, TERM first, KILL after the grace; the supervisor stays to tell the end.
 */
#ifndef CORE_TASK_H
#define CORE_TASK_H

#include "base/ctx.h"
#include "base/err.h"
#include "base/str.h"
#include "provider/provider.h"

#define TASK_NAME_MAX   100          /* bytes */
#define TASK_RUN_SIZE   17           /* of a run id with its terminator */
#define TASK_TEXT_MAX   (256u << 10) /* bytes of a log in one answer */
#define TASK_LOOKS_MAX  256          /* tasks in one look */
#define TASK_WAIT_S_MAX 3600
#define TASK_CHECK_MAX  20000 /* bytes of a checkpoint */

/* ---- names and paths (pure) ------------------------------------------------------ */

/* The name that is used: letters, digits, '_' and '-', as tmux takes it and a file can have
 * it; other bytes become '_', and a name beyond ASCII gets some digits so that two stay two.
 * Empty: made up. ERR_INVALID: too long. */
int task_name(struct arena *a, struct str given, struct str *out, struct err *e) MUST_CHECK;
/* Where the log goes, for task_order.log: as given (absolute, "~/...", relative to cwd), or
 * .codex_logs/<name>.log. A relative log that begins with a relative cwd loses that. */
struct str task_log(struct arena *a, struct str cwd, struct str log, struct str name);
/* At most 120 bytes of the command on one line, harmless. */
struct str task_head(struct arena *a, struct str command);

/* ---- starting -------------------------------------------------------------------- */

enum task_phase {
    TASK_UNKNOWN,  /* nothing of it is there */
    TASK_STARTING, /* of a row: nobody has heard of it yet */
    TASK_RUNNING,
    TASK_ORPHAN, /* runs, but its supervisor is gone: how it ends nobody will know */
    TASK_EXITED,
    TASK_KILLED,      /* by a signal */
    TASK_INTERRUPTED, /* it ended before its end */
    TASK_CANCELLED,
    TASK_REPLACED, /* a later run has the name */
    TASK_STATES,
};
const char *task_phase_name(enum task_phase state);
static inline bool task_goes_on(enum task_phase state)
{
    return state == TASK_STARTING || state == TASK_RUNNING || state == TASK_ORPHAN;
}

struct task_end {
    enum task_phase state;
    int code, signal; /* code -1: not known */
    int64_t ended_s;
};

struct task_order {
    struct str name, command, cwd, log; /* name and log as made above */
    /* Empty, or: start it only if the latest run of that name is this one and was interrupted
     * ("-": if there was none of ours and it looks interrupted). Decided under the lock of the
     * name, on the machine where it runs: of all who want to resume it one does. */
    struct str after;
};

struct task_begun {
    struct str run, log, dir; /* log is absolute */
    struct str how;           /* "tmux", "plain" (a session of its own), "box" */
    struct str note;          /* why not in tmux, or empty */
    struct str was_run;       /* the run that had the name before and has ended, or empty */
    struct task_end was;
    bool recovered; /* the connection broke, and the task was found to run */
};

/* ERR_NOT_FOUND: the working folder; ERR_EXISTS: one of that name runs, or is not as `after` says; ERR_DENIED: the log's
 * folder. Nothing runs then. `run` is a fresh id. */
int task_start(struct box *b, const struct ctx *ctx, const struct task_order *order, struct str run,
               struct task_begun *out, struct err *e) MUST_CHECK;

/* ---- looking --------------------------------------------------------------------- */

/* Which task: by what is known of it; the rest is empty. */
struct task_want {
    struct str dir, name, log, run;
    int64_t from; /* first byte of the log that is wanted; -1: the end of it */
    int64_t max;  /* bytes */
    /* Its checkpoint, by its own word: a command's output, else a file; both may be empty. The
     * folder is the command's, and that of a relative file. */
    struct str check_cwd, check_file, check_command;
};

struct task_wait {
    int64_t seconds;  /* 0: not */
    struct str until; /* a line of the new text that matches this (POSIX, extended) is enough */
    bool scan;        /* tell also of whatever else the box knows */
    int64_t check_s;  /* that a checkpoint's command may take; all of them run side by side */
};

enum task_check {
    CHECK_NONE,    /* there is none */
    CHECK_READ,    /* task_seen.check is it */
    CHECK_SLOW,    /* the command did not end in time */
    CHECK_MISSING, /* the file is not there, is none, or must not be read */
    CHECK_NO_CWD,  /* the command's folder is not there */
    CHECK_NO_ROOM, /* nothing could be written there */
};

struct task_seen {
    struct str wanted; /* the run that was asked for; with TASK_REPLACED .run is another */
    struct str run, name, how, log, dir, cwd, command;
    struct task_end end;
    int64_t began_s, now_s;  /* by the box's clock; 0: not known */
    int64_t size, touched_s; /* of the log */
    int64_t gaps;            /* bytes that are missing in it; -1: some, nobody knows how many */
    bool disk_is_full;       /* it runs, and its disk takes no more of the log */
    struct str match;        /* the line that was waited for */
    enum task_check check_is;
    struct str check;    /* as it is there, at most TASK_CHECK_MAX bytes */
    int64_t first, last; /* offsets of text in the log */
    struct str text;     /* as it is there */
    /* Of a command that its call handed over (how is "exec"), whose log is its stdout: */
    struct str errors_log, errors; /* the path of stderr and its end */
    int64_t errors_size;
};

typedef int task_seen_fn(void *arg, const struct task_seen *seen, struct err *e);
/* One round trip for all of them, in their order. Only the first is waited for. */
int task_look(struct box *b, const struct ctx *ctx, const struct task_want *wants, size_t n,
              const struct task_wait *wait, task_seen_fn *each, void *arg, struct err *e)
    MUST_CHECK;
/* task_parse.c: what the script said. `mark` ends each text. ERR_PROTOCOL. */
int task_parse(struct str said, struct str mark, task_seen_fn *each, void *arg, struct err *e)
    MUST_CHECK;
/* "run state code signal time" as a status file has it. */
bool task_parse_end(struct str line, struct str *run, struct task_end *out);

/* ---- ending ---------------------------------------------------------------------- */

enum task_cut { /* what a cancel came to */
                TASK_CUT,
                TASK_HAD_ENDED,
                TASK_CUT_UNKNOWN,  /* there is no such task */
                TASK_CUT_REPLACED, /* that run is over, and another has its name */
                TASK_CUT_LEFT,     /* something of it does not end even when killed */
};
int task_cancel(struct box *b, const struct ctx *ctx, const struct task_want *want, int64_t grace_s,
                enum task_cut *out, struct err *e) MUST_CHECK;

#endif
