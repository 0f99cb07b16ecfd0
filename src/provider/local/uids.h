/*
 * uids.h - which user ids a box gets (decision 13).
 *
 * As root every box has its own 65,536 uids from a region that nobody uses, so that
 * boxes cannot touch each other even if one escaped its namespaces; a slot is taken
 * by a lock that PID 1 holds for its life. A user with a range in /etc/subuid uses
 * that one. A user without has one uid, shared by PID 1 and payload.
 */
#ifndef PROVIDER_LOCAL_UIDS_H
#define PROVIDER_LOCAL_UIDS_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#define UID_RANGE 65536u
/* Above what systemd gives to containers, shadow to subuids and sssd to domains, below
 * what does not fit a signed number. */
#define UID_FIRST 0x78000000u
#define UID_SLOTS ((0x7fff0000u - UID_FIRST) / UID_RANGE)

#define NEWUIDMAP "/usr/bin/newuidmap" /* where boxinit looks */
#define NEWGIDMAP "/usr/bin/newgidmap"

enum uid_mode { /* as the spec of boxinit numbers them */
                UID_ONE = 0,
                UID_ROOT = 1,
                UID_SUBUIDS = 2,
};

struct uid_range {
    enum uid_mode mode;
    uint32_t uid, gid; /* first of the range outside */
    uint32_t count;    /* 0 in UID_ONE */
    int lock;          /* UID_ROOT: the locked descriptor, else -1 */
};

/* Chooses by what there is (uids_mode()), and takes a slot as root. The caller closes .lock. */
int uids_take(const struct uid_range *from, struct uid_range *out, struct err *e) MUST_CHECK;

/* What there is, without taking anything: out->mode and, of subuids, the first ids. */
int uids_mode(struct arena *a, struct uid_range *out, struct err *e) MUST_CHECK;
bool uids_can_map(void); /* newuidmap and newgidmap are there */

/* The first range of at least UID_RANGE ids that a /etc/subuid text gives to this user. */
bool uids_parse_sub(struct str text, struct str name, uint32_t uid, uint32_t *first,
                    uint32_t *count);
/* The first id behind all ranges that a /etc/subuid text gives to anybody; 0: it gives none. */
uint32_t uids_parse_end(struct str text);
/* Does a /proc/PID/uid_map text map all of [first, first + count)? */
bool uids_parse_map(struct str text, uint32_t first, uint32_t count);
/* The effective capabilities in a /proc/PID/status text; 0 when it has none. */
uint64_t uids_parse_caps(struct str status);

#endif
