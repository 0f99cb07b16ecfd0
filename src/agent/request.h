/*
 * request.h - what a client asks, decoded and checked.
 *
 * Pure: no system calls, so that it is fuzzed as it is. What cannot be read is
 * ERR_PROTOCOL (the conversation is over); what can be read but cannot be done is
 * ERR_INVALID (the next request may be fine).
 */
#ifndef AGENT_REQUEST_H
#define AGENT_REQUEST_H

#include "agent/wire.h"

/* The fields of all client frames; which ones are set depends on `type`. Views into
 * the frame, arrays in the arena. None of the strings holds a NUL but `bytes`, `digest` and `excludes`. */
struct request {
    uint8_t type;
    uint16_t port;     /* TCP; not 0 */
    uint32_t unpacked; /* TREE_GIVE, whose block is in .bytes */
    struct str id;     /* EXEC, ATTACH, KILL, STATE */
    struct str path;   /* STAT to REMOVE, TREE_LIST to TREE_PRUNE, TREE_PART_*: its root; UNIX */
    struct str bytes;  /* INPUT, CHUNK, TREE_SLICE */
    struct str name;   /* TREE_PART_*: the file below the root */
    struct str temp;   /* TREE_PART_PUT */

    const struct str *argv, *env; /* EXEC */
    size_t n_argv, n_env;
    struct str cwd;
    bool with_input, keep;
    uint64_t timeout_ms;
    uint32_t grace_ms; /* EXEC, KILL */

    uint64_t from_out, from_err; /* ATTACH */

    bool follow, recursive; /* STAT; LIST */
    uint64_t from, max;     /* READ, TREE_WANT; LIST has max only, TREE_SLICE from only */
    uint32_t mode;          /* WRITE */
    uint8_t flags;

    uint64_t lifetime_ms, idle_ms; /* EXTEND */

    struct str digest;          /* TREE_LIST */
    const struct str *excludes; /* these may hold anything */
    size_t n_excludes;
};

int request_parse(struct frame frame, struct arena *a, struct request *out, struct err *e)
    MUST_CHECK;

/* Asked of a worker that becomes a connection (TCP, UNIX). */
bool request_is_dial(uint8_t type);
/* Asked of a file worker (STAT, LIST, READ, WRITE, MKDIR, REMOVE, TREE_*). */
bool request_is_file(uint8_t type);

#endif
