/*
 * secret.c - the secret of this state folder, which tokens of sandboxes are made with. The file
 * is made once, complete or not at all, by whichever process needs it first.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/own.h"
#include "base/sha256.h"
#include "base/thread.h"
#include "provider/opensandbox/own.h"

#define SECRET_FILE  "opensandbox_key"
#define SECRET_BYTES 32

static int read_secret(int dir, char to[65], struct err *e)
{
    struct stat st;
    int fd own_fd = openat(dir, SECRET_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0) {
        return err_sys(e, errno, "open %s in the state folder", SECRET_FILE);
    }
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (st.st_mode & 077) != 0 ||
        st.st_uid != geteuid()) {
        return err_set(e, ERR_DENIED,
                       "%s in the state folder can be read by others: remove it; sandboxes that "
                       "were made with it are then out of reach",
                       SECRET_FILE);
    }
    ssize_t n = fd_read(fd, to, 64, e);
    if (n != 64) {
        return n < 0 ? -1
                     : err_set(e, ERR_SYSTEM, "%s in the state folder is broken: remove it",
                               SECRET_FILE);
    }
    to[64] = '\0';
    return 0;
}

/* Under a name of its own first: who comes second finds it whole. */
static int make_secret(int dir, struct err *e)
{
    char fresh[2 * SECRET_BYTES + 1];
    char random[17];
    char name[64];

    id_hex(fresh, SECRET_BYTES);
    id_hex(random, 8);
    (void)snprintf(name, sizeof(name), SECRET_FILE ".%s", random);
    if (fd_replace_file(dir, name, str_from(fresh), 0600, e) < 0) {
        return -1;
    }
    int rc = linkat(dir, name, dir, SECRET_FILE, 0);
    int why = errno;
    (void)unlinkat(dir, name, 0);
    return rc == 0 || why == EEXIST ? 0 : err_sys(e, why, "make %s", SECRET_FILE);
}

static int load(const struct osb_provider *p, char to[65], struct err *e)
{
    if (fd_mkdirs(p->state_dir, 0700, e) < 0) {
        return -1;
    }
    int dir own_fd = open(p->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) {
        return err_sys(e, errno, "open the state folder %s", p->state_dir);
    }
    if (read_secret(dir, to, e) == 0) {
        return 0;
    }
    if (e->kind != ERR_NOT_FOUND || make_secret(dir, e) < 0) {
        return -1;
    }
    return read_secret(dir, to, e);
}

static void mix(struct str key, const char *use, struct str text, char hex[SHA256_HEX_SIZE])
{
    unsigned char code[SHA256_SIZE];
    struct hmac256 mac;

    hmac256_init(&mac, key);
    hmac256_add(&mac, str_from(use));
    hmac256_add(&mac, text);
    hmac256_end(&mac, code);
    (void)sha256_hex(code, hex);
}

int osb_know_secret(struct osb_provider *p, struct err *e)
{
    char hex[SHA256_HEX_SIZE];

    LOCKED(&p->lock);
    if (p->secret[0] != '\0') {
        return 0;
    }
    char secret[65];
    if (load(p, secret, e) < 0) {
        return -1;
    }
    mix(str_from(secret), "owner:", STR_EMPTY, hex);
    (void)snprintf(p->owner, sizeof(p->owner), "%.16s", hex);
    (void)snprintf(p->secret, sizeof(p->secret), "%s", secret);
    return 0;
}

void osb_token(struct osb_provider *p, struct str own_id, char token[65])
{
    LOCKED(&p->lock);
    mix(str_from(p->secret), "token:", own_id, token);
}
