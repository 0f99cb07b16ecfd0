/*
 * command.h - the text that a shell in a place without an agent is given to run a command.
 *
 * sshd hands one text to the user's login shell, whichever that is. Everything that comes
 * from outside is quoted; a shell that does not read sh's quoting gets it encoded. The text
 * starts `timeout` where the host has it, so that the command's time is kept there too, and
 * then bash (or sh), which first prints a marker to both streams: what came before it is
 * the login shell's noise and no output of the command.
 */
#ifndef PROVIDER_COMMAND_H
#define PROVIDER_COMMAND_H

#include "base/buf.h"
#include "provider/provider.h"

#define MARK_SIZE        33
#define COMMAND_LINE_MAX (120u << 10) /* execve: one string of at most 128 KiB */

/* What is known of the shells there. */
struct shell_facts {
    bool known;
    bool has_bash;       /* else commands run in sh */
    bool has_timeout;    /* "timeout -k" works */
    bool is_plain_shell; /* the one that reads the text knows what is quoted for sh */
};

/* ERR_INVALID: something of it holds a NUL, which no text for a shell can. */
int command_check(const struct exec_req *req, struct err *e) MUST_CHECK;
/* The whole text; for a host whose facts are not known it is longer. ERR_LIMIT when it is too long, ERR_INVALID for a NUL or a bad variable. */
int command_build(const struct shell_facts *facts, const struct exec_req *req, const char *mark,
                  struct buf *out, struct err *e) MUST_CHECK;
/* Just this script of ours, in sh. */
void command_wrap(const struct shell_facts *facts, struct str script, struct buf *out);
/* The text that ends the session of a command: TERM, KILL after the grace. `group` is what
 * its marker told. */
void command_build_kill(long group, int grace_ms, struct buf *out);
/* The text that tells a command which is kept that it is left, or that removes what was kept. */
void command_build_kept(struct str id, bool left, struct buf *out);

#endif
