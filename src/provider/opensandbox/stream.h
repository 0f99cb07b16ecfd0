/*
 * stream.h - the events of a command, as execd sends them. Pure.
 *
 * They are one JSON object after another, on lines with empty lines between them, although the
 * type says text/event-stream; what real event streams have ("data:", comments) is accepted. An
 * error may come as a bare {"code", "message"} at the very end, without a line's end.
 *
 * What a program prints comes as lines without their end, an empty one as "\n". lines_take()
 * puts the ends back; the last one is kept back, for nobody can tell whether it was there: the
 * script around a command prints a line of its own at the end of each stream (a mark), and what
 * precedes that is exactly what the program printed.
 */
#ifndef PROVIDER_OPENSANDBOX_STREAM_H
#define PROVIDER_OPENSANDBOX_STREAM_H

#include "base/buf.h"
#include "base/err.h"
#include "provider/provider.h"

#define EVENT_MAX (32u << 20) /* bytes of one event */

enum event_type {
    EVENT_INIT,  /* text: the command's id */
    EVENT_OUT,   /* text: a line */
    EVENT_ERR,   /* text: a line */
    EVENT_DONE,  /* it ended with status 0 */
    EVENT_ERROR, /* it ended otherwise: value, trace */
    EVENT_LATE,  /* execd failed: value is a code, text a sentence */
    EVENT_OTHER, /* a ping and the like */
};

struct event {
    enum event_type type;
    struct str text;  /* lives for the call */
    struct str value; /* of an error */
    struct str trace;
};

/* 0: go on; WEB_ENOUGH and -1 end the reading. */
typedef int event_fn(void *arg, const struct event *event, struct err *e);

struct events {
    struct buf line;
};

void events_init(struct events *s);
void events_fini(struct events *s);
int events_take(struct events *s, struct str bytes, event_fn *each, void *arg, struct err *e)
    MUST_CHECK;
/* What is left when the stream has ended. */
int events_end(struct events *s, event_fn *each, void *arg, struct err *e) MUST_CHECK;

/* How a command ended, from an EVENT_ERROR. False: it did not start; the event says why. */
bool event_result(const struct event *event, struct exec_result *out);

/* Stands before the mark at the end of a stream: the mark alone is in the command's environment, and may
 * end one of its lines. */
#define END_SIGN '\036'

/* One stream of a command's output: lines without their ends, the last of which may have had none. The
 * end sign and the mark, which follow the last byte, tell. */
struct lines {
    struct str mark;  /* empty: none will come */
    bool owes_end;    /* the end of the last line */
    bool is_over;     /* the end's mark came */
    uint64_t n_bytes; /* that were handed on */
    uint64_t n_told;  /* lines that execd has told of, ours too */
};

/* Takes the text of an event. *out gets what is to be handed on: the end of the line before, and
 * this one. */
struct line {
    struct str pieces[2];
    struct str note; /* a whole line of ours: what stands behind the mark */
};
void lines_take(struct lines *l, struct str text, struct line *out);
/* The end that is owed, where no mark told otherwise. */
struct str lines_end(struct lines *l);

/* The way through a file that execd tells of, past the lines that it has told already. Bytes cannot be
 * counted: what is no UTF-8 comes as something else, and CR, LF and both together all end a line. */
struct told {
    uint64_t n;  /* lines that are still to be passed */
    bool was_cr; /* the byte before */
};
/* What of these bytes, the next of the file, was not told. */
struct str told_skip(struct told *t, struct str bytes);

#endif
