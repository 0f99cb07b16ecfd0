#include "watch/hosts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/sha256.h"
#include "config/hosts_own.h"
#include "core/private.h"

#define FOLDER   "watch_hosts"
#define HOST_MAX (256u << 10)

static const struct config_host *host_of(const struct config *c, struct str name)
{
    for (size_t i = 0; i < c->n_hosts; i++) {
        if (str_eq(c->hosts[i].name, name)) {
            return &c->hosts[i];
        }
    }
    return NULL;
}

bool watch_hosts_needed(const struct config *c, struct str name)
{
    return (c->remote_host_set || c->remote_list_len > 0) && host_of(c, name) != NULL;
}

static struct str folder_of(const struct config *c, struct arena *a)
{
    return arena_printf(a, "%.*s/" FOLDER, STR_ARG(c->state_dir));
}

static const char *file_of(struct str name, char to[SHA256_HEX_SIZE])
{
    unsigned char hash[SHA256_SIZE];

    sha256_of(name, hash);
    return sha256_hex(hash, to);
}

int watch_hosts_keep(const struct config *c, struct str name, struct err *e)
{
    const struct config_host *host = host_of(c, name);
    struct arena a own_arena = {0};
    struct buf packed own_buf = {0};
    char file[SHA256_HEX_SIZE];

    if (host == NULL) {
        return err_set(e, ERR_NOT_FOUND, "there is no host \"%.*s\" in the configuration",
                       STR_ARG(name));
    }
    arena_init(&a, 1u << 20);
    int dir own_fd = private_open(folder_of(c, &a), e);
    if (dir < 0) {
        return -1;
    }
    buf_init(&packed, HOST_MAX);
    host_pack(host, &packed);
    if (packed.cut) {
        return err_set(e, ERR_LIMIT, "what is configured of \"%.*s\" is longer than %u bytes",
                       STR_ARG(name), HOST_MAX);
    }
    return fd_replace_file(dir, file_of(name, file), buf_str(&packed), 0600, e);
}

bool watch_hosts_kept(const struct config *c, struct str name)
{
    struct arena a own_arena = {0};
    char file[SHA256_HEX_SIZE];
    struct err ignored;
    struct str bytes;

    arena_init(&a, 1u << 20);
    int dir own_fd = private_open(folder_of(c, &a), &ignored);
    return dir >= 0 && private_read(dir, file_of(name, file), HOST_MAX, &a, &bytes, &ignored) == 0;
}

int watch_hosts_forget(const struct config *c, struct str name, struct err *e)
{
    struct arena a own_arena = {0};
    char file[SHA256_HEX_SIZE];

    arena_init(&a, 1u << 20);
    int dir own_fd = private_open(folder_of(c, &a), e);
    if (dir < 0) {
        return -1;
    }
    if (unlinkat(dir, file_of(name, file), 0) < 0 && errno != ENOENT) {
        return err_sys(e, errno, "forget the host \"%.*s\"", STR_ARG(name));
    }
    return 0;
}

static int add_one(struct config *c, int dir, const char *file, struct err *e)
{
    struct config_host host;
    struct str bytes;

    if (private_read(dir, file, HOST_MAX, &c->arena, &bytes, e) < 0 ||
        host_unpack(&c->arena, &bytes, &host, e) < 0) {
        return -1;
    }
    return host_of(c, host.name) != NULL ? 0 : host_add(c, &host, e);
}

static void close_dir(DIR **d)
{
    if (*d != NULL) {
        (void)closedir(*d);
    }
}

void watch_hosts_add(struct config *c)
{
    struct arena a own_arena = {0};
    struct err e;

    arena_init(&a, 1u << 20);
    DIR *d CLEANUP(close_dir) = opendir(folder_of(c, &a).p);
    if (d == NULL) {
        return;
    }
    for (const struct dirent *entry = readdir(d); entry != NULL; entry = readdir(d)) {
        if (strlen(entry->d_name) != SHA256_HEX_SIZE - 1) {
            continue; /* ".", "..", one that is just being written */
        }
        if (add_one(c, dirfd(d), entry->d_name, &e) < 0) {
            log_line(LOG_WARN, "watch", "a kept host cannot be used: %s", e.msg);
        }
    }
}
