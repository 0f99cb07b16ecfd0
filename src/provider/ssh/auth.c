/*
 * Who we are. The key when one is given, else the keys that ~/.ssh/config names, in its order,
 * and the agent's; the password when there is no key, or after one that was refused or cannot
 * be used where the operator allowed that, or where the server wants both.
 * "keyboard-interactive" is answered with the password, when a password is all it asks for.
 */
#include "provider/ssh/auth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/plain.h"

#define PROMPT_SHOWN 60

/* One login: how far it came, and what there is to say when it fails. */
struct login {
    struct session *session;
    struct arena *arena;
    int64_t until_ms;
    ssh_key key;                  /* that is tried now */
    struct buf tried;             /* "the key a, the key b" */
    struct err problem;           /* the first key that cannot be used; .kind is ERR_NONE: none */
    bool is_answered;             /* the server's questions got the password */
    char asked[PROMPT_SHOWN * 2]; /* what it wanted to know beyond it */
};

typedef int auth_fn(struct login *l);

/* Asks until there is an answer. enum ssh_auth_e, or SSH_AUTH_ERROR with *e. */
static int attempt(struct login *l, auth_fn *fn, struct err *e)
{
    struct session *s = l->session;

    for (;;) {
        int rc = fn(l);

        if (rc == SSH_AUTH_ERROR) {
            (void)err_set(e, ERR_UNREACHABLE, "it broke off the login: %s",
                          s->lib->get_error(s->ssh));
            return rc;
        }
        if (rc != SSH_AUTH_AGAIN) {
            return rc;
        }
        if (session_wait(s, l->until_ms, e) < 0) {
            return SSH_AUTH_ERROR;
        }
    }
}

static int try_none(struct login *l)
{
    return l->session->lib->userauth_none(l->session->ssh, NULL);
}

static int try_key(struct login *l)
{
    return l->session->lib->userauth_publickey(l->session->ssh, NULL, l->key);
}

static int try_agent(struct login *l)
{
    return l->session->lib->userauth_agent(l->session->ssh, NULL);
}

static int try_password(struct login *l)
{
    struct session *s = l->session;

    return s->lib->userauth_password(s->ssh, NULL, s->machine->conf.password.p);
}

/* ---- questions ------------------------------------------------------------------------ */

static void note_question(struct login *l, unsigned i)
{
    char echo;
    struct session *s = l->session;
    struct str prompt = str_from(s->lib->userauth_kbdint_getprompt(s->ssh, i, &echo));
    struct buf text own_buf = {0};

    buf_init(&text, sizeof(l->asked) - 1);
    plain_text(str_head(str_trim(prompt), PROMPT_SHOWN), &text);
    (void)snprintf(l->asked, sizeof(l->asked), "%.*s", STR_ARG(buf_str(&text)));
}

/* The password is the answer to one hidden question. Who asks for more, a code or a new password,
 * does not get it in place of that. */
static int try_questions(struct login *l)
{
    struct session *s = l->session;
    int rc = s->lib->userauth_kbdint(s->ssh, NULL, NULL);

    while (rc == SSH_AUTH_INFO) {
        int n = s->lib->userauth_kbdint_getnprompts(s->ssh);
        char echo = 1;

        if (n > 0) {
            (void)s->lib->userauth_kbdint_getprompt(s->ssh, 0, &echo);
        }
        if (n > 1 || (n == 1 && (l->is_answered || echo))) {
            note_question(l, n > 1 ? 1 : 0);
            return SSH_AUTH_DENIED;
        }
        if (n == 1) {
            (void)s->lib->userauth_kbdint_setanswer(s->ssh, 0, s->machine->conf.password.p);
            l->is_answered = true;
        }
        rc = s->lib->userauth_kbdint(s->ssh, NULL, NULL);
    }
    return rc;
}

/* ---- the ways -------------------------------------------------------------------------- */

static void note(struct login *l, const char *what, struct str name)
{
    buf_addf(&l->tried, "%s%s%.*s", l->tried.len > 0 ? ", " : "", what,
             STR_ARG(str_head(name, 128)));
}

/* A certificate that is not accepted any more does not hide the key. */
static int login_by_key(struct login *l, struct str path, struct err *e)
{
    struct auth_key key;
    struct err why;
    int rc = SSH_AUTH_DENIED;

    if (auth_key_load(l->session, l->arena, path, &key, &why) < 0) {
        l->problem = l->problem.kind == ERR_NONE ? why : l->problem;
        return SSH_AUTH_DENIED;
    }
    if (key.certified != NULL) {
        note(l, "the certificate of ", path);
        l->key = key.certified;
        rc = attempt(l, try_key, e);
    }
    if (rc == SSH_AUTH_DENIED) {
        note(l, "the key ", path);
        l->key = key.plain;
        rc = attempt(l, try_key, e);
    }
    auth_key_free(l->session, &key);
    return rc;
}

static int login_by_keys(struct login *l, struct err *e)
{
    const struct ssh_host *conf = &l->session->machine->conf;
    int rc = SSH_AUTH_DENIED;

    if (conf->key_file.len > 0) {
        return login_by_key(l, conf->key_file, e);
    }
    for (size_t i = 0; i < conf->n_more_keys && rc == SSH_AUTH_DENIED; i++) {
        rc = login_by_key(l, conf->more_keys[i], e);
    }
    return rc;
}

