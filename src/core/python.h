/*
 * python.h - code for the Python interpreter of a box, which stays between calls.
 *
 * Theory of operation. A box needs python3 (3.7 or later) and nothing else: the driver travels
 * with us (core/python/, one text by scripts/embed_py.py). It brings along what the build's Python has
 * compiled it to, which any other Python leaves alone (boot.py).
 *
 *   us --- a stream ---> keeper --- a channel, two pipes ---> interpreter
 *   call.py              keep.py                              work.py, show.py
 *
 * The keeper is a daemon of the box's user that listens at a unix socket in a folder of its own
 * (~/.anybox/python, else below /tmp). It never runs anybody's code: it forks the interpreter, gives
 * it one call after the other, passes on what is printed, keeps the time, and tells how it ended even
 * when the code took its process with it. So any anybox that reaches the box uses the same interpreter,
 * and one that died loses nothing: a call whose client has gone runs on, and the next that asks for it
 * (struct python_order.collect) gets its end.
 *
 * There are two ways to the keeper. `python3 -c <driver>` by box_exec() works in every box: it starts the
 * keeper where there is none, tells where its socket is, and can pass one call on. Where the provider
 * can, calls go straight to that socket (box_unix_dial()), over a connection that is kept for the next
 * one: no process is started for them. When that fails before anything was sent, the first way is
 * taken; code that may have run is never sent again.
 *
 * An interpreter is no command that the box knows of, so code that was left running would be no use of it. For as long as that
 * runs there is a command that waits for its end: the driver, holding a connection.
 *
 * Frames are 4 bytes of length (big-endian, of what follows), a letter, and its payload. To the
 * keeper: C a call ("key=value" lines, an empty line, the code), K cancel it, or the one whose token it has,
 * H hold the connection as long as code runs.
 * From it: P where
 * the socket is, W it still runs or waits, O and E what was printed, L a letter of these two and how much
 * of it is lost, V the value's text, I an image ("type", newline, bytes), F files (their number, then
 * paths, NUL between them), N a note, D the end ("key=value" lines). Each call has a random token
 * that the interpreter must name with all that it tells: what earlier code left in the channel is about
 * no later call. What the driver prints are these frames in base64: the output of a command is text at
 * some providers, where a byte may come as another one. Nothing that comes is trusted: lengths and
 * counts are bounded here.
 */
#ifndef CORE_PYTHON_H
#define CORE_PYTHON_H

#include "base/buf.h"
#include "base/ctx.h"
#include "base/err.h"
#include "base/str.h"
#include "provider/provider.h"

#define PYTHON_IMAGES_MAX 20
#define PYTHON_FILES_MAX  100
#define PYTHON_CODE_MAX   (1 << 20)

struct pythons; /* ways to interpreters, of a process */

struct pythons *pythons_new(void);
void pythons_free(struct pythons *all); /* NULL is fine */

struct python_order {
    struct str code;
    bool reset;          /* begin with a fresh interpreter */
    bool collect;        /* no code: wait for a call that was left */
    int64_t timeout_ms;  /* then it is interrupted, and killed a little later; 0: none */
    int64_t window_ms;   /* then it is left running; 0: waits to the end */
    int64_t max_chars;   /* of the value's text */
    int64_t image_bytes; /* of all images */
    /* On a host, which several use by the same account, each has an interpreter: hex digits, or empty. */
    struct str whose;
};

/* What is heard while it runs. */
struct python_ear {
    struct sink output;
    void (*alive)(void *arg); /* every few seconds; may be NULL */
    void *arg;
};

enum python_end {
    PYTHON_ENDED,
    PYTHON_LEFT,    /* it still runs */
    PYTHON_BUSY,    /* other code runs, and this did not begin */
    PYTHON_NOTHING, /* collect: there is nothing to wait for */
};

struct python_image {
    struct str type, bytes;
};

/* Strings live in ctx->arena. */
struct python_result {
    enum python_end end;
    int code, signal; /* signal: the interpreter was ended by it; else 0 */
    bool timed_out;
    bool restarted; /* it ended with its interpreter: the next call has a fresh one */
    bool
        lost_state; /* it had a fresh one, though there was another before and nobody asked for it */
    int64_t wall_ms;
    struct str value, note;
    struct python_image images[PYTHON_IMAGES_MAX];
    size_t n_images;
    struct str files[PYTHON_FILES_MAX]; /* new and changed ones, absolute */
    size_t n_files;
    int64_t all_files; /* how many there are */
    bool more_files;   /* the work folder has more than are looked at */
    bool sent;         /* with an error: it may have run */
};

/* Code that fails is success here: see out->code. -1: ERR_NOT_FOUND (no python3 in the box),
 * ERR_UNREACHABLE (the connection was lost: see out->sent), ERR_GONE, and as box_exec(). A ctx that is
 * cancelled interrupts the code. `id` is what boxes.h knows the box by. */
int python_run(struct pythons *all, struct box *b, struct str id, const struct ctx *ctx,
               const struct python_order *order, const struct python_ear *ear,
               struct python_result *out, struct err *e) MUST_CHECK;

/* ---- python_wire.c: what the keeper says (pure) ------------------------------------ */

#define PYTHON_FRAME_MAX  (2u << 20)
#define PYTHON_RESULT_MAX (4u << 20) /* of all but what was printed */
#define PYTHON_PATH_MAX   4096

struct python_reader {
    struct arena *arena; /* of the results */
    const struct python_ear *ear;
    struct python_result *out;
    struct buf got;
    char group[4]; /* of base64, of which n_group have come */
    size_t n_group;
    size_t kept;        /* bytes of results */
    struct str socket;  /* that P told; in the arena */
    struct str problem; /* why it could not be begun; or empty */
    bool first;         /* of a fresh interpreter */
    bool heard, done;
};

void python_reader_init(struct python_reader *r, struct arena *arena, const struct python_ear *ear,
                        struct python_result *out);
void python_reader_fini(struct python_reader *r);
/* ERR_PROTOCOL, or what a sink failed with. Nothing may come behind the end. */
int python_reader_feed(struct python_reader *r, struct str bytes, struct err *e) MUST_CHECK;
/* The same for what the driver prints: groups of base64, with newlines anywhere. */
int python_reader_feed_text(struct python_reader *r, struct str text, struct err *e) MUST_CHECK;

#endif
