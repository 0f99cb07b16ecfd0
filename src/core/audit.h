/*
 * audit.h - who did what: one line of JSON for each tool call, in a file that is only ever
 * appended to.
 *
 * Each line carries the SHA-256 of the line before it, over restarts and over all processes
 * that write the same file, so that a line that was changed, removed or put in breaks the
 * chain. <file>.head remembers how far the file went and the last line's hash: lines that
 * are missing at the end are noticed by it. Whoever can write both can still forge all of it;
 * a copy of the last hash elsewhere is the remedy, or a file that the system lets nobody
 * rewrite (chattr +a works).
 *
 * A line tells no contents: arguments are there as a digest with a key (token_digest()),
 * and the text of commands only where the operator wants it.
 */
#ifndef CORE_AUDIT_H
#define CORE_AUDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct audit;

struct audit_entry {
    struct str who;       /* the owner; empty: the user */
    struct str transport; /* "stdio", "http" */
    struct str request;   /* the client's id as JSON text; empty: none */
    struct str call;      /* our own id, the same as in the log */
    struct str tool;
    struct str box;     /* empty: none */
    struct str digest;  /* of the arguments, in hex */
    struct str command; /* empty: is not told */
    struct str outcome; /* "ok", or the error's code */
    int64_t ms;
};

/* Opens nothing yet. */
struct audit *audit_new(struct str path);
void audit_free(struct audit *a);

/* May a call begin? No when its line could not be written: what is not recorded does not
 * happen. */
int audit_ready(struct audit *a, struct err *e) MUST_CHECK;
/* Appends the line. A failure is also kept: audit_ready() then fails until a line that
 * tells how many were lost could be written. Any thread. */
int audit_write(struct audit *a, const struct audit_entry *entry, struct err *e) MUST_CHECK;

struct audit_verdict {
    int64_t lines;     /* good ones */
    int64_t broken_at; /* the first line that does not fit, from 1 on; 0: none */
    int64_t torn;      /* lines among them that were cut short by a crash; the chain holds */
    bool continues;    /* it begins with the hash of a line of an earlier file */
    char first[65];    /* what the first line carries */
    char last[65];     /* hash of the last line */
    char reason[160];  /* why it does not fit */
};

/* Reads a whole file. Fails only when it cannot be read: what is wrong with it is in *out. */
int audit_verify(struct str path, struct audit_verdict *out, struct err *e) MUST_CHECK;

#endif
