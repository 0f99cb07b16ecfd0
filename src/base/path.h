/* path.h - POSIX paths as text. Nothing here touches a file system. */
#ifndef BASE_PATH_H
#define BASE_PATH_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

/* Like Python's posixpath.normpath: "." and empty parts go, "a/.." goes, leading
 * ".." of a relative path stays; "" gives ".". Other than there, "//a" is "/a". */
struct str path_clean(struct arena *a, struct str path);
/* "base/rel", or rel itself when it is absolute; an empty base gives rel. */
struct str path_join(struct arena *a, struct str base, struct str rel);
/* Expands "~" and "~/x" with home; anything else, "~user" too, is returned as is. */
struct str path_tilde(struct arena *a, struct str path, struct str home);
struct str path_base(struct str path); /* last component: "c" of "/a/b/c" and of "c/" */
struct str path_dir(struct str path);  /* "/a/b" of "/a/b/c"; "." when there is none */
bool path_is_absolute(struct str path);
/* True when `path` is `root` or below it. Both must be clean. */
bool path_inside(struct str path, struct str root);

#endif
