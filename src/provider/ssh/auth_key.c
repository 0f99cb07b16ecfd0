/* Private keys in files, and OpenSSH certificates for them: "KEY-cert.pub" beside the key, or a
 * CertificateFile of the ssh configuration. */
#include <endian.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base64url.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "provider/ssh/auth.h"

#define KEY_FILE_MAX (64u << 10)

static bool has(struct str text, const char *word)
{
    return memmem(text.p, text.len, word, strlen(word)) != NULL;
}

static int refuse(const char *path, struct str text, bool has_passphrase, struct err *e)
{
    bool is_locked = has(text, "ENCRYPTED") || has(text, "BEGIN OPENSSH");

    if (has(text, "BEGIN DSA")) {
        return err_set(e, ERR_DENIED,
                       "the key %s is a DSS (DSA) key, which SSH servers no longer accept because "
                       "it is too weak. Make an Ed25519 key: ssh-keygen -t ed25519, and put its "
                       ".pub line into the host's ~/.ssh/authorized_keys",
                       path);
    }
    if (is_locked && has_passphrase) {
        return err_set(e, ERR_DENIED, "the passphrase given for the key %s does not fit", path);
    }
    if (is_locked) {
        return err_set(e, ERR_DENIED,
                       "the key %s cannot be read: it is encrypted and no passphrase is given (set "
                       "key_passphrase or REMOTE_KEY_PASSPHRASE, or add it to ssh-agent), or it is "
                       "damaged",
                       path);
    }
    return err_set(e, ERR_DENIED,
                   "%s is not a private key that can be read (Ed25519, ECDSA or RSA, in OpenSSH's "
                   "or PEM format)",
                   path);
}

/* No terminal is asked: without this libssh would. */
static int no_question(const char *prompt, char *to, size_t len, int echo, int verify, void *arg)
{
    if (len > 0) {
        to[0] = '\0';
    }
    (void)prompt;
    (void)echo;
    (void)verify;
    (void)arg;
    return -1;
}

static int import(struct session *s, const char *path, ssh_key *out)
{
    struct str passphrase = s->machine->conf.key_passphrase;

    return s->lib->pki_import_privkey_file(path, passphrase.len > 0 ? passphrase.p : NULL,
                                           no_question, NULL, out);
}

/* ---- certificates ------------------------------------------------------------------------- */

/* The public half as it goes over the wire: strings with a length in front. */
static int public_blob(const struct session *s, ssh_key key, struct buf *out)
{
    struct err ignored;
    char *text = NULL;

    if (s->lib->pki_export_pubkey_base64(key, &text) != SSH_OK) {
        return -1;
    }
    int rc = base64_read_strict(str_from(text), out, &ignored);
    s->lib->string_free_char(text);
    return rc;
}

static struct str skip_string(struct str blob)
{
    uint32_t big;

    if (blob.len < sizeof(big)) {
        return STR_EMPTY;
    }
    memcpy(&big, blob.p, sizeof(big));
    size_t end = sizeof(big) + (size_t)be32toh(big);
    return end <= blob.len ? str_skip(blob, end) : STR_EMPTY;
}

/* A certificate has a type and a nonce where a key has a type; then both have the same.
 * libssh's ssh_key_cmp() takes their types for different ones. */
static bool is_for(const struct session *s, ssh_key cert, ssh_key key)
{
    struct buf a own_buf = {0};
    struct buf b own_buf = {0};

    buf_init(&a, KEY_FILE_MAX);
    buf_init(&b, KEY_FILE_MAX);
    if (public_blob(s, cert, &a) < 0 || public_blob(s, key, &b) < 0) {
        return false;
    }
    struct str certified = skip_string(skip_string(buf_str(&a)));
    struct str plain = skip_string(buf_str(&b));
    return plain.len > 0 && str_starts(certified, plain);
}

/* The key once more, with this certificate, when it was made for it. */
static void certify(struct session *s, const char *file, struct auth_key *key)
{
    ssh_key cert = NULL;
    ssh_key copy = NULL;

    if (key->certified != NULL || access(file, R_OK) < 0 ||
        s->lib->pki_import_cert_file(file, &cert) != SSH_OK) {
        return;
    }
    if (is_for(s, cert, key->plain) && import(s, key->path, &copy) == SSH_OK) {
        if (s->lib->pki_copy_cert_to_privkey(cert, copy) == SSH_OK) {
            key->certified = copy;
        } else {
            s->lib->key_free(copy);
        }
    }
    s->lib->key_free(cert);
}

int auth_key_load(struct session *s, struct arena *a, struct str path, struct auth_key *out,
                  struct err *e)
{
    const struct ssh_host *conf = &s->machine->conf;
    struct str text;

    *out = (struct auth_key){.path = arena_cstr(a, path_tilde(a, path, str_from(getenv("HOME"))))};
    if (fd_read_file(AT_FDCWD, out->path, KEY_FILE_MAX, a, &text, e) < 0) {
        return err_wrap(e, "the private key cannot be read");
    }
    int rc = import(s, out->path, &out->plain);
    if (rc != SSH_OK) {
        (void)refuse(out->path, text, conf->key_passphrase.len > 0, e);
    }
    char *wiped;
    memcpy(&wiped, &text.p, sizeof(wiped));
    explicit_bzero(wiped, text.len);
    if (rc != SSH_OK) {
        return -1;
    }
    for (size_t i = 0; i < conf->n_certificates; i++) {
        certify(s, arena_cstr(a, conf->certificates[i]), out);
    }
    certify(s, arena_printf(a, "%s-cert.pub", out->path).p, out);
    return 0;
}

void auth_key_free(struct session *s, struct auth_key *key)
{
    s->lib->key_free(key->plain);
    s->lib->key_free(key->certified);
}
