/*
 * place.h - the folder where an agent that has no box of its own is met.
 *
 * Below the folder that was named there is one for each machine, since a home folder may be
 * shared by several. It is ours alone (0700) and holds the socket and a lock: whoever has the
 * lock serves, so there is one agent at most, and what an earlier one left is nobody's.
 */
#ifndef BOXINIT_PLACE_H
#define BOXINIT_PLACE_H

#include <stdbool.h>

#include "base/err.h"

/* An SSH host has a folder PLACE_OF<hash> for each version of the agent, named by the first
 * digits of its hash, beside the program PROGRAM_OF<hash>. */

/* The folder, made where it is missing. ERR_DENIED when others could be in it. */
int place_open(const char *dir, struct err *e) MUST_CHECK;
/* The lock, held as long as the descriptor is open. ERR_EXISTS: another one serves. */
int place_lock(int place, struct err *e) MUST_CHECK;
/* With the lock: a listening socket that is there when it can be used, and not before. */
int place_listen(int place, struct err *e) MUST_CHECK;
/* Nobody finds the socket any more. False: somebody has come in the meantime, and it can be
 * found again. */
bool place_leave(int place, int listener);
/* `dir` is one of several versions': those that nobody serves or has used lately are removed
 * with their programs. */
void place_sweep(const char *dir);
/* A connection to whoever serves; ERR_NOT_FOUND: nobody does. */
int place_connect(int place, struct err *e) MUST_CHECK;

#endif
