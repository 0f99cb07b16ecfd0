/*
 * tool.h - a tool is one row: its parameters as a table, and one function.
 *
 * The parameter table gives the JSON schema, decodes and checks the arguments into
 * a plain struct, and writes docs/tools.md. Decoding is lenient where old clients
 * need it: numbers and booleans as strings, lists and objects as JSON text, null
 * as absent, unknown arguments ignored. What is wrong is ERR_INVALID with a
 * sentence that names the argument and what is accepted.
 *
 * A second name for the same thing (a "compat" tool) is a row of its own whose
 * function renames and reshapes; the work is written once.
 */
#ifndef TOOLS_TOOL_H
#define TOOLS_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/ctx.h"
#include "base/err.h"
#include "base/str.h"
#include "core/boxes.h"
#include "core/services.h"

enum param_type {
    PARAM_STRING,  /* struct str; NUL bytes are refused */
    PARAM_INTEGER, /* int64_t */
    PARAM_NUMBER,  /* double */
    PARAM_BOOLEAN, /* bool */
    PARAM_SIZE,    /* int64_t bytes: 1048576 or "512m"; shown as a string */
    PARAM_STRINGS, /* struct str_list */
    PARAM_ENV,     /* struct str_list of "KEY=value", from an object */
    PARAM_OBJECTS, /* struct object_list, each by the parameter's own table */
};

struct str_list {
    const struct str *items;
    size_t n;
};

struct object_list {
    const void *items; /* structs of fields_size bytes, one behind the other */
    size_t n;
};

struct param {
    const char *name;
    size_t offset;    /* into the tool's argument struct */
    int64_t min, max; /* integers; numbers are above min; strings: bytes in max (0: 1 MiB) */
    int64_t fallback; /* integers, sizes, booleans that are absent */
    const char *fallback_text;  /* strings that are absent; and numbers as text */
    const char *const *choices; /* strings: NULL-terminated list, becomes an enum */
    const char *help;
    const char *too_long;       /* strings: what to do instead, ends the sentence; may be NULL */
    const struct param *fields; /* objects: what is in each */
    size_t n_fields, fields_size;
    enum param_type type;
    bool required;
    bool hidden; /* accepted, not in the schema (aliases, seldom needed) */
};

enum toolset {
    TOOLSET_DEFAULT = 1 << 0,
    TOOLSET_REMOTE = 1 << 1,   /* remote-sandbox */
    TOOLSET_OPEN = 1 << 2,     /* opensandbox */
    TOOLSET_MCP = 1 << 3,      /* mcp-sandbox */
    TOOLSET_ADVANCED = 1 << 4, /* advanced */
    TOOLSET_ALL = 1 << 5,      /* every tool has it */
};
/* "default", "remote-sandbox", "opensandbox", "mcp-sandbox", "advanced", "all";
 * several with commas. ERR_INVALID lists them. */
int toolset_parse(struct str name, unsigned *out, struct err *e) MUST_CHECK;

/* MCP annotations, told truthfully. */
enum tool_hint {
    HINT_READ_ONLY = 1 << 0,
    HINT_DESTRUCTIVE = 1 << 1,
    HINT_IDEMPOTENT = 1 << 2,
    HINT_OPEN_WORLD = 1 << 3,
};

struct call;

/* What a client can be asked; it says so itself. */
enum client_can {
    CAN_FORM = 1 << 0,   /* elicitation/create: a person fills in a small form */
    CAN_URL = 1 << 1,    /* ... or opens an address */
    CAN_SAMPLE = 1 << 2, /* sampling/createMessage: its model */
    CAN_ROOTS = 1 << 3,  /* roots/list: the folders it works in */
};

/* A question to the client in the middle of a call. */
struct question {
    const char *key;      /* names it within the call */
    enum client_can kind; /* how it is asked */
    /* What the answer is about, for instance a box's id: an answer that comes back in a
     * later call counts only when it was given about the same. Empty: any answer counts. */
    struct str about;
    json_t *params; /* of the protocol's method; borrowed */
    /* The protocol's result, an object that lives as long as the call or until the same key
     * is asked again. NULL: nobody answered in time, or the client could not. */
    const json_t *answer;
};

enum ask_end {
    ASK_ANSWERED, /* see each question's answer */
    ASK_LATER,    /* the questions are this call's answer, and the client calls again with what
                   * it was told: run() returns 0 at once and leaves *out alone */
};

struct tool {
    const char *name;
    const char *title;
    const char *help; /* leads with the essential; at most 600 bytes */
    const struct param *params;
    size_t n_params;
    size_t args_size;
    unsigned toolsets;
    unsigned hints;
    bool logs;        /* uses call->log */
    unsigned changes; /* enum change: what it tells by call->changed */
    /* Fills *out (a new reference: the JSON of the answer's text block). The arguments
     * live in ctx->arena. An error becomes {"error", "code"} with isError. */
    int (*run)(struct call *c, const void *args, json_t **out, struct err *e);
};

