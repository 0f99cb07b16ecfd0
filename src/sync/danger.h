/*
 * danger.h - files that programs of this machine run or obey by themselves, later and without
 * being asked: what a box may want to bring here. They are written, and told as warnings.
 */
#ifndef SYNC_DANGER_H
#define SYNC_DANGER_H

#include "base/str.h"

/* Why this file (its whole path) is dangerous, as the end of a sentence; NULL: it is not one of
 * them. Case does not count, as it does not for some file systems. */
const char *danger_of(struct str path);
/* Does a link at `path` (relative to a folder) with this target lead out of the folder? */
bool danger_leads_out(struct str path, struct str target);

#endif
