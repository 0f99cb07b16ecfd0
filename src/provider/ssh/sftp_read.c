/* sftp_read.c - what an SFTP server's bytes mean. Pure: they come from another machine and may
 * be anything. */
#include <endian.h>
#include <string.h>
#include <sys/stat.h>

#include "base/own.h"
#include "base/plain.h"
#include "provider/ssh/sftp.h"

#define ATTR_SIZE  0x1u
#define ATTR_OWNER 0x2u
#define ATTR_MODE  0x4u
#define ATTR_TIMES 0x8u
#define ATTR_MORE  0x80000000u

ssize_t sftp_cut(struct str bytes, struct sftp_packet *out)
{
    struct sftp_in in = {.rest = bytes};
    uint32_t length = sftp_get_u32(&in);

    if (!in.bad && (length < 5 || length > SFTP_PACKET_MAX + 1024)) {
        return -1;
    }
    if (in.bad || in.rest.len < length) {
        return 0;
    }
    out->type = (enum sftp_type)(unsigned char)in.rest.p[0];
    out->body = str_skip(str_head(in.rest, length), 1);
    struct sftp_in body = {.rest = out->body};
    out->id = sftp_get_u32(&body);
    if (out->type != SFTP_VERSION) {
        out->body = body.rest;
    }
    return (ssize_t)(sizeof(length) + length);
}

uint32_t sftp_get_u32(struct sftp_in *in)
{
    uint32_t big;

    if (in->bad || in->rest.len < sizeof(big)) {
        in->bad = true;
        return 0;
    }
    memcpy(&big, in->rest.p, sizeof(big));
    in->rest = str_skip(in->rest, sizeof(big));
    return be32toh(big);
}

uint64_t sftp_get_u64(struct sftp_in *in)
{
    uint64_t high = sftp_get_u32(in);

    return high << 32 | sftp_get_u32(in);
}

struct str sftp_get_text(struct sftp_in *in)
{
    uint32_t len = sftp_get_u32(in);

    if (in->bad || in->rest.len < len) {
        in->bad = true;
        return STR_EMPTY;
    }
    struct str text = str_head(in->rest, len);
    in->rest = str_skip(in->rest, len);
    return text;
}

static enum file_type type_of(mode_t mode)
{
    if (S_ISDIR(mode)) {
        return FILE_DIR;
    }
    if (S_ISLNK(mode)) {
        return FILE_SYMLINK;
    }
    return S_ISREG(mode) ? FILE_REGULAR : FILE_OTHER;
}

void sftp_get_attrs(struct sftp_in *in, struct file_info *out)
{
    uint32_t flags = sftp_get_u32(in);

    uint64_t size = flags & ATTR_SIZE ? sftp_get_u64(in) : 0;
    in->bad = in->bad || size > INT64_MAX;
    out->size = in->bad ? 0 : (int64_t)size;
    if (flags & ATTR_OWNER) {
        (void)sftp_get_u64(in);
    }
    mode_t mode = flags & ATTR_MODE ? sftp_get_u32(in) : S_IFREG | 0644;
    out->type = type_of(mode);
    out->mode = mode & 07777;
    out->mtime_s = 0;
    if (flags & ATTR_TIMES) {
        (void)sftp_get_u32(in);
        out->mtime_s = sftp_get_u32(in);
    }
    for (uint32_t n = flags & ATTR_MORE ? sftp_get_u32(in) : 0; n > 0 && !in->bad; n--) {
        (void)sftp_get_text(in);
        (void)sftp_get_text(in);
    }
}

bool sftp_get_name(struct sftp_in *in, struct file_info *out)
{
    out->path = sftp_get_text(in);
    (void)sftp_get_text(in); /* a line as ls has it */
    sftp_get_attrs(in, out);
    in->bad = in->bad || out->path.len == 0 || str_has(out->path, '/') || str_has(out->path, '\0');
    return !in->bad;
}

enum sftp_status sftp_status_of(const struct sftp_packet *p)
{
    struct sftp_in in = {.rest = p->body};

    return p->type == SFTP_STATUS ? (enum sftp_status)sftp_get_u32(&in) : SFTP_FAILURE;
}

int sftp_fail(const struct sftp_packet *p, const char *doing, struct str path, struct err *e)
{
    struct sftp_in in = {.rest = p->body};
    struct str shown = str_head(path, 256);
    enum sftp_status status = (enum sftp_status)sftp_get_u32(&in);
    struct buf said own_buf = {0};

    buf_init(&said, 256);
    plain_text(str_head(sftp_get_text(&in), 128), &said);

    if (p->type != SFTP_STATUS) {
        return err_set(e, ERR_PROTOCOL, "the host's sftp server gave an answer that does not fit");
    }
    if (status == SFTP_NO_SUCH_FILE) {
        return err_set(e, ERR_NOT_FOUND, "cannot %s %.*s: no such file or folder", doing,
                       STR_ARG(shown));
    }
    if (status == SFTP_PERMISSION_DENIED) {
        return err_set(e, ERR_DENIED, "cannot %s %.*s: permission denied on the host", doing,
                       STR_ARG(shown));
    }
    return err_set(e, ERR_SYSTEM, "cannot %s %.*s: the host's sftp server says \"%.*s\"", doing,
                   STR_ARG(shown), STR_ARG(buf_str(&said)));
}