/* It is asked for want of anything else, or for a key that we cannot read ourselves. */
static bool may_ask_agent(const struct login *l)
{
    const struct ssh_host *conf = &l->session->machine->conf;
    const char *socket = getenv("SSH_AUTH_SOCK");
    bool is_there = conf->agent_socket.len > 0 || (socket != NULL && socket[0] != '\0');

    if (conf->no_agent || !is_there) {
        return false;
    }
    if (conf->key_file.len > 0) {
        return l->problem.kind != ERR_NONE && conf->key_passphrase.len == 0;
    }
    return conf->password.len == 0 && !(conf->keys_only && l->problem.kind == ERR_NONE);
}

static int login_by_agent(struct login *l, struct err *e)
{
    struct session *s = l->session;
    struct str socket = s->machine->conf.agent_socket;

    if (socket.len > 0) {
        (void)s->lib->options_set(s->ssh, SSH_OPTIONS_IDENTITY_AGENT, socket.p);
    }
    note(l, "the keys of ssh-agent", STR_EMPTY);
    return attempt(l, try_agent, e);
}

static int login_by_password(struct login *l, struct err *e)
{
    struct session *s = l->session;
    int offered = s->lib->userauth_list(s->ssh, NULL);
    int rc = SSH_AUTH_DENIED;

    note(l, "the password", STR_EMPTY);
    if (offered & SSH_AUTH_METHOD_PASSWORD) {
        rc = attempt(l, try_password, e);
    }
    if (rc == SSH_AUTH_DENIED && (offered & SSH_AUTH_METHOD_INTERACTIVE)) {
        rc = attempt(l, try_questions, e);
    }
    return rc;
}

/* ---- all of it ----------------------------------------------------------------------- */

static int fail_login(struct login *l, bool is_partial, struct err *e)
{
    struct session *s = l->session;
    int offered = s->lib->userauth_list(s->ssh, NULL);

    if (l->asked[0] != '\0') {
        return err_set(
            e, ERR_DENIED,
            "login failed: the server asks \"%s\", which only a person can answer. Use a "
            "key that it accepts without a question",
            l->asked);
    }
    if (l->tried.len == 0 && l->problem.kind != ERR_NONE) {
        *e = l->problem;
        return -1;
    }
    if (l->tried.len == 0) {
        note(l, "a login without a key, a password or ssh-agent (none is configured)", STR_EMPTY);
    }
    (void)err_set(e, ERR_DENIED,
                  "login failed: the server %s %.*s; it %s%s%s%s. Check the user's name and "
                  "credentials, and the host's sshd settings",
                  is_partial ? "accepted but wants more than" : "refused",
                  STR_ARG(buf_str(&l->tried)), is_partial ? "also wants" : "offers",
                  offered & SSH_AUTH_METHOD_PUBLICKEY ? " publickey" : "",
                  offered & SSH_AUTH_METHOD_PASSWORD ? " password" : "",
                  offered & SSH_AUTH_METHOD_INTERACTIVE ? " keyboard-interactive" : "");
    return l->problem.kind != ERR_NONE ? err_wrap(e, "%s", l->problem.msg) : -1;
}

/* "none" asks what the server offers, or lets us in where nothing is wanted. That is a round
 * trip, so a key that was named goes first: a refusal tells what is offered, too. */
static int log_in_first(struct login *l, struct err *e)
{
    bool has_key = l->session->machine->conf.key_file.len > 0;
    int rc = has_key ? login_by_keys(l, e) : attempt(l, try_none, e);

    if (rc != SSH_AUTH_DENIED) {
        return rc;
    }
    if (!has_key) {
        return login_by_keys(l, e);
    }
    return l->tried.len == 0 ? attempt(l, try_none, e) : rc;
}

static int log_in(struct login *l, struct err *e)
{
    const struct ssh_host *conf = &l->session->machine->conf;
    int rc = log_in_first(l, e);

    if (rc == SSH_AUTH_DENIED && may_ask_agent(l)) {
        rc = login_by_agent(l, e);
    }
    bool may_fall = conf->key_file.len == 0 || conf->fallback;
    if (conf->password.len > 0 && (rc == SSH_AUTH_PARTIAL || (rc == SSH_AUTH_DENIED && may_fall))) {
        rc = login_by_password(l, e);
    }
    if (rc == SSH_AUTH_DENIED && conf->key_file.len > 0) {
        rc = attempt(l, try_none, e);
    }
    if (rc == SSH_AUTH_SUCCESS) {
        return 0;
    }
    return rc == SSH_AUTH_ERROR ? -1 : fail_login(l, rc == SSH_AUTH_PARTIAL, e);
}

int session_login(struct session *s, int64_t until_ms, struct err *e)
{
    struct arena a own_arena = {0};
    struct login l = {.session = s, .arena = &a, .until_ms = until_ms};

    arena_init(&a, 1u << 20);
    buf_init(&l.tried, 400);
    int rc = log_in(&l, e);
    buf_fini(&l.tried);
    return rc;
}
