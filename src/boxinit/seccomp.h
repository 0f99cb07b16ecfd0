/* seccomp.h - the system calls that code in a box may make. */
#ifndef BOXINIT_SECCOMP_H
#define BOXINIT_SECCOMP_H

#include "base/err.h"

/* Needs no_new_privs. Holds for this process and all it starts, for ever. */
int seccomp_install(struct err *e) MUST_CHECK;
/* A part of it, for some kernels: files take no new extended attributes. */
int seccomp_refuse_attributes(struct err *e) MUST_CHECK;

#endif
