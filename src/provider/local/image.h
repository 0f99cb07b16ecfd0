/*
 * image.h - root file systems that boxes can be made of.
 *
 * An image is a folder that holds a whole system. Those with a name are in
 * <state>/images/NAME; any other is named by its absolute path. It is never written by
 * a box: boxes share it below an overlay of their own.
 *
 * What is being made, or being removed, is <state>/images/.NAME.partial, and whoever
 * works on it holds a flock on that folder. It becomes NAME by a rename when it is
 * whole. So what an interrupted work leaves is that folder, which the next make or
 * remove of the name takes away.
 */
#ifndef PROVIDER_LOCAL_IMAGE_H
#define PROVIDER_LOCAL_IMAGE_H

#include "provider/local/local.h"

#define IMAGE_NAME_MAX 64
#define IMAGE_MAKE_FIX "sudo apt-get install debootstrap"
#define IMAGE_UIDS_FIX                                                                             \
    "sudo apt-get install uidmap; sudo usermod --add-subuids 100000-165535 --add-subgids "         \
    "100000-165535 USER (any range that is free in /etc/subuid)"
#define IMAGE_DEFAULT "debian" /* what `anybox image make` makes when no name is given */

/* 1 to 64 of a-z, 0-9, '.', '_' and '-', the first a letter or a digit. */
bool image_name_ok(struct str name);

/*
 * The clean absolute path, links resolved, of the image that `wanted` names. It is a
 * root file system whose owner boxes of this kind of user can show (NULL: of us). Else a sentence
 * about what is wrong, which images there are and how to make one.
 */
int image_resolve(const struct local *l, const struct uid_range *who, struct arena *a,
                  struct str wanted, struct str *out, struct err *e) MUST_CHECK;

extern const struct image_ops local_images;
size_t image_count(const struct local *l, struct arena *a);
/* The first mount at `path` or below it, or NULL. */
const char *image_mount_below(struct arena *a, struct str path);

/* ---- image_make.c ---------------------------------------------------------------- */

/* Is what makes images on this machine? */
int image_can_make(struct err *e) MUST_CHECK;
int image_make(struct provider *p, const struct ctx *ctx, const struct image_order *order,
               image_phase_fn *phase, void *arg, struct err *e) MUST_CHECK;
int image_remove(struct provider *p, const struct ctx *ctx, struct str name, struct err *e)
    MUST_CHECK;

/* ---- image_run.c ----------------------------------------------------------------- */

/* A shell script that works on an image as its root: root itself, or for a user with
 * subuids the root of a user namespace with the same map as boxes have. It has mounts and
 * processes of its own, which end with it. */
struct image_job {
    const char *script;
    const char *const *args; /* $1 and so on; NULL-terminated */
    int keep_fd;             /* stays open in all of its processes */
    /* Each line that it prints, without control characters. */
    void (*line)(void *arg, struct str line);
    void *arg;
};

/* The user ids that images have here; ERR_UNSUPPORTED with the fix where boxes can have
 * only one. */
int image_uids(struct arena *a, struct uid_range *out, struct err *e) MUST_CHECK;
/* *status as from waitpid(). When the ctx ends it early, every process of it is killed. */
int image_run(const struct ctx *ctx, const struct uid_range *who, const struct image_job *job,
              int *status, struct err *e) MUST_CHECK;

/* ---- image_source.c: what this machine is, and where its packages come from -------- */

/* The value of KEY= in an os-release text, without quotes; empty: not there. */
struct str image_os_value(struct str os_release, struct str key);
/* The first archive that an apt sources text (one line each, or deb822) names for the suite
 * and that debootstrap can use; false: none. */
bool image_parse_sources(struct str text, bool deb822, struct str suite, struct str *uri);
/* Debian's suite and archive of this machine; empty where it is not Debian or not known. */
void image_own_source(struct arena *a, struct str *suite, struct str *mirror);

#endif
