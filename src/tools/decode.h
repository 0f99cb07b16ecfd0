/* decode.h - the halves of the decoder: decode.c does numbers and the whole, and
 * decode_text.c strings, lists and environments. */
#ifndef TOOLS_DECODE_H
#define TOOLS_DECODE_H

#include "tools/tool.h"

#define DECODE_SHOWN_MAX 60 /* bytes of a wrong value that a sentence repeats */

const char *decode_type_name(const json_t *v); /* "a list", "true" */

int decode_string(const struct param *p, const json_t *v, struct arena *a, struct str *to,
                  struct err *e) MUST_CHECK;
int decode_strings(const struct param *p, const json_t *v, struct arena *a, struct str_list *to,
                   struct err *e) MUST_CHECK;
int decode_env(const struct param *p, json_t *v, struct arena *a, struct str_list *to,
               struct err *e) MUST_CHECK;
/* "[...]" or "{...}" in a string, as clients without nested arguments send it. NULL: it
 * is not such a text. */
json_t *decode_nested(const json_t *v) MUST_CHECK;

#endif
