/* view.h - what a local box sees of this machine, and its environment. */
#ifndef PROVIDER_LOCAL_VIEW_H
#define PROVIDER_LOCAL_VIEW_H

#include "base/arena.h"
#include "base/str.h"
#include "provider/provider.h"

struct names {
    struct str *items; /* in the arena */
    size_t n;
};

/* Host folders that are shown read-only. */
struct names view_folders(struct arena *a);
/* What is shown of /etc: an allow-list, nothing that holds secrets. */
struct names view_etc(struct arena *a);
/* KEY=value: what every box has, then what was asked for. */
struct names view_env(struct arena *a, const struct box_spec *spec);

#endif
