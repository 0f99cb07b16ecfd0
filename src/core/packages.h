/*
 * packages.h - Python packages of a box: what is there, and how more is installed.
 *
 * Theory of operation. packages/packages.py travels with us like the driver of the interpreter
 * (python.h) and runs under the same python3, so that both mean the same places: the interpreter's own
 * where it can be written to and no package manager owns it, else the user's, else a folder of ours
 * that the interpreter has on its path. It installs with uv, else pip, else a pip that came with Python
 * or that the index has, else by packages/wheels.py. The one that installs keeps a record in the box,
 * locked while it lives: so whoever asks knows what is under way, and what came of it.
 *
 * An install is a command like any other (tools/exec.h): it is handed over as a task when it takes
 * long. The index it reaches straight from the box where that has a network, else, and where that fails,
 * by a relay (index_relay.h).
 */
#ifndef CORE_PACKAGES_H
#define CORE_PACKAGES_H

#include <jansson.h>

#include "base/ctx.h"
#include "base/err.h"
#include "base/str.h"

struct box;

struct packages_order {
    const struct str *names; /* as package_check() has them */
    size_t n;
    struct str task;  /* its id, for the record */
    struct str index; /* that the box may reach by itself; or empty */
    struct str relay; /* index_relay_url(), or empty */
};

/* The shell text that installs, and what it reads from standard input. In the arena. */
struct str packages_command(struct arena *a, const struct packages_order *order);
struct str packages_input(struct arena *a, const struct packages_order *order);

/* What the box knows about them: {"packages": {"<as given>": {"installed", "version"?, "replaced"?, "installing"?, "task_id"?,
 * "elapsed_seconds"?, "last_error"?}}, "where": "own" | "user" | "folder", "folder"}. A new reference.
 * ERR_NOT_FOUND: no python3. */
int packages_look(struct box *b, const struct ctx *ctx, const struct str *names, size_t n,
                  json_t **out, struct err *e) MUST_CHECK;

/* ERR_NOT_FOUND, with the sentence about a box that has no python3. */
int packages_no_python(struct err *e);

#endif
