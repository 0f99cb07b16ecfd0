/*
 * config.h - what the operator wants, read once at start.
 *
 * Order: defaults, /etc/anybox/anybox.toml, $XDG_CONFIG_HOME/anybox/anybox.toml
 * (or ~/.config/...), or the one file that --config names; then the environment,
 * then flags. Every key is one row of settings.c, which drives parsing, checking,
 * `anybox doctor` and docs/config.md. A wrong key or value is an error with file,
 * line, column and the nearest right key.
 *
 * config_load() never fails: a configuration error must not stop the stdio server
 * from starting. What was wrong is kept in .problem, the rest has its defaults, and
 * the tools answer the problem with a hint.
 */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "config/hosts.h"
#include "config/tools.h"

struct config {
    struct arena arena; /* owns every string here */

    /* [server] */
    struct str toolset; /* "default", "remote-sandbox"...: --toolset, else argv[0], else default */
    int64_t max_calls;  /* concurrent tool calls; 64 */
    int64_t read_only;  /* 1: only tools that change nothing */
    struct str server_host; /* that `anybox serve` listens on; empty: 127.0.0.1 */
    int64_t server_port;    /* 0: 8000, or 3000 with --mode http */
    int64_t require_auth;   /* 0: like --no-auth */
    /* [http]; lists are texts with commas between them, for str_cut() */
    struct str http_keys;         /* "name:key" each, or "key": secrets */
    struct str http_key_file;     /* the same, one on a line; empty: none */
    struct str http_hosts;        /* names that Host may have, besides loopback's and our address */
    struct str http_cors_origins; /* of pages that may use us; "*": any */
    struct str http_public_url;   /* how clients reach us; empty: as they say in Host */
    int64_t http_max_connections;
    int64_t http_idle_s;       /* a connection without a request */
    int64_t http_request_s;    /* headers; a body that comes slowly */
    int64_t http_max_calls;    /* of one key at the same time */
    int64_t http_link_ttl_s;   /* how long a link to a file is good */
    int64_t http_max_upload;   /* bytes of a file that is put */
    int64_t http_open_metrics; /* 1: /metrics needs no key */
    /* [audit] */
    struct str audit_file;  /* empty: no audit log */
    int64_t audit_commands; /* 1: with the text of commands */
    /* [log] */
    struct str log_level;  /* "warning"; ANYBOX_LOG, MCP_LOG_LEVEL */
    struct str log_file;   /* empty: stderr */
    int64_t log_max_bytes; /* 10 MiB */
    int64_t log_backups;   /* 1 */
    /* [defaults] */
    struct str default_provider; /* "local"; "docker", "opensandbox" where those are configured */
    int64_t cleanup;             /* 1: boxes end when nobody uses them */
    int64_t cleanup_s;           /* after so long; 0: as their provider's settings say */
    int64_t exec_timeout_s;      /* 0: a call that names none hands over after exec_window_s */
    int64_t exec_window_s;       /* 45; 0: it waits to the end */
    int64_t max_output_chars;    /* 20000 */
    int64_t host_agent;          /* 1: SSH hosts get the agent unless they say otherwise */
    /* [sync] */
    struct str sync_roots;     /* folders with commas between them, for str_cut(); "~" is fine */
    int64_t sync_inline_files; /* 200: more to move than this goes to the background */
    int64_t sync_inline_bytes; /* 64 MiB */
    /* [local]: what a box gets that asks for nothing */
    int64_t memory_bytes; /* 0: half the machine's, at most 4 GiB */
    int64_t disk_bytes;   /* 0: a quarter of memory_bytes */
    int64_t cpu_millis;   /* 0: no limit */
    int64_t pids;         /* 1024 */
    int64_t open_files;   /* 4096 */
    int64_t idle_s;       /* 1800 */
    int64_t lifetime_s;   /* 0: no hard end unless asked */
    int64_t pool;         /* local boxes that are made in advance, at most */
    int64_t max_boxes;    /* 0: no limit; live boxes that we made, over all instances */
    int64_t host_network; /* 0: network "host" is refused */
    /* [docker]: containers; limits as above */
    struct str docker_host; /* "unix:///path", "tcp://host:port"; empty: where one usually is */
    struct str docker_cert_path;  /* folder of ca.pem, cert.pem and key.pem; empty: no TLS */
    struct str docker_tls_verify; /* not empty: TLS */
    int64_t docker_tls_insecure;
    struct str docker_config_dir; /* where docker login keeps its config.json; empty: ~/.docker */
    struct str docker_image;      /* of a box that names none */
    struct str docker_work_dir;   /* in the container */
    struct str docker_user;       /* "uid" or "uid:gid"; empty: the image's, or 1000 */
    struct str docker_network;    /* of the engine, for "internet" */
    int64_t docker_memory, docker_memswap, docker_disk, docker_cpu_millis, docker_pids;
    int64_t docker_open_files, docker_idle_s, docker_lifetime_s;
    int64_t docker_read_only;     /* 1: the root file system */
    int64_t docker_host_network;  /* 0: network "host" is refused */
    int64_t docker_gpu;           /* 0: gpu is refused */
    int64_t docker_agent;         /* 0: ours is not brought into containers */
    int64_t docker_pull;          /* 1: a missing image is pulled when it is wanted */
    int64_t docker_prepull;       /* 1: and already when `anybox serve` starts */
    int64_t docker_mount;         /* 1: a folder of this machine is a box's work folder */
    struct str docker_mount_root; /* below this one; empty: data beside the configuration */
    /* [opensandbox] */
    struct str open_server; /* empty: no platform is configured */
    struct str open_key;    /* a secret */
    struct str open_image;
    int64_t open_timeout_s;
    int64_t open_auto_renew, open_delete;
    struct str open_connection; /* "auto", "direct", "proxy" */
    struct str open_work_dir, open_entrypoint, open_ca_file;
    int64_t open_create_s, open_request_s;
    /* [mirror]: where Python packages come from */
    struct str pypi_index_url;    /* may have a user and a secret; empty: installers' own default */
    struct str mirror_file_hosts; /* "host" or "host:port" with commas between them */
    int64_t mirror_max_file;      /* bytes */