/* Of a message that a tool sends beside its answer. */
enum call_level { /* as in the protocol, in order */
                  LEVEL_DEBUG,
                  LEVEL_INFO,
                  LEVEL_NOTICE,
                  LEVEL_WARNING,
                  LEVEL_ERROR,
                  LEVEL_CRITICAL,
                  LEVEL_ALERT,
                  LEVEL_EMERGENCY,
                  LEVEL_NONE, /* nothing is wanted */
};

/* What has changed, for clients that subscribed to it. */
enum change {
    CHANGED_TOOLS = 1 << 0,
    CHANGED_PROMPTS = 1 << 1,
    CHANGED_RESOURCES = 1 << 2, /* the list */
    CHANGED_RESOURCE = 1 << 3,  /* one of them */
};

/* What a running tool may use; a prompt and a resource as well. */
struct call {
    const struct ctx *ctx;
    const struct services *services;
    const struct tool *tool; /* that runs; by tool_call() */
    struct scope *scope;
    unsigned toolsets; /* shown to this client; compat shapes depend on it */
    bool is_error;     /* a tool may set it: the answer stands, but marked isError */
    /* What an answer that is an error has as its code; ERR_NONE for others. By tool_call(). */
    enum err_kind failed;
    /* Where clients reach our file links, "http://host:port"; empty: nowhere (stdio). */
    struct str link_base;
    /* A tool may set it: an array of the protocol's content blocks (images and so on), which
     * are the answer then, and *out stays alone. Who runs the tool owns it. */
    json_t *content;
    /* Sends a message to the client's log, when it wants that level. NULL: it wants none. */
    void (*log)(struct call *c, enum call_level level, struct str message);
    /* Tells who subscribed; the uri is for CHANGED_RESOURCE. NULL: nobody can. */
    void (*changed)(struct call *c, enum change what, struct str uri);
    const char *transport; /* "stdio", "http": for the log; NULL: unknown */
    struct str request_id; /* the client's own, as JSON text, for the log; may be empty */
    struct str box_id;     /* the box that it was about, as far as a tool found one; for the log */
    /* Tells the client how it goes; cheap to call often. NULL: it did not ask for that. */
    void (*progress)(struct call *c, struct str message);
    unsigned can; /* enum client_can; 0: this client cannot be asked */
    /*
     * Asks, ERR_UNSUPPORTED unless `can` allows it, and waits for the answers, some minutes at most, or has them
     * come with another call: -1 or an enum ask_end. A tool that asks may be run from its
     * beginning again, so it does nothing that counts before it was answered. NULL when
     * `can` is 0.
     */
    int (*ask)(struct call *c, struct question *questions, size_t n, struct err *e);
    bool asked;    /* ask() said ASK_LATER */
    unsigned need; /* see call_require() */
};

/* For what cannot do without: ERR_UNSUPPORTED unless the client can be asked all of these.
 * The protocol has an error of its own for that, which tells the client what it lacks. */
int call_require(struct call *c, unsigned can, struct err *e) MUST_CHECK;

/* Of prompts and resources. Fills *values with a new array of strings that the blank `name` may
 * have, given that it begins with `start`. NULL: nothing is known. */
typedef int complete_fn(struct call *c, struct str name, struct str start, json_t **values,
                        struct err *e);

/* Looks at table.c; NULL when there is none. */
const struct tool *tool_find(struct str name);
/* All tools, sorted by name; NULL at the end. */
extern const struct tool *const tools[];

/* May this server's clients use it? Not what changes something, where the operator has set
 * server.read_only; such tools are not listed either. */
bool tool_allowed(const struct tool *t, const struct config *config);

/* {"type":"object","properties":...}: plain, no unions, every array has items. */
json_t *tool_schema(const struct tool *t);
/* Arguments (an object, or NULL) into a new struct in the arena. NULL on error. They are not
 * changed, but jansson walks only through what is not const. */
const void *tool_decode(const struct tool *t, json_t *arguments, struct arena *arena, struct err *e)
    MUST_CHECK;
/* Decode, run, and the answer as text: compact JSON, valid UTF-8, at most
 * TOOL_TEXT_MAX bytes. Never fails: errors are part of the answer. Every call of a tool, over
 * whatever transport, comes through here: it is checked against read_only, and is a line in
 * the log and one in the audit log. */
#define TOOL_TEXT_MAX (900u << 10)
void tool_call(const struct tool *t, struct call *c, json_t *arguments, struct buf *text,
               bool *is_error);

/* docs/tools.md: every tool with its parameters, from the tables. */
void tools_doc(struct buf *out);

#endif
