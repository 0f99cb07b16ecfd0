/* local.h - the local side's root. What lies below it is tree/'s business. */
#ifndef SYNC_LOCAL_H
#define SYNC_LOCAL_H

#include "base/str.h"

/* A folder or file by its absolute path, which has no links in it any more (roots.h): one that
 * has come into being since is not followed. -1 with errno. */
int local_open(const char *path, int flags);

/* Without '/' at its end, unless that is all there is. */
struct str local_no_slash(struct str path);

#endif
