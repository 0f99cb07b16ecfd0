/* daemon_own.h - what daemon.c and daemon_start.c share. */
#ifndef WATCH_DAEMON_OWN_H
#define WATCH_DAEMON_OWN_H

#include "json/js.h"
#include "watch/daemon.h"

#define DAEMON_LOCK "watchdog.lock"

/* The file that the watchdog of this folder holds a lock on; its descriptor. */
int daemon_lock_file(struct str state_dir, struct err *e) MUST_CHECK;
int64_t daemon_lock_pid(int fd); /* 0: not known */

#endif
