/*
 * banned.h - functions that have a better way here become compile errors.
 * Included by the build for every file under src/ (see meson.build).
 */
#ifndef BASE_BANNED_H
#define BASE_BANNED_H

/* The system headers first: they may mention these names themselves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BANNED(name, instead) use_##instead##_instead_of_##name

#undef strcpy
#define strcpy(...) BANNED(strcpy, buf)
#undef strcat
#define strcat(...) BANNED(strcat, buf)
#undef strncpy
#define strncpy(...) BANNED(strncpy, arena_str)
#undef sprintf
#define sprintf(...) BANNED(sprintf, buf_addf)
#undef vsprintf
#define vsprintf(...) BANNED(vsprintf, buf_addf)
#undef strtok
#define strtok(...) BANNED(strtok, str_cut)
#undef atoi
#define atoi(...) BANNED(atoi, str_to_i64)
#undef atol
#define atol(...) BANNED(atol, str_to_i64)
#undef system
#define system(...) BANNED(system, proc_spawn)
#undef popen
#define popen(...) BANNED(popen, proc_spawn)
#undef gets
#define gets(...) BANNED(gets, fd_read)

#endif
