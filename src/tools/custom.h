/*
 * custom.h - the tools that the operator added (config/tools.h), as rows like any other.
 *
 * The command is the operator's text and never changes; arguments come as variables (ARG_NAME),
 * so nothing that a caller says becomes part of it.
 */
#ifndef TOOLS_CUSTOM_H
#define TOOLS_CUSTOM_H

#include "tools/tool.h"

struct custom;

/* NULL when there are none. Borrows the configuration. */
struct custom *custom_new(const struct config *config);
void custom_free(struct custom *all); /* NULL is fine */
size_t custom_count(const struct custom *all);
const struct tool *custom_at(const struct custom *all, size_t i);
/* Among ours and theirs. */
const struct tool *custom_find(const struct custom *all, struct str name);

#endif
