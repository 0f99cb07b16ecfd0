/* output_file.h - where output.c keeps what does not fit into an answer. */
#ifndef CORE_OUTPUT_FILE_H
#define CORE_OUTPUT_FILE_H

#include "base/str.h"

#define OUTPUT_ID_BYTES ((size_t)6)
#define OUTPUT_ID_LEN   (2 * OUTPUT_ID_BYTES)

/* The folder of a box's outputs, to free(); NULL when the box's id is not hex digits. */
char *output_folder(struct str state_dir, struct str box_id);
/* A new file there (0600; the folder is made), suffix "" or ".err". -1: not possible. */
int output_file_new(const char *folder, const char *id, const char *suffix);

#endif
