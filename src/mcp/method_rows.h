/* method_rows.h - the functions of the rows in methods.c that live in files of their own. */
#ifndef MCP_METHOD_ROWS_H
#define MCP_METHOD_ROWS_H

#include "mcp/exchange.h"

#define NAME_SHOWN 64 /* bytes of a client's word that an error repeats */

/* A list that has one page: {"name":[...],...}; `hints` where the revision has them. */
/* Everything is on one page: false when another one was asked for, and that was answered. */
bool exchange_check_cursor(const struct exchange *x);
void exchange_list(const struct exchange *x, const char *name, const json_t *all,
                   const char *hints);

void run_prompts_list(const struct exchange *x);
void run_prompts_get(const struct exchange *x);
void run_complete(const struct exchange *x);
void run_resources_list(const struct exchange *x);
void run_templates_list(const struct exchange *x);
void run_resources_read(const struct exchange *x);

#endif
