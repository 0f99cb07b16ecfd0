/*
 * Any bytes where secrets and records are read: a signed text, files of API keys, an audit log.
 * A sentence or a meaning, and never a good signature. The first byte chooses.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "core/audit.h"
#include "core/token.h"
#include "serve/http/keys.h"

static const char *folder(void)
{
    static char path[] = "/tmp/fuzz-state-XXXXXX";
    static bool made; /* the name may end in X, too */

    if (!made && mkdtemp(path) == NULL) {
        abort();
    }
    made = true;
    return path;
}

__attribute__((destructor)) static void remove_folder(void)
{
    struct err ignored;

    (void)!fd_remove_tree(AT_FDCWD, folder(), &ignored);
}

static void token(struct str s)
{
    struct tokens *t = tokens_new(str_from(folder()));
    struct arena a own_arena = {0};
    struct str payload;
    struct err e;

    arena_init(&a, 1u << 20);
    if (token_read(t, TOKEN_FILE, s, &a, &payload, &e) == 0 || e.kind != ERR_DENIED) {
        abort();
    }
    tokens_free(t);
}

/* As the file of the state folder, and as the configuration's. */
static void keys(struct str s, bool configured)
{
    struct config config = {.state_dir = str_from(folder())};
    char path[64], name[KEY_NAME_MAX + 1];
    struct keys *k;
    struct err e;

    (void)snprintf(path, sizeof(path), "%s/%s", folder(), configured ? "extra" : "http_keys");
    if (fd_replace_file(AT_FDCWD, path, s, 0600, &e) < 0) {
        abort();
    }
    if (configured) {
        config.http_key_file = str_from(path);
    }
    k = keys_open(&config, &e);
    if (k != NULL && keys_check(k, S("0123456789abcdef"), name) && name[0] == '\0') {
        abort();
    }
    keys_close(k);
    (void)unlink(path);
}

static void audit(struct str s)
{
    int fd own_fd = memfd_create("audit", MFD_CLOEXEC);
    struct audit_verdict v;
    char path[64];
    struct err e;

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (fd_write_all(fd, s, &e) < 0 || audit_verify(str_from(path), &v, &e) < 0) {
        abort();
    }
    if (v.lines < 0 || v.torn < 0 || (v.broken_at > 0) != (v.reason[0] != '\0')) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str s;

    if (size == 0 || size > (1u << 18)) {
        return 0;
    }
    s = (struct str){(const char *)data + 1, size - 1};
    switch (data[0] % 4) {
    case 0: token(s); break;
    case 1: keys(s, false); break;
    case 2: keys(s, true); break;
    default: audit(s); break;
    }
    return 0;
}
