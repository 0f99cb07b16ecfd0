/*
 * service.h - the watchdog as a service of the user: a systemd unit, or on macOS a launchd
 * agent. The texts are pure functions; installing writes the file and asks the manager.
 */
#ifndef WATCH_SERVICE_H
#define WATCH_SERVICE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/ctx.h"
#include "base/err.h"

#define SERVICE_UNIT  "anybox-watchdog.service"
#define SERVICE_LABEL "com.anybox.watchdog"

/* How the service is to be started. */
struct service_spec {
    struct str program;   /* absolute */
    struct str state_dir; /* absolute: the one it watches */
    struct str config;    /* --config, or empty */
    struct str path;      /* PATH for event commands */
};

struct config;
/* This program, with this configuration. */
int service_spec_of(const struct config *c, struct arena *a, struct service_spec *out,
                    struct err *e) MUST_CHECK;

/* ERR_INVALID: a path with a newline or the like, which the format cannot hold. */
int service_unit_text(const struct service_spec *s, struct buf *out, struct err *e) MUST_CHECK;
int service_plist_text(const struct service_spec *s, struct buf *out, struct err *e) MUST_CHECK;

struct service_state {
    const char *manager; /* "systemd" or "launchd" */
    struct str file;     /* where the unit or plist lies */
    bool installed, running;
    struct str problem; /* why the manager cannot be asked; or empty */
};

int service_look(const struct ctx *ctx, struct service_state *out, struct err *e) MUST_CHECK;
/* Writes the file and, with start_now, starts it. ERR_UNSUPPORTED where there is no manager for
 * users, with what to do instead. */
int service_install(const struct ctx *ctx, const struct service_spec *s, bool start_now,
                    struct service_state *out, struct err *e) MUST_CHECK;
/* *removed: it was there. */
int service_remove(const struct ctx *ctx, struct service_state *out, bool *removed, struct err *e)
    MUST_CHECK;

#endif
