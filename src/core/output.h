/*
 * output.h - what a command printed, kept for the answer and, when it does not fit
 * there, whole on disk.
 *
 * The answer gets the head and the tail of each stream with a marker between them
 * that says how much is missing and how to read it. The whole of a stream that was
 * cut (up to OUTPUT_FILE_MAX) is in <state>/outputs/<box id>/<output id>, 0600, for
 * the last OUTPUT_FILES commands of the box, and is read as "output:<id>". Nothing
 * is written while everything fits into the answer.
 */
#ifndef CORE_OUTPUT_H
#define CORE_OUTPUT_H

#include "base/buf.h"
#include "base/ctx.h"
#include "base/err.h"
#include "base/str.h"
#include "provider/provider.h"

#define OUTPUT_FILE_MAX (16ll << 20)
#define OUTPUT_FILES    20

struct output;

/* max_chars of each stream in the answer (characters, not bytes). */
struct output *output_new(struct str state_dir, struct str box_id, int64_t max_chars);
void output_free(struct output *o);

/* A sink that feeds it. */
struct sink output_sink(struct output *o);
/* Appends the stream's text: plain (see base/plain.h), head and tail with the marker when
 * it was cut. *cut tells. */
void output_text(struct output *o, enum stream which, struct buf *to, bool *cut);
/* The last line so far of either stream, plain, for progress. */
void output_last_line(const struct output *o, struct buf *to);
uint64_t output_lines(const struct output *o); /* newlines seen in both streams */
bool output_is_kept(const struct output *o);   /* some of it is on disk; false for NULL */

/* Reads "<id>" of an "output:<id>" path. ERR_NOT_FOUND says that it is no longer kept. */
int output_read(struct str state_dir, struct str id, int64_t from, int64_t max, struct arena *arena,
                struct str *bytes, int64_t *size, struct err *e) MUST_CHECK;
/* Which box it is of: whether the caller may read it is the caller's question. */
int output_box(struct str state_dir, struct str id, struct arena *arena, struct str *box_id,
               struct err *e) MUST_CHECK;
/* The ERR_NOT_FOUND of both, for one that is somebody else's. */
int output_unknown(struct str id, struct err *e);
/* The box is gone: so are its outputs. */
void output_drop(struct str state_dir, struct str box_id);

#endif
