/*
 * libssh.h - libssh, opened when it is first needed: linking it would cost every start of the
 * stdio server several milliseconds and a crypto library. Its headers are used for types only.
 */
#ifndef PROVIDER_SSH_LIBSSH_H
#define PROVIDER_SSH_LIBSSH_H

#include <libssh/callbacks.h>
#include <libssh/libssh.h>
#include <libssh/server.h>

#include "base/err.h"

#define LIBSSH_FUNCTIONS(X)                                                                        \
    X(new)                                                                                         \
    X(free)                                                                                        \
    X(options_set)                                                                                 \
    X(set_blocking)                                                                                \
    X(set_counters)                                                                                \
    X(set_log_level)                                                                               \
    X(connect)                                                                                     \
    X(disconnect)                                                                                  \
    X(silent_disconnect)                                                                           \
    X(is_connected)                                                                                \
    X(get_fd)                                                                                      \
    X(get_error)                                                                                   \
    X(get_poll_flags)                                                                              \
    X(get_server_publickey)                                                                        \
    X(get_publickey_hash)                                                                          \
    X(get_fingerprint_hash)                                                                        \
    X(clean_pubkey_hash)                                                                           \
    X(string_free_char)                                                                            \
    X(send_keepalive)                                                                              \
    X(session_is_known_server)                                                                     \
    X(session_update_known_hosts)                                                                  \
    X(known_hosts_parse_line)                                                                      \
    X(knownhosts_entry_free)                                                                       \
    X(key_free)                                                                                    \
    X(key_type)                                                                                    \
    X(key_cmp)                                                                                     \
    X(key_type_to_char)                                                                            \
    X(pki_import_privkey_file)                                                                     \
    X(pki_import_cert_file)                                                                        \
    X(pki_export_pubkey_base64)                                                                    \
    X(pki_copy_cert_to_privkey)                                                                    \
    X(userauth_none)                                                                               \
    X(userauth_list)                                                                               \
    X(userauth_publickey)                                                                          \
    X(userauth_agent)                                                                              \
    X(userauth_password)                                                                           \
    X(userauth_kbdint)                                                                             \
    X(userauth_kbdint_getnprompts)                                                                 \
    X(userauth_kbdint_getprompt)                                                                   \
    X(userauth_kbdint_setanswer)                                                                   \
    X(event_new)                                                                                   \
    X(event_free)                                                                                  \
    X(event_add_fd)                                                                                \
    X(event_remove_fd)                                                                             \
    X(event_add_session)                                                                           \
    X(event_remove_session)                                                                        \
    X(event_dopoll)                                                                                \
    X(channel_new)                                                                                 \
    X(channel_free)                                                                                \
    X(channel_open_session)                                                                        \
    X(channel_open_forward)                                                                        \
    X(channel_request_exec)                                                                        \
    X(channel_request_send_signal)                                                                 \
    X(channel_request_subsystem)                                                                   \
    X(channel_read_nonblocking)                                                                    \
    X(channel_read_timeout)                                                                        \
    X(channel_write)                                                                               \
    X(channel_window_size)                                                                         \
    X(channel_send_eof)                                                                            \
    X(channel_is_eof)                                                                              \
    X(channel_is_closed)                                                                           \
    X(remove_channel_callbacks)                                                                    \
    X(set_channel_callbacks)

struct libssh {
#define MEMBER(name) __typeof__ (&ssh_##name)(name);
    LIBSSH_FUNCTIONS(MEMBER)
#undef MEMBER
};

/* The library, opened for good by whoever needs it first. NULL with ERR_UNSUPPORTED that
 * names the package that is missing. */
const struct libssh *libssh_open(struct err *e) MUST_CHECK;

#endif
