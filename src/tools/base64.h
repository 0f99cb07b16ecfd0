/* base64.h - RFC 4648 base64, the way binary files travel in JSON. */
#ifndef TOOLS_BASE64_H
#define TOOLS_BASE64_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

/* With padding and without line breaks. */
struct str base64_encode(struct arena *a, struct str bytes);
/* White space is skipped, padding may be missing, the URL alphabet is accepted too.
 * ERR_INVALID tells what is wrong and where. */
int base64_decode(struct arena *a, struct str text, struct str *out, struct err *e) MUST_CHECK;

#endif
