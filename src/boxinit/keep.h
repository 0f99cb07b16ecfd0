/*
 * keep.h - the output and the end of a command, on disk, for when nobody listens any more.
 *
 * A command that was started with EXEC_KEEP and whose client detaches or goes away gets a
 * folder <kept>/<id>/ as core/task.h describes it: started, job, stdout, stderr,
 * status when it has ended, and keeper, which is us: as long as we live that word is still to
 * come. So who asks for it later, after any restart, finds all that it printed. While a
 * client is attached, nothing is written as long as the spools hold the whole output; then
 * both streams go to disk, too, so that a client that dies or detaches costs none of it. A
 * command whose end was delivered leaves nothing.
 *
 * The disk is the only bound. What it does not take stays in the spool, and is written when there is
 * room again; what the spool had to drop by then is counted in the file "gaps", and a line in
 * the stream's own file tells how much is missing there. The places of status and gaps are taken at
 * the start, and a box has a small reserve for new folders: the end of a command is known, however
 * full its disk is. It has it as long as there is a process that could fill the disk, and not
 * while it rests: it is memory. While a client is attached, a part of the disk stays free (KEPT_LEAVES).
 *
 * The agent writes with its own rights into a folder of its own; what fails costs the record
 * and never the command.
 */
#ifndef BOXINIT_KEEP_H
#define BOXINIT_KEEP_H

#include "boxinit/server.h"

#define KEPT_LEAVES  4   /* one part of so many of the disk */
#define KEPT_FOLDERS 200 /* of commands that have ended */

/* Before a process is born in the box. */
void keep_reserve(struct server *s);
/* When there is none any more. */
void keep_release(struct server *s);

/* Bytes are about to be added to the spool, which may lose others for them. */
void keep_before(struct server *s, struct task *t, int stream, size_t n);
/* They were. */
void keep_after(struct task *t, int stream);
/* In each turn: a command that nobody listens to is written down. */
void keep_turn(struct server *s, struct task *t);
/* It has ended. */
void keep_finish(struct server *s, struct task *t);
/* Nothing is kept any more; its folder goes when its end was delivered. Again, it does nothing. */
void keep_free(struct server *s, struct task *t);

#endif
