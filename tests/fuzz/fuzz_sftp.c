/* What an SFTP server sends: packets, and all that can be in them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "provider/ssh/sftp.h"

/* A view must lie in the bytes that were given. */
static void check_inside(struct str part, struct str whole)
{
    if (part.len > 0 && (part.p < whole.p || part.p + part.len > whole.p + whole.len)) {
        abort();
    }
}

static void read_names(struct str body)
{
    struct sftp_in in = {.rest = body};
    struct file_info info = {0};

    for (uint32_t n = sftp_get_u32(&in); n > 0 && sftp_get_name(&in, &info); n--) {
        check_inside(info.path, body);
        if (info.size < 0 || memchr(info.path.p, '/', info.path.len) != NULL) {
            abort();
        }
    }
}

static void read_packet(const struct sftp_packet *p)
{
    struct sftp_in attrs = {.rest = p->body};
    struct sftp_in text = {.rest = p->body};
    struct file_info info = {0};
    struct err e;

    read_names(p->body);
    sftp_get_attrs(&attrs, &info);
    check_inside(sftp_get_text(&text), p->body);
    if (sftp_fail(p, "read", S("/a/path"), &e) == 0 || e.kind == ERR_NONE) {
        abort();
    }
    if (p->type != SFTP_STATUS && sftp_status_of(p) != SFTP_FAILURE) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *)data, size};
    struct str whole = rest;
    struct sftp_packet p;

    for (;;) {
        ssize_t used = sftp_cut(rest, &p);

        if (used <= 0) {
            return 0;
        }
        if ((size_t)used > rest.len) {
            abort();
        }
        check_inside(p.body, whole);
        read_packet(&p);
        rest = str_skip(rest, (size_t)used);
    }
}
