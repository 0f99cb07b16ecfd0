/* package.h - how packages are asked for by name: PEP 508 without what could reach anything but
 * the index. Pure. */
#ifndef CORE_PACKAGE_H
#define CORE_PACKAGE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#define PACKAGE_MAX  300 /* bytes of a requirement */
#define PACKAGES_MAX 100 /* in one call */

/* "Requests [socks] >= 2.0, < 3" as installers take it, without blanks: a name, extras, versions.
 * Options, paths, addresses and markers are ERR_INVALID, each with its sentence. In the arena. */
int package_check(struct arena *a, struct str given, struct str *out, struct err *e) MUST_CHECK;

/* A name as an index spells it: lower case, one '-' for each run of '-', '_' and '.'. Empty: it is none. */
struct str package_name(struct arena *a, struct str given);

#endif
