/*
 * prompt.h - a prompt is one row: a text that a person picks in the client, with blanks to
 * fill in. The table is in prompts.c; what has no row is not offered.
 */
#ifndef TOOLS_PROMPT_H
#define TOOLS_PROMPT_H

#include "tools/tool.h"

struct prompt_blank {
    const char *name;
    const char *help;
    bool required;
};

struct prompt {
    const char *name;
    const char *title;
    const char *help;
    const struct prompt_blank *blanks;
    size_t n_blanks;
    const char *const *tools; /* it speaks of; NULL at the end. NULL: of none */
    /* Fills *messages with a new array of the protocol's {"role", "content"}. `arguments` is an
     * object, or NULL; its members are strings, and what is required is there. */
    int (*get)(struct call *c, json_t *arguments, json_t **messages, struct err *e);
    complete_fn *complete;
};

/* All prompts; NULL at the end. */
extern const struct prompt *const prompts[];
const struct prompt *prompt_find(struct str name); /* NULL when there is none */
/* Are all of its tools shown and allowed? */
bool prompt_offered(const struct prompt *p, unsigned toolsets, const struct config *config);

#endif
