/*
 * answer.h - what several tools share: which box is meant, what happens when it is
 * gone, and how a box looks in an answer.
 */
#ifndef TOOLS_ANSWER_H
#define TOOLS_ANSWER_H

#include "json/js.h"
#include "tools/tool.h"

/* ---- which box ------------------------------------------------------------------- */

struct box_args {
    struct str id, name;
};

#define BOX_WORD_MAX 256 /* bytes of an id or a name */

#define PARAM_BOX_ID(args)                                                                         \
    {                                                                                              \
        .name = "sandbox_id", .type = PARAM_STRING, .offset = offsetof(args, box.id),              \
        .max = BOX_WORD_MAX, .help = "default: the active sandbox",                                \
    }
#define PARAM_BOX_NAME(args)                                                                       \
    {                                                                                              \
        .name = "sandbox_name", .type = PARAM_STRING, .offset = offsetof(args, box.name),          \
        .max = BOX_WORD_MAX, .help = "instead of sandbox_id",                                      \
    }
#define PARAM_BOX(args) PARAM_BOX_ID(args), PARAM_BOX_NAME(args)
/* Both, of which one is shown: for tools whose users have known the name only, and in lists that
 * must be short. */
#define PARAM_BOX_SHORT(args)                                                                      \
    {                                                                                              \
        .name = "sandbox_name",                                                                    \
        .type = PARAM_STRING,                                                                      \
        .offset = offsetof(args, box.name),                                                        \
        .max = BOX_WORD_MAX,                                                                       \
        .help = "default: the active one",                                                         \
    },                                                                                             \
    {                                                                                              \
        .name = "sandbox_id", .type = PARAM_STRING, .offset = offsetof(args, box.id),              \
        .max = BOX_WORD_MAX, .help = "instead of sandbox_name", .hidden = true,                    \
    }

struct box_want answer_want(const struct box_args *box);

typedef int box_job(void *arg, struct call *c, struct box *b, struct str id, struct err *e);
/*
 * Runs job on the box that is meant. When the box turns out to be gone (ERR_GONE from
 * the job, which must mean that nothing was done) that is recorded; a caller that named
 * no box and may have one made gets a new one and job runs again, once. *note (may be
 * NULL) tells what was made by itself; else it stays as it is.
 */
int answer_with_box(struct call *c, const struct box_args *box, bool make_default, box_job *job,
                    void *arg, struct str *note, struct err *e) MUST_CHECK;

/* The backend said that this box is gone: whoever comes next hears so. */
void answer_lost(struct call *c, struct str id);

/* ---- pieces of JSON -------------------------------------------------------------- */

void answer_str(json_t *o, const char *key, struct str s);
void answer_str_if(json_t *o, const char *key, struct str s);  /* left out when empty */
void answer_time(json_t *o, const char *key, int64_t wall_ms); /* RFC 3339; left out when 0 */
json_t *answer_seconds(int64_t ms);                            /* 1.234 */
json_t *answer_round(double v, int decimals); /* null when v is negative: not known */

bool answer_is_mcp_sandbox(const struct call *c); /* shape answers as MCP Sandbox does */
const char *answer_status(const struct box_view *v);
struct str answer_short_id(struct str id);
json_t *answer_limits(const struct box_view *v);
/* What every tool that shows a box tells about it. */
void answer_box(json_t *o, const struct box_view *v);
/* host, port, user, via, connection_alive and connection_error. */
void answer_connection(json_t *o, const struct box_view *v);
/* A link by which a browser can read a file of a box; empty on stdio, and when none can be
 * made. In the arena. */
struct str answer_link(struct call *c, struct str box_id, struct str path);
/* The names of the boxes that exist. */
json_t *answer_names(struct call *c);

#endif
