/*
 * Who we are. The key when one is given, else the agent's keys; the password when there is no
 * key, or after a refused one where the operator allowed that. "keyboard-interactive" is
 * answered with the password.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "provider/ssh/machine.h"

#define KEY_FILE_MAX (64u << 10)
#define PROMPTS_MAX  8

typedef int auth_fn(struct session *s, void *arg);

/* Asks until there is an answer. enum ssh_auth_e, or SSH_AUTH_ERROR with *e. */
static int attempt(struct session *s, auth_fn *fn, void *arg, int64_t until_ms, struct err *e)
{
    for (;;) {
        int rc = fn(s, arg);

        if (rc == SSH_AUTH_ERROR) {
            (void)err_set(e, ERR_UNREACHABLE, "it broke off the login: %s",
                          s->lib->get_error(s->ssh));
            return rc;
        }
        if (rc != SSH_AUTH_AGAIN) {
            return rc;
        }
        if (session_wait(s, until_ms, e) < 0) {
            return SSH_AUTH_ERROR;
        }
    }
}

static int try_none(struct session *s, void *arg)
{
    (void)arg;
    return s->lib->userauth_none(s->ssh, NULL);
}

static int try_key(struct session *s, void *arg)
{
    return s->lib->userauth_publickey(s->ssh, NULL, arg);
}

static int try_agent(struct session *s, void *arg)
{
    (void)arg;
    return s->lib->userauth_agent(s->ssh, NULL);
}

static int try_password(struct session *s, void *arg)
{
    return s->lib->userauth_password(s->ssh, NULL, arg);
}

static int try_questions(struct session *s, void *arg)
{
    int rc = s->lib->userauth_kbdint(s->ssh, NULL, NULL);

    for (int round = 0; rc == SSH_AUTH_INFO && round < PROMPTS_MAX; round++) {
        int n = s->lib->userauth_kbdint_getnprompts(s->ssh);

        for (int i = 0; i < n; i++) {
            (void)s->lib->userauth_kbdint_setanswer(s->ssh, (unsigned)i, arg);
        }
        rc = s->lib->userauth_kbdint(s->ssh, NULL, NULL);
    }
    return rc == SSH_AUTH_INFO ? SSH_AUTH_DENIED : rc;
}

/* ---- the key ------------------------------------------------------------------------ */

static int refuse_key(const char *path, struct str text, bool has_passphrase, struct err *e)
{
    bool is_dss = memmem(text.p, text.len, "BEGIN DSA", 9) != NULL;
    bool is_locked = memmem(text.p, text.len, "ENCRYPTED", 9) != NULL ||
                     memmem(text.p, text.len, "BEGIN OPENSSH", 13) != NULL;

    if (is_dss) {
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
    (void)prompt;
    (void)to;
    (void)len;
    (void)echo;
    (void)verify;
    (void)arg;
    return -1;
}

/* A certificate lies beside its key, as OpenSSH has it. */
static void add_certificate(struct session *s, struct arena *a, const char *path, ssh_key key)
{
    const char *file = arena_printf(a, "%s-cert.pub", path).p;
    ssh_key cert = NULL;

    if (access(file, R_OK) == 0 && s->lib->pki_import_cert_file(file, &cert) == SSH_OK) {
        (void)s->lib->pki_copy_cert_to_privkey(cert, key);
        s->lib->key_free(cert);
    }
}

static int load_key(struct session *s, struct arena *a, const char *path, ssh_key *out,
                    struct err *e)
{
    struct str passphrase = s->machine->conf.key_passphrase;
    struct str text;

    if (fd_read_file(AT_FDCWD, path, KEY_FILE_MAX, a, &text, e) < 0) {
        return err_wrap(e, "the private key cannot be read");
    }
    int rc = s->lib->pki_import_privkey_file(path, passphrase.len > 0 ? passphrase.p : NULL,
                                             no_question, NULL, out);
    if (rc != SSH_OK) {
        (void)refuse_key(path, text, passphrase.len > 0, e);
    } else {
        add_certificate(s, a, path, *out);
    }
    explicit_bzero((void *)(uintptr_t)text.p, text.len);
    return rc == SSH_OK ? 0 : -1;
}

static int login_by_key(struct session *s, struct arena *a, int64_t until_ms, struct err *e)
{
    struct str home = str_from(getenv("HOME"));
    const char *path = arena_cstr(a, path_tilde(a, s->machine->conf.key_file, home));
    ssh_key key = NULL;

    if (load_key(s, a, path, &key, e) < 0) {
        return SSH_AUTH_ERROR;
    }
    int rc = attempt(s, try_key, key, until_ms, e);
    s->lib->key_free(key);
    return rc;
}

/* ---- all of it ----------------------------------------------------------------------- */

static int login_by_password(struct session *s, int64_t until_ms, struct err *e)
{
    void *secret = (void *)(uintptr_t)s->machine->conf.password.p;
    int offered = s->lib->userauth_list(s->ssh, NULL);
    int rc = SSH_AUTH_DENIED;

    if (offered & SSH_AUTH_METHOD_PASSWORD) {
        rc = attempt(s, try_password, secret, until_ms, e);
    }
    if (rc == SSH_AUTH_DENIED && (offered & SSH_AUTH_METHOD_INTERACTIVE)) {
        rc = attempt(s, try_questions, secret, until_ms, e);
    }
    return rc;
}

static int fail_login(struct session *s, const char *tried, struct err *e)
{
    int offered = s->lib->userauth_list(s->ssh, NULL);

    return err_set(e, ERR_DENIED,
                   "login failed: the server refused %s; it offers%s%s%s. Check the user's name "
                   "and credentials, and the host's sshd settings",
                   tried, offered & SSH_AUTH_METHOD_PUBLICKEY ? " publickey" : "",
                   offered & SSH_AUTH_METHOD_PASSWORD ? " password" : "",
                   offered & SSH_AUTH_METHOD_INTERACTIVE ? " keyboard-interactive" : "");
}

static bool has_agent(const struct machine *m)
{
    const char *socket = getenv("SSH_AUTH_SOCK");

    return !m->conf.no_agent && socket != NULL && socket[0] != '\0';
}

int session_login(struct session *s, int64_t until_ms, struct err *e)
{
    const struct ssh_host *conf = &s->machine->conf;
    struct arena a own_arena = {0};
    const char *tried = "a login without a key, a password or ssh-agent (none is configured)";
    int rc = attempt(s, try_none, NULL, until_ms, e);

    arena_init(&a, 1u << 20);
    if (rc == SSH_AUTH_DENIED && conf->key_file.len > 0) {
        tried = arena_printf(&a, "the key %.*s", STR_ARG(str_head(conf->key_file, 128))).p;
        rc = login_by_key(s, &a, until_ms, e);
    } else if (rc == SSH_AUTH_DENIED && conf->password.len == 0 && has_agent(s->machine)) {
        tried = "the keys of ssh-agent";
        rc = attempt(s, try_agent, NULL, until_ms, e);
    }
    bool may_fall = conf->key_file.len == 0 || conf->fallback;
    if ((rc == SSH_AUTH_DENIED || rc == SSH_AUTH_PARTIAL) && conf->password.len > 0 && may_fall) {
        tried = conf->key_file.len > 0 ? "the key and the password" : "the password";
        rc = login_by_password(s, until_ms, e);
    }
    if (rc == SSH_AUTH_SUCCESS) {
        return 0;
    }
    return rc == SSH_AUTH_ERROR ? -1 : fail_login(s, tried, e);
}
