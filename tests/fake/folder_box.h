/*
 * folder_box.h - a box that is a plain folder of this machine, for tests of what is above
 * providers: files as far as sync/ asks for them, and trees by tree/.
 */
#ifndef TESTS_FAKE_FOLDER_BOX_H
#define TESTS_FAKE_FOLDER_BOX_H

#include "provider/provider.h"

struct folder_box {
    struct box box;
    struct provider provider;
    struct str folder; /* absolute: what relative paths are relative to */
    struct str home;
    int lists, puts, gets, prunes; /* how often it was asked */

    bool splits;               /* it has several connections ... */
    bool loses;                /* ... and loses one when all is written */
    enum tree_share shares[8]; /* of the puts */

    /* A box that lies: this entry comes at the end of each list ... */
    const struct tree_entry *lie;
    /* ... and this file instead of the first that is asked for, with so many bytes. */
    const struct tree_entry *other;
    uint64_t other_bytes;
    /* What it says that it could not read. */
    uint64_t unreadable;
};

void folder_box_init(struct folder_box *f, struct str folder);

#endif
