/* sftp_file.h - what the parts of the file operations share. */
#ifndef PROVIDER_SSH_SFTP_FILE_H
#define PROVIDER_SSH_SFTP_FILE_H

#include "provider/ssh/own.h"
#include "provider/ssh/sftp.h"

#define DEPTH_MAX 128 /* folders in folders */

/* One file operation: a conversation and the path as the host takes it. */
struct file_job {
    struct machine *machine;
    const struct ctx *ctx;
    struct sftp *sftp;
    struct str given; /* for sentences */
    struct str path;  /* "~" is expanded */
};

int file_begin(struct file_job *j, struct box *b, const struct ctx *ctx, struct str path,
               struct err *e) MUST_CHECK;
void file_end(struct file_job *j);
#define own_job CLEANUP(file_end)

/* A request with just a path; the answer has to be a good STATUS. */
int file_simple(struct file_job *j, enum sftp_type type, struct str path, const char *doing,
                struct err *e) MUST_CHECK;
/* LSTAT or STAT. */
int file_look(struct file_job *j, enum sftp_type type, struct str path, struct file_info *out,
              struct err *e) MUST_CHECK;
/* OPENDIR, or OPEN with these flags; the handle is in the call's arena. */
int file_open(struct file_job *j, enum sftp_type type, struct str path, uint32_t flags, mode_t mode,
              struct str *handle, struct err *e) MUST_CHECK;
int file_close(struct file_job *j, struct str handle, struct err *e) MUST_CHECK;
int file_make_folders(struct file_job *j, struct str path, struct err *e) MUST_CHECK;

/* ---- files_walk.c, files_write.c ----------------------------------------------------- */

int ssh_file_list(struct box *b, const struct ctx *ctx, const struct list_req *req,
                  file_info_fn *each, void *arg, bool *more, struct err *e);
int ssh_file_remove(struct box *b, const struct ctx *ctx, struct str path, struct err *e);
int ssh_file_write(struct box *b, const struct ctx *ctx, struct str path, mode_t mode,
                   enum write_flags flags, const struct source *from, struct file_info *out,
                   struct err *e);

#endif
