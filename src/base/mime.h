/* mime.h - what is in a file, by the end of its name. */
#ifndef BASE_MIME_H
#define BASE_MIME_H

#include <stdbool.h>

#include "base/str.h"

struct mime {
    const char *type; /* "text/csv; charset=utf-8"; of what is not known application/octet-stream */
    bool passive;     /* a browser shows it without running anything of it */
};
struct mime mime_of(struct str name);

#endif
