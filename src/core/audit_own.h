/* audit_own.h - what writing and verifying the audit log share. For audit*.c only. */
#ifndef CORE_AUDIT_OWN_H
#define CORE_AUDIT_OWN_H

#include <stdint.h>

#include "base/sha256.h"
#include "base/str.h"

#define AUDIT_LINE_MAX 65536 /* with escapes; commands are cut far below */
#define AUDIT_NO_HASH  "0000000000000000000000000000000000000000000000000000000000000000"

struct audit_head {
    int64_t size; /* of the file behind the last line; 0: nothing was written yet */
    char hash[SHA256_HEX_SIZE];
};

/* A line without its newline. */
void audit_hash_line(struct str line, char hex[SHA256_HEX_SIZE]);
/* 0, or -1 and errno. One that is empty or damaged says nothing. */
int audit_read_head(int fd, struct audit_head *out);
int audit_write_head(int fd, int64_t size, const char hash[SHA256_HEX_SIZE]);

#endif
