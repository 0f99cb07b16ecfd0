/* Is this the host that we think it is? */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "provider/ssh/machine.h"

#define KNOWN_HOSTS_MAX (4u << 20)
#define PRINT_SIZE      128

const char *machine_known_hosts(const struct machine *m, struct arena *a)
{
    struct str file = m->conf.known_hosts.len > 0 ? m->conf.known_hosts : S("~/.ssh/known_hosts");

    return arena_cstr(a, path_tilde(a, file, str_from(getenv("HOME"))));
}

static void fingerprint(const struct libssh *lib, ssh_key key, char to[PRINT_SIZE])
{
    unsigned char *hash = NULL;
    size_t len = 0;
    char *text = NULL;

    (void)snprintf(to, PRINT_SIZE, "an unreadable key");
    if (key == NULL || lib->get_publickey_hash(key, SSH_PUBLICKEY_HASH_SHA256, &hash, &len) < 0) {
        return;
    }
    text = lib->get_fingerprint_hash(SSH_PUBLICKEY_HASH_SHA256, hash, len);
    if (text != NULL) {
        (void)snprintf(to, PRINT_SIZE, "%s %s", lib->key_type_to_char(lib->key_type(key)), text);
        lib->string_free_char(text);
    }
    lib->clean_pubkey_hash(&hash);
}

struct known {
    const char *file;
    int line;
    char print[PRINT_SIZE];
};

/* The first line of the file that names this host. */
static bool find_line(const struct session *s, struct arena *a, const char *file, const char *name,
                      struct known *out)
{
    struct err ignored = {0};
    struct str text, rest;
    int number = 0;

    if (fd_read_file(AT_FDCWD, file, KNOWN_HOSTS_MAX, a, &text, &ignored) < 0) {
        return false;
    }
    for (rest = text; rest.len > 0;) {
        const char *line = arena_cstr(a, str_cut(rest, '\n', &rest));
        struct ssh_knownhosts_entry *entry = NULL;

        number++;
        if (s->lib->known_hosts_parse_line(name, line, &entry) == SSH_OK && entry != NULL) {
            out->file = file;
            out->line = number;
            fingerprint(s->lib, entry->publickey, out->print);
            s->lib->knownhosts_entry_free(entry);
            return true;
        }
    }
    return false;
}

static struct str name_in_file(const struct machine *m, struct arena *a)
{
    if (m->conf.host_key_alias.len > 0) {
        return m->conf.host_key_alias;
    }
    if (machine_port(m) == SSH_PORT) {
        return m->conf.host;
    }
    return arena_printf(a, "[%.*s]:%d", STR_ARG(m->conf.host), machine_port(m));
}

static int fail_changed(struct session *s, const char *found, struct err *e)
{
    struct arena a own_arena = {0};
    struct known known = {.print = "another key"};

    arena_init(&a, (size_t)3 * KNOWN_HOSTS_MAX);
    const char *name = name_in_file(s->machine, &a).p;
    const char *own = machine_known_hosts(s->machine, &a);
    if (!find_line(s, &a, own, name, &known) &&
        !find_line(s, &a, "/etc/ssh/ssh_known_hosts", name, &known)) {
        known.file = own;
    }
    return err_set(e, ERR_DENIED,
                   "the host's key has CHANGED: it shows %s, but line %d of %s says %s. Somebody "
                   "may be in between. If the host was really set up anew, remove that line: "
                   "ssh-keygen -f '%s' -R '%s'",
                   found, known.line, known.file, known.print, known.file, name);
}

/* libssh makes the folder too, but fails when another connection was faster. */
static int make_folder(const struct machine *m, struct arena *a, struct err *e)
{
    struct str folder = path_dir(str_from(machine_known_hosts(m, a)));

    return fd_mkdirs(arena_cstr(a, folder), 0700, e);
}

static int accept_new(struct session *s, const char *found, struct err *e)
{
    struct arena a own_arena = {0};
    struct err why = {0};

    arena_init(&a, 1u << 16);
    if (s->machine->conf.trust == SSH_TRUST_STRICT) {
        return err_set(
            e, ERR_DENIED,
            "the host is not in known_hosts, and only known ones are trusted; it shows %s. "
            "Compare that with the host's own (ssh-keygen -lf "
            "/etc/ssh/ssh_host_ed25519_key.pub), then add it: ssh-keyscan -p %d %.*s",
            found, machine_port(s->machine), STR_ARG(s->machine->conf.host));
    }
    bool has_folder = make_folder(s->machine, &a, &why) == 0;
    if (!has_folder || s->lib->session_update_known_hosts(s->ssh) != SSH_OK) {
        return err_set(e, ERR_DENIED,
                       "the new host's key cannot be remembered in known_hosts: %s. Make that file "
                       "writable, or name another one",
                       has_folder ? s->lib->get_error(s->ssh) : why.msg);
    }
    return 0;
}

int session_check_key(struct session *s, struct err *e)
{
    enum ssh_known_hosts_e state = s->lib->session_is_known_server(s->ssh);
    char found[PRINT_SIZE] = "no key";
    ssh_key key = NULL;

    if (state == SSH_KNOWN_HOSTS_OK) {
        return 0;
    }
    if (s->lib->get_server_publickey(s->ssh, &key) == SSH_OK) {
        fingerprint(s->lib, key, found);
        s->lib->key_free(key);
    }
    switch (state) {
    case SSH_KNOWN_HOSTS_CHANGED:
    case SSH_KNOWN_HOSTS_OTHER: return fail_changed(s, found, e);
    case SSH_KNOWN_HOSTS_UNKNOWN:
    case SSH_KNOWN_HOSTS_NOT_FOUND: return accept_new(s, found, e);
    case SSH_KNOWN_HOSTS_OK: return 0;
    case SSH_KNOWN_HOSTS_ERROR: break;
    }
    return err_set(e, ERR_DENIED, "the host's key cannot be checked: %s",
                   s->lib->get_error(s->ssh));
}
