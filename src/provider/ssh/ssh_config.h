/*
 * ssh_config.h - what the user's own ssh configuration says about a host.
 *
 * `ssh -G host` is asked where ssh is installed: it knows every rule of the format. Elsewhere
 * a reader of our own takes Host blocks, wildcards and Include; Match blocks are left out,
 * which ssh_config_doctor() says. What anybox's own configuration gives always wins.
 */
#ifndef PROVIDER_SSH_SSH_CONFIG_H
#define PROVIDER_SSH_SSH_CONFIG_H

#include "base/ctx.h"
#include "base/err.h"
#include "base/str.h"
#include "provider/hosts.h"
#include "provider/provider.h"

/* Empty and 0: it says nothing. Strings point into the text that was read, or an arena. */
struct ssh_options {
    struct str host, user;
    int32_t port;
    struct str keys[SSH_KEYS_MAX]; /* IdentityFile, in order */
    size_t n_keys;
    struct str certificates[SSH_KEYS_MAX]; /* CertificateFile, in order */
    size_t n_certificates;
    struct str agent; /* IdentityAgent's socket */
    struct str known_hosts, host_key_alias;
    struct str proxy_jump, proxy_command;
    int32_t connect_timeout_s;
    bool strict;         /* StrictHostKeyChecking yes */
    bool no_agent;       /* IdentityAgent none */
    bool keys_only;      /* IdentitiesOnly yes */
    bool has_keys_word;  /* IdentitiesOnly was met; the first one counts */
    bool skipped_match;  /* the reader met a Match block */
    bool is_said;        /* anything at all was met that is about this host */
    bool has_trust_word; /* StrictHostKeyChecking was met; the first one counts */
};

/* What `ssh -G` printed. */
void ssh_config_answer(struct str text, struct ssh_options *out);

/* Reads a file that Include names: empty when it cannot be read. */
typedef struct str ssh_config_file_fn(void *arg, struct arena *a, struct str path);
/* Each file that an Include's pattern means. */
typedef void ssh_config_glob_fn(void *arg, struct arena *a, struct str pattern,
                                void (*each)(void *to, struct str path), void *to);

struct ssh_config_source {
    ssh_config_file_fn *file;
    ssh_config_glob_fn *glob;
    void *arg;
    struct str folder; /* of the user's file: what Include is relative to */
};

/* One file's text, as far as it is about `host`. May be called for several files in order: the
 * first value of an option counts. */
void ssh_config_read(struct arena *a, const struct ssh_config_source *from, struct str text,
                     struct str host, struct ssh_options *out);

/* "web-?.example.*" and "!bad" in a list with blanks. */
bool ssh_config_matches(struct str patterns, struct str host);

/*
 * *out is `given` with what the ssh configuration adds, and with its secrets fetched from
 * where they are kept; strings are in ctx->arena. Starts programs, so it is for the first
 * connection, not for open(). ERR_INVALID, ERR_DENIED and so on say what to correct; no
 * message holds a secret.
 */
int ssh_config_resolve(const struct ctx *ctx, const struct ssh_host *given, struct ssh_host *out,
                       struct err *e) MUST_CHECK;
/* One line: how names are looked up here. */
int ssh_config_doctor(const struct ctx *ctx, check_fn *each, void *arg, struct err *e) MUST_CHECK;

#endif