    struct str
        state_dir; /* $ANYBOX_HOME, $REMOTE_SANDBOX_MCP_HOME, $XDG_STATE_HOME/anybox, ~/.local/state/anybox */
    struct str home;        /* the user's; absolute, or empty: not known */
    struct str folder;      /* where we were started: CLAUDE_PROJECT_DIR, else the working folder */
    struct str program;     /* argv[0]'s base name */
    struct str files;       /* the files that were read, for doctor: "a, b" */
    struct str file;        /* the one in which the operator would change something */
    struct str named_file;  /* that --config named, absolute; or empty */
    struct str elsewhere;   /* empty, or what says that boxes are made elsewhere, such as a
                             * variable: no local box is made by itself in their place */
    struct str problem;     /* empty, or the sentence that tools answer */
    struct str runtime_dir; /* $XDG_RUNTIME_DIR, absolute; or empty */

    struct config_host *hosts; /* SSH hosts that are right, in the configured order */
    size_t n_hosts;
    struct str hosts_problem;  /* empty, or what is wrong with the others */
    int64_t hosts_more;        /* how many are wrong besides the one in hosts_problem */
    struct config_tool *tools; /* that the operator added */
    size_t n_tools;
    struct str tools_problem; /* empty, or what is wrong with the others */
    int64_t remote_list_len;  /* of REMOTE_SANDBOX_LIST; 0: not set */
    bool remote_host_set;     /* REMOTE_HOST */
    bool once;                /* as struct config_flags has it */
    bool open_file;           /* an OpenSandbox MCP server's config.json was read */
};

/* One setting as documentation sees it. */
struct setting_doc {
    const char *key;      /* "local.memory" */
    const char *type;     /* "size", "integer", "string"... */
    const char *fallback; /* as text */
    const char *env;      /* variable, or NULL */
    const char *help;
};
size_t config_settings(const struct setting_doc **out);
/* The same for the keys of a [[ssh]] table. */
size_t config_host_keys(const struct setting_doc **out);

struct config_flags { /* from the command line; empty: not given */
    struct str config_file;
    struct str toolset;
    struct str program; /* argv[0] */
    bool once;          /* one command and no more: nothing is made in advance */
};

void config_load(struct config *c, const struct config_flags *flags);
void config_fini(struct config *c);

/* All of it for a process of the same program that works for us (base/pack.h), with the
 * secrets: it may go through a pipe, and nowhere else. */
void config_pack(const struct config *c, struct buf *to);
/* Instead of config_load(). The arena is ready for config_fini() in any case. */
int config_unpack(struct config *c, struct str *rest, struct err *e) MUST_CHECK;

/* The current value of a setting, as text (for doctor). */
struct str config_show(const struct config *c, const char *key, struct arena *a);

#endif
