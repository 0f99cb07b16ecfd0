/*
 * settings.c - one row per setting. The row drives reading from file and environment,
 * the checks and their sentences, `anybox doctor` and docs/config.md: to add a setting,
 * add a field to struct config and a row here.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/path.h"
#include "config/settings_own.h"

#define INT32_TOP 2147483647ll
#define SIZE_TOP  (1ll << 50)

/* key, type, field, min, max, fallback, variables (the first that is set counts), help.
 * min applies to values other than 0 where 0 has a meaning of its own (ZERO). */
#define NO_ZERO false
#define ZERO    true
#define SETTINGS(X)                                                                                \
    X("server.toolset", STRING, toolset, 0, 200, NO_ZERO, "", "ANYBOX_SERVER_TOOLSET",             \
      "tools that clients are shown: default, remote-sandbox, opensandbox, mcp-sandbox, "          \
      "advanced, all, or several with commas; empty: by the name of the program, else by the "     \
      "seed configuration that is present, else default")                                          \
    X("server.max_calls", INTEGER, max_calls, 1, 1024, NO_ZERO, "64", "ANYBOX_SERVER_MAX_CALLS",   \
      "tool calls that run at the same time")                                                      \
    X("server.read_only", BOOLEAN, read_only, 0, 1, NO_ZERO, "false", "ANYBOX_SERVER_READ_ONLY",   \
      "clients may look and read, but not create, run, write or delete")                           \
    X("server.host", STRING, server_host, 0, 255, NO_ZERO, "", "ANYBOX_SERVER_HOST, APP_HOST",     \
      "address or name that `anybox serve` listens on; empty: 127.0.0.1, this machine only")       \
    X("server.port", INTEGER, server_port, 1, 65535, ZERO, "0", "ANYBOX_SERVER_PORT, APP_PORT",    \
      "port of `anybox serve`; 0: 8000")                                                           \
    X("auth.require_auth", BOOLEAN, require_auth, 0, 1, NO_ZERO, "true",                           \
      "ANYBOX_AUTH_REQUIRE_AUTH",                                                                  \
      "whether clients of `anybox serve` need a key; false only where it listens on this machine") \
    X("http.hosts", LIST, http_hosts, 0, 4096, NO_ZERO, "", "ANYBOX_HTTP_HOSTS",                   \
      "names that clients may call this server by, such as a proxy's; localhost and addresses "    \
      "that it listens on need not be listed")                                                     \
    X("http.cors_origins", LIST, http_cors_origins, 0, 4096, NO_ZERO, "",                          \
      "ANYBOX_HTTP_CORS_ORIGINS",                                                                  \
      "origins of pages that may use this server, such as https://app.example.com; * means any")   \
    X("http.public_url", STRING, http_public_url, 0, 1024, NO_ZERO, "", "ANYBOX_HTTP_PUBLIC_URL",  \
      "how clients reach this server, for links that it hands out; empty: as they name it")        \
    X("http.max_connections", INTEGER, http_max_connections, 8, 65536, NO_ZERO, "4096",            \
      "ANYBOX_HTTP_MAX_CONNECTIONS", "connections at the same time")                               \
    X("http.idle_timeout", SECONDS, http_idle_s, 1, 86400, NO_ZERO, "75",                          \
      "ANYBOX_HTTP_IDLE_TIMEOUT",                                                                  \
      "seconds that a connection may be kept without a request, or take nothing of an answer")     \
    X("http.request_timeout", SECONDS, http_request_s, 1, 86400, NO_ZERO, "30",                    \
      "ANYBOX_HTTP_REQUEST_TIMEOUT",                                                               \
      "seconds that a client may take to send headers, and a body at less than 1 KiB/s")           \
    X("http.max_calls", INTEGER, http_max_calls, 1, 1024, NO_ZERO, "32", "ANYBOX_HTTP_MAX_CALLS",  \
      "calls of one key that run at the same time")                                                \
    X("http.keys", SECRETS, http_keys, 0, 65536, NO_ZERO, "", "ANYBOX_HTTP_KEYS, ANYBOX_HTTP_KEY", \
      "API keys beside those of `anybox key`, each as name:key, or one as key alone (its name is " \
      "then config): at least 16 letters, digits and -._~+/ each")                                 \
    X("http.key_file", PATH, http_key_file, 0, 4096, NO_ZERO, "", "ANYBOX_HTTP_KEY_FILE",          \
      "file with such keys, one on a line; only you may be able to read it")                       \
    X("http.link_ttl", SECONDS, http_link_ttl_s, 1, 31536000, NO_ZERO, "3600",                     \
      "ANYBOX_HTTP_LINK_TTL",                                                                      \
      "seconds for which a link to a file of a sandbox, as tools hand them out, is good")          \
    X("http.max_upload", SIZE, http_max_upload, 1, SIZE_TOP, NO_ZERO, "4g",                        \
      "ANYBOX_HTTP_MAX_UPLOAD", "size of a file that is sent with PUT /sandbox/file, at most")     \
    X("http.open_metrics", BOOLEAN, http_open_metrics, 0, 1, NO_ZERO, "false",                     \
      "ANYBOX_HTTP_OPEN_METRICS", "whether GET /metrics needs no key")                             \
    X("audit.file", PATH, audit_file, 0, 4096, NO_ZERO, "", "ANYBOX_AUDIT_FILE",                   \
      "file to which one line is appended for each tool call, each with the hash of the line "     \
      "before it; empty: none")                                                                    \
    X("audit.commands", BOOLEAN, audit_commands, 0, 1, NO_ZERO, "false", "ANYBOX_AUDIT_COMMANDS",  \
      "the audit log also tells commands as text, not only as a digest")                           \
    X("log.level", LEVEL, log_level, 0, 16, NO_ZERO, "warning",                                    \
      "ANYBOX_LOG_LEVEL, ANYBOX_LOG, MCP_LOG_LEVEL", "debug, info, warning, error, critical, off") \
    X("log.file", PATH, log_file, 0, 4096, NO_ZERO, "", "ANYBOX_LOG_FILE",                         \
      "file to append the log to; empty: stderr")                                                  \
    X("log.max_size", SIZE, log_max_bytes, 4096, SIZE_TOP, NO_ZERO, "10m", "ANYBOX_LOG_MAX_SIZE",  \
      "size at which the log file is renamed to <file>.1 and begun anew")                          \
    X("log.backups", INTEGER, log_backups, 0, 100, NO_ZERO, "1", "ANYBOX_LOG_BACKUPS",             \
      "full log files that are kept, as <file>.1, <file>.2 and so on; 0: none")                    \
    X("defaults.provider", STRING, default_provider, 0, 64, NO_ZERO, "",                           \
      "ANYBOX_DEFAULTS_PROVIDER",                                                                  \
      "provider of a sandbox whose creator names none; empty: docker with the configuration of "   \
      "an MCP Sandbox, opensandbox where a server or its "                                         \
      "toolset is configured, else local")                                                         \
    X("defaults.cleanup", BOOLEAN, cleanup, 0, 1, NO_ZERO, "true", "ANYBOX_DEFAULTS_CLEANUP",      \
      "whether sandboxes end by themselves when nobody uses them; an OpenSandbox platform ends "   \
      "them in any case")                                                                          \
    X("defaults.cleanup_after", SECONDS, cleanup_s, 60, INT32_TOP, ZERO, "0",                      \
      "ANYBOX_DEFAULTS_CLEANUP_AFTER",                                                             \
      "seconds without use after which a sandbox of any provider that makes them ends, unless "    \
      "its creator says; 0: as local.idle and opensandbox.timeout say")                            \
    X("defaults.exec_timeout", SECONDS, exec_timeout_s, 1, INT32_TOP, ZERO, "0",                   \
      "ANYBOX_DEFAULTS_EXEC_TIMEOUT",                                                              \
      "seconds after which a command is ended that named no time-out; 0: it is handed over, see "  \
      "exec_window")                                                                               \
    X("defaults.exec_window", SECONDS, exec_window_s, 1, INT32_TOP, ZERO, "45",                    \
      "ANYBOX_DEFAULTS_EXEC_WINDOW",                                                               \
      "seconds that a call waits for a command without a time-out before it hands over a task; "   \
      "0: to its end")                                                                             \
    X("defaults.max_output_chars", INTEGER, max_output_chars, 100, 800000, NO_ZERO, "20000",       \
      "ANYBOX_DEFAULTS_MAX_OUTPUT_CHARS",                                                          \
      "characters of each output stream in an answer that named no limit")                         \
    X("defaults.host_agent", BOOLEAN, host_agent, 0, 1, NO_ZERO, "true",                           \
      "ANYBOX_DEFAULTS_HOST_AGENT",                                                                \
      "whether an SSH host gets the agent whose own table says nothing about it; false is as "     \
      "agent = \"never\" in each")                                                                 \
    X("sync.allowed_roots", LIST, sync_roots, 0, 65536, NO_ZERO, "", "ANYBOX_SYNC_ALLOWED_ROOTS",  \
      "folders of this machine that may be synced, with all below them, beside those that the "    \
      "client works in; over HTTP only these")                                                     \
    X("sync.inline_max_files", INTEGER, sync_inline_files, -INT32_TOP, INT32_TOP, NO_ZERO, "200",  \
      "ANYBOX_SYNC_INLINE_MAX_FILES, REMOTE_SANDBOX_INLINE_SYNC_MAX_FILES",                        \
      "a sync that must move more files than this goes on in the background; 0: each one")         \
    X("sync.inline_max_bytes", SIZE, sync_inline_bytes, 0, SIZE_TOP, NO_ZERO, "64m",               \
      "ANYBOX_SYNC_INLINE_MAX_BYTES, REMOTE_SANDBOX_INLINE_SYNC_MAX_BYTES", "the same for bytes")  \
    X("local.memory", SIZE, memory_bytes, 16ll << 20, SIZE_TOP, ZERO, "0", "ANYBOX_LOCAL_MEMORY",  \
      "memory of a local sandbox; 0: half of the machine's, at most 4 GiB")                        \
    X("local.disk", SIZE, disk_bytes, 1ll << 20, SIZE_TOP, ZERO, "0", "ANYBOX_LOCAL_DISK",         \
      "space for files of a local sandbox, held in memory; 0: a quarter of its memory")            \
    X("local.cpus", MILLIS, cpu_millis, 10, 1024000, ZERO, "0", "ANYBOX_LOCAL_CPUS",               \
      "processors a local sandbox may use, such as 1.5; 0: no limit")                              \
    X("local.pids", INTEGER, pids, 16, 4194304, NO_ZERO, "1024", "ANYBOX_LOCAL_PIDS",              \
      "processes and threads in a local sandbox")                                                  \
    X("local.open_files", INTEGER, open_files, 64, 1048576, NO_ZERO, "4096",                       \
      "ANYBOX_LOCAL_OPEN_FILES", "open files of each process in a local sandbox")                  \
    X("local.idle", SECONDS, idle_s, 10, INT32_TOP, ZERO, "1800", "ANYBOX_LOCAL_IDLE",             \
      "seconds without use after which a local sandbox ends; 0: never")                            \
    X("local.lifetime", SECONDS, lifetime_s, 1, INT32_TOP, ZERO, "0", "ANYBOX_LOCAL_LIFETIME",     \
      "seconds after which a local sandbox ends in any case; 0: none")                             \
    X("local.max_boxes", INTEGER, max_boxes, 1, 1000000, ZERO, "0", "ANYBOX_LOCAL_MAX_BOXES",      \
      "local sandboxes at the same time, over all running instances; 0: no limit")                 \
    X("local.pool", INTEGER, pool, 1, 64, ZERO, "8", "ANYBOX_LOCAL_POOL",                          \
      "local sandboxes made in advance, at most, once the first was asked for; 0: none")           \
    X("local.allow_host_network", BOOLEAN, host_network, 0, 1, NO_ZERO, "false",                   \
      "ANYBOX_LOCAL_ALLOW_HOST_NETWORK",                                                           \
      "whether a local sandbox may ask for network host: this machine's own network, its "         \
      "loopback and all that listens there included")                                              \
    X("docker.host", STRING, docker_host, 0, 4096, NO_ZERO, "",                                    \
      "ANYBOX_DOCKER_HOST, DOCKER_HOST, CONTAINER_HOST",                                           \
      "address of the container engine: unix:///path or tcp://host:port; empty: the socket of "    \
      "Docker or Podman at its usual place")                                                       \
    X("docker.cert_path", PATH, docker_cert_path, 0, 4096, NO_ZERO, "",                            \
      "ANYBOX_DOCKER_CERT_PATH, DOCKER_CERT_PATH",                                                 \
      "folder with ca.pem, cert.pem and key.pem for an engine that is reached by TLS")             \
    X("docker.tls_verify", STRING, docker_tls_verify, 0, 64, NO_ZERO, "",                          \
      "ANYBOX_DOCKER_TLS_VERIFY, DOCKER_TLS_VERIFY",                                               \
      "if set, tcp:// means TLS also without cert_path; certificates are verified in any case")    \
    X("docker.tls_insecure", BOOLEAN, docker_tls_insecure, 0, 1, NO_ZERO, "false",                 \
      "ANYBOX_DOCKER_TLS_INSECURE", "whether an engine's certificate is not verified")             \
    X("docker.config_dir", PATH, docker_config_dir, 0, 4096, NO_ZERO, "",                          \
      "ANYBOX_DOCKER_CONFIG_DIR, DOCKER_CONFIG",                                                   \
      "folder in which docker login keeps config.json; empty: ~/.docker")                          \
    X("docker.default_image", STRING, docker_image, 1, 255, NO_ZERO, "python-sandbox:latest",      \
      "ANYBOX_DOCKER_DEFAULT_IMAGE",                                                               \
      "image of a container whose creator names none; anybox image make --docker makes it")        \
    X("docker.container_work_dir", STRING, docker_work_dir, 2, 90, NO_ZERO, "/app/results",        \
      "ANYBOX_DOCKER_CONTAINER_WORK_DIR",                                                          \
      "folder that commands start in; /workspace and /app/results lead to it, too")                \
    X("docker.user", STRING, docker_user, 0, 32, NO_ZERO, "", "ANYBOX_DOCKER_USER",                \
      "uid or uid:gid of code in a container; empty: the image's own user, and 1000 where that "   \
      "is root")                                                                                   \
    X("docker.network", STRING, docker_network, 1, 128, NO_ZERO, "bridge",                         \
      "ANYBOX_DOCKER_NETWORK",                                                                     \
      "the engine's network of a container that asks for network internet")                        \
    X("docker.mem_limit", SIZE, docker_memory, 16ll << 20, SIZE_TOP, ZERO, "1g",                   \
      "ANYBOX_DOCKER_MEM_LIMIT", "memory of a container; 0: no limit")                             \
    X("docker.memswap_limit", SIZE, docker_memswap, 16ll << 20, SIZE_TOP, ZERO, "1g",              \
      "ANYBOX_DOCKER_MEMSWAP_LIMIT",                                                               \
      "memory and swap of a container together; no more than its memory: no swap")                 \
    X("docker.disk", SIZE, docker_disk, 1ll << 20, SIZE_TOP, ZERO, "0", "ANYBOX_DOCKER_DISK",      \
      "space for files of a container; needs overlay2 on xfs with pquota, or read_only; 0: no "    \
      "limit")                                                                                     \
    X("docker.cpus", MILLIS, docker_cpu_millis, 10, 1024000, ZERO, "1", "ANYBOX_DOCKER_CPUS",      \
      "processors a container may use, such as 0.5; 0: no limit")                                  \
    X("docker.pids", INTEGER, docker_pids, 16, 4194304, ZERO, "1024", "ANYBOX_DOCKER_PIDS",        \
      "processes and threads in a container; 0: no limit")                                         \
    X("docker.open_files", INTEGER, docker_open_files, 64, 1048576, NO_ZERO, "4096",               \
      "ANYBOX_DOCKER_OPEN_FILES", "open files of each process in a container")                     \
    X("docker.idle", SECONDS, docker_idle_s, 10, INT32_TOP, ZERO, "1800", "ANYBOX_DOCKER_IDLE",    \
      "seconds without use after which a container ends; 0: never")                                \
    X("docker.lifetime", SECONDS, docker_lifetime_s, 1, INT32_TOP, ZERO, "0",                      \
      "ANYBOX_DOCKER_LIFETIME", "seconds after which a container ends in any case; 0: none")       \
    X("docker.read_only", BOOLEAN, docker_read_only, 0, 1, NO_ZERO, "false",                       \
      "ANYBOX_DOCKER_READ_ONLY",                                                                   \
      "whether a container's root is read-only; work folder, home and /tmp stay writable")         \
    X("docker.allow_host_network", BOOLEAN, docker_host_network, 0, 1, NO_ZERO, "false",           \
      "ANYBOX_DOCKER_ALLOW_HOST_NETWORK",                                                          \
      "whether a container may ask for network host: that of the engine's machine")                \
    X("docker.allow_gpu", BOOLEAN, docker_gpu, 0, 1, NO_ZERO, "false", "ANYBOX_DOCKER_ALLOW_GPU",  \
      "whether a container may ask for gpu: all GPUs of the engine's machine")                     \
    X("docker.agent", BOOLEAN, docker_agent, 0, 1, NO_ZERO, "true", "ANYBOX_DOCKER_AGENT",         \
      "whether containers get the agent; false, or where it cannot run: the engine's own exec, "   \
      "which is slower and has no ports and no changes of the lifetime")                           \
    X("docker.pull", BOOLEAN, docker_pull, 0, 1, NO_ZERO, "true", "ANYBOX_DOCKER_PULL",            \
      "whether an image that is not there is pulled when a container is made of it")               \
    X("docker.prepull", BOOLEAN, docker_prepull, 0, 1, NO_ZERO, "false", "ANYBOX_DOCKER_PREPULL",  \
      "whether `anybox serve` gets and prepares the default image when it starts")                 \
    X("docker.open_mount_directory", BOOLEAN, docker_mount, 0, 1, NO_ZERO, "false",                \
      "ANYBOX_DOCKER_OPEN_MOUNT_DIRECTORY",                                                        \
      "whether the work folder of a container is a folder of this machine, below mount_root")      \
    X("docker.mount_root", PATH, docker_mount_root, 0, 4096, NO_ZERO, "",                          \
      "ANYBOX_DOCKER_MOUNT_ROOT",                                                                  \
      "folder for open_mount_directory; empty: data beside the file that --config names, else "    \
      "~/anybox-data")                                                                             \
    X("opensandbox.server", STRING, open_server, 0, 1024, NO_ZERO, "",                             \
      "ANYBOX_OPENSANDBOX_SERVER, OPENSANDBOX_SERVER, OPEN_SANDBOX_DOMAIN",                        \
      "where an OpenSandbox platform answers, such as http://localhost:8080; empty: there, where " \
      "the toolset or the default provider is opensandbox, else there is none")                    \
    X("opensandbox.api_key", SECRETS, open_key, 0, 4096, NO_ZERO, "",                              \
      "ANYBOX_OPENSANDBOX_API_KEY, OPEN_SANDBOX_API_KEY", "the key of that server")                \
    X("opensandbox.image", STRING, open_image, 0, 1024, NO_ZERO, "",                               \
      "ANYBOX_OPENSANDBOX_IMAGE, OPENSANDBOX_DEFAULT_IMAGE",                                       \
      "image of a sandbox there whose creator names none, such as python:3.12")                    \
    X("opensandbox.timeout", SECONDS, open_timeout_s, 60, INT32_TOP, NO_ZERO, "600",               \
      "ANYBOX_OPENSANDBOX_TIMEOUT, OPENSANDBOX_DEFAULT_TIMEOUT",                                   \
      "seconds that a sandbox there lives without use; while it is used, its life is renewed")     \
    X("opensandbox.auto_renew", BOOLEAN, open_auto_renew, 0, 1, NO_ZERO, "false",                  \
      "ANYBOX_OPENSANDBOX_AUTO_RENEW",                                                             \
      "whether use also renews the life of a sandbox whose creator gave a timeout")                \
    X("opensandbox.delete_at_exit", BOOLEAN, open_delete, 0, 1, NO_ZERO, "false",                  \
      "ANYBOX_OPENSANDBOX_DELETE_AT_EXIT",                                                         \
      "whether sandboxes there are deleted when the process that made them ends")                  \
    X("opensandbox.connection", STRING, open_connection, 0, 16, NO_ZERO, "auto",                   \
      "ANYBOX_OPENSANDBOX_CONNECTION",                                                             \
      "how sandboxes there are reached: direct, proxy (through the server), or auto: through the " \
      "server where they cannot be reached directly")                                              \
    X("opensandbox.work_dir", STRING, open_work_dir, 0, 4096, NO_ZERO, "/workspace",               \
      "ANYBOX_OPENSANDBOX_WORK_DIR",                                                               \
      "folder there that commands begin in, made when it is missing; the home folder where that "  \
      "cannot be")                                                                                 \
    X("opensandbox.entrypoint", LIST, open_entrypoint, 0, 4096, NO_ZERO, "",                       \
      "ANYBOX_OPENSANDBOX_ENTRYPOINT",                                                             \
      "program of a sandbox there and its arguments; empty: tail, -f, /dev/null")                  \
    X("opensandbox.create_timeout", SECONDS, open_create_s, 1, 86400, NO_ZERO, "300",              \
      "ANYBOX_OPENSANDBOX_CREATE_TIMEOUT",                                                         \
      "seconds that making a sandbox there may take, with the pull of its image")                  \
    X("opensandbox.request_timeout", SECONDS, open_request_s, 1, 3600, NO_ZERO, "30",              \
      "ANYBOX_OPENSANDBOX_REQUEST_TIMEOUT", "seconds that the server may take for anything else")  \
    X("opensandbox.ca_file", PATH, open_ca_file, 0, 4096, NO_ZERO, "",                             \
      "ANYBOX_OPENSANDBOX_CA_FILE, SSL_CERT_FILE",                                                 \
      "file with the certificates (PEM) that an https server and its sandboxes are trusted by; "   \
      "empty: those of this machine")                                                              \
    X("mirror.pypi_index_url", STRING, pypi_index_url, 0, 1500, NO_ZERO, "",                       \
      "ANYBOX_MIRROR_PYPI_INDEX_URL, PIP_INDEX_URL, UV_DEFAULT_INDEX",                             \
      "address of the package index (its /simple/ page) that install_packages_in_sandbox takes "   \
      "Python packages from; sandboxes without a network need it; empty: what uv or pip in the "   \
      "sandbox use by themselves")                                                                 \
    X("mirror.file_hosts", LIST, mirror_file_hosts, 0, 4096, NO_ZERO, "",                          \
      "ANYBOX_MIRROR_FILE_HOSTS",                                                                  \
      "hosts (host or host:port) that the index may link files of or redirect to although they "   \
      "have private addresses, or are reached by a redirect only")                                 \
    X("mirror.max_file_size", SIZE, mirror_max_file, 1, SIZE_TOP, NO_ZERO, "4g",                   \
      "ANYBOX_MIRROR_MAX_FILE_SIZE", "size of a file that is fetched for a sandbox, at most")

#define ROW(key, type, field, min, max, zero, fallback, env, help)                                 \
    {key, offsetof(struct config, field), min, max, fallback, env, SETTING_##type, zero},
const struct setting settings[] = {SETTINGS(ROW)};
const size_t n_settings = COUNTOF(settings);
#undef ROW

#define TYPE_NAME_STRING  "string"
#define TYPE_NAME_LEVEL   "string"
#define TYPE_NAME_PATH    "path"
#define TYPE_NAME_LIST    "list of strings"
#define TYPE_NAME_SECRETS "list of strings"
#define TYPE_NAME_INTEGER "integer"
#define TYPE_NAME_SECONDS "seconds"
#define TYPE_NAME_SIZE    "size"
#define TYPE_NAME_MILLIS  "number"
#define TYPE_NAME_BOOLEAN "boolean"
#define ROW(key, type, field, min, max, zero, fallback, env, help)                                 \
    {key, TYPE_NAME_##type, fallback, env, help},
static const struct setting_doc docs[] = {SETTINGS(ROW)};
#undef ROW

size_t config_settings(const struct setting_doc **out)
{
    *out = docs;
    return COUNTOF(docs);
}

static struct str *str_field(struct config *c, const struct setting *s)
{
    return (struct str *)(void *)((char *)c + s->offset);
}

static int64_t *int_field(struct config *c, const struct setting *s)
{
    return (int64_t *)(void *)((char *)c + s->offset);
}

bool setting_is_list(const struct setting *s)
{
    return s->type == SETTING_LIST || s->type == SETTING_SECRETS;
}

bool setting_is_text(const struct setting *s)
{
    return s->type == SETTING_STRING || s->type == SETTING_LEVEL || s->type == SETTING_PATH ||
           setting_is_list(s);
}

/* ---- checks ----------------------------------------------------------------- */

/* Appends a number as config files write it: "64m", "1.5", "120", "true". */
static void add_number(struct buf *to, enum setting_type type, int64_t v)
{
    static const char units[] = "kmgt";

    if (type == SETTING_BOOLEAN) {
        buf_addf(to, "%s", v != 0 ? "true" : "false");
        return;
    }
    if (type == SETTING_MILLIS) {
        int64_t rest = v % 1000;

        buf_addf(to, "%lld", (long long)(v / 1000));
        if (rest != 0) {
            buf_addf(to, ".%03lld", (long long)rest);
            while (to->p[to->len - 1] == '0') {
                to->p[--to->len] = '\0';
            }
        }
        return;
    }
    for (int unit = 3; type == SETTING_SIZE && unit >= 0; unit--) {
        int64_t scale = 1ll << (10 * (unit + 1));

        if (v >= scale && v % scale == 0) {
            buf_addf(to, "%lld%c", (long long)(v / scale), units[unit]);
            return;
        }
    }
    buf_addf(to, "%lld", (long long)v);
}

static const char *kind_of(enum setting_type type)
{
    switch (type) {
    case SETTING_STRING: return "a string";
    case SETTING_LEVEL: return "one of debug, info, warning, error, critical and off";
    case SETTING_PATH: return "an absolute path, or one that begins with ~/";
    case SETTING_LIST:
    case SETTING_SECRETS: return "a list of strings, or one with commas";
    case SETTING_INTEGER: return "an integer";
    case SETTING_SECONDS: return "a number of seconds";
    case SETTING_SIZE: return "a size such as \"512m\" or 1048576";
    case SETTING_MILLIS: return "a number";
    case SETTING_BOOLEAN: return "true or false";
    }
    return "something else";
}

/* "local.pids must be an integer from 16 to 4194304" */
static void add_accepted(struct buf *to, const struct setting *s)
{
    buf_addf(to, "%s must be %s", s->key, kind_of(s->type));
    if (s->type == SETTING_STRING) {
        buf_addf(to, " of %lld to %lld bytes", (long long)s->min, (long long)s->max);
    }
    if (setting_is_text(s) || s->type == SETTING_BOOLEAN) {
        return;
    }
    buf_addf(to, " from ");
    add_number(to, s->type, s->min);
    buf_addf(to, " to ");
    add_number(to, s->type, s->max);
    if (s->zero) {
        buf_addf(to, ", or 0");
    }
}

int setting_refuse(const struct setting *s, struct str found, struct err *e)
{
    struct buf text own_buf = {0};

    buf_init(&text, 300);
    add_accepted(&text, s);
    if (s->type == SETTING_SECRETS) {
        return err_set(e, ERR_INVALID, "%.*s", STR_ARG(buf_str(&text)));
    }
    return err_set(e, ERR_INVALID, "%.*s, not %.*s", STR_ARG(buf_str(&text)),
                   STR_ARG(str_head(found, 100)));
}

int setting_text(struct config *c, const struct setting *s, struct str v, struct err *e)
{
    struct str home;
    enum log_level level;
    struct err ignored;

    if (v.len < (size_t)s->min || v.len > (size_t)s->max || str_has(v, '\0')) {
        return setting_refuse(s, v.len > 0 ? v : S("an empty one"), e);
    }
    if (s->type == SETTING_LEVEL && log_level_parse(v, &level, &ignored) < 0) {
        return setting_refuse(s, v, e);
    }
    if (s->type == SETTING_PATH && v.len > 0) {
        home = config_home(&c->arena);
        v = path_tilde(&c->arena, v, home);
        if (!path_is_absolute(v)) {
            return setting_refuse(s, v, e);
        }
    }
    *str_field(c, s) = arena_str(&c->arena, v);
    return 0;
}

int setting_number(struct config *c, const struct setting *s, int64_t v, struct str found,
                   struct err *e)
{
    if ((v < s->min || v > s->max) && !(s->zero && v == 0)) {
        return setting_refuse(s, found, e);
    }
    *int_field(c, s) = v;
    return 0;
}

/* A number with a fraction in thousandths; false when it is out of any range. */
bool setting_to_millis(double v, int64_t *out)
{
    if (!(v >= 0 && v <= 1e9)) {
        return false;
    }
    *out = (int64_t)(v * 1000 + 0.5);
    return true;
}

/* From the environment, and sizes from a file: everything is text there. */
int setting_from_text(struct config *c, const struct setting *s, struct str v, struct err *e)
{
    struct err ignored;
    int64_t n = 0;
    double real = 0;
    bool on = false;

    if (setting_is_text(s)) {
        return setting_text(c, s, v, e);
    }
    if (s->type == SETTING_BOOLEAN) {
        return str_to_bool(v, &on, &ignored) < 0 ? setting_refuse(s, v, e)
                                                 : setting_number(c, s, on, v, e);
    }
    if (s->type == SETTING_SIZE) {
        if (str_to_size(v, &n, &ignored) < 0) {
            return setting_refuse(s, v, e);
        }
    } else if (s->type == SETTING_MILLIS) {
        if (str_to_f64(v, &real, &ignored) < 0 || !setting_to_millis(real, &n)) {
            return setting_refuse(s, v, e);
        }
    } else if (str_to_i64(v, INT64_MIN, INT64_MAX, &n, &ignored) < 0) {
        return setting_refuse(s, v, e);
    }
    return setting_number(c, s, n, v, e);
}

/* ---- defaults, environment, text ------------------------------------------------- */

void settings_defaults(struct config *c)
{
    struct err e;

    for (size_t i = 0; i < n_settings; i++) {
        if (setting_from_text(c, &settings[i], str_from(settings[i].fallback), &e) < 0) {
            config_problem(c, &e);
        }
    }
}

void settings_from_env(struct config *c)
{
    for (size_t i = 0; i < n_settings; i++) {
        struct str names = str_from(settings[i].env);

        while (names.len > 0) {
            struct str name = str_trim(str_cut(names, ',', &names));
            struct str v = config_env(arena_cstr(&c->arena, name));
            struct err e;

            if (v.len == 0) {
                continue;
            }
            if (setting_from_text(c, &settings[i], v, &e) < 0) {
                (void)err_wrap(&e, "environment variable %.*s", STR_ARG(name));
                config_problem(c, &e);
            }
            break;
        }
    }
}

/* An address may have a user and a secret in it, which are not shown. */
static struct str without_user(struct arena *a, struct str v)
{
    const char *scheme = v.len > 0 ? memmem(v.p, v.len, "://", 3) : NULL;
    struct str rest = scheme != NULL ? str_skip(v, (size_t)(scheme - v.p) + 3) : STR_EMPTY;
    struct str path;
    struct str authority = str_cut(rest, '/', &path);
    struct str host;

    (void)str_cut(authority, '@', &host);
    if (host.p == NULL) {
        return arena_str(a, v);
    }
    return arena_printf(a, "%.*s(not shown)@%.*s", STR_ARG(str_head(v, v.len - rest.len)),
                        STR_ARG(str_skip(v, (size_t)(host.p - v.p))));
}

struct str config_show(const struct config *c, const char *key, struct arena *a)
{
    for (size_t i = 0; i < n_settings; i++) {
        const struct setting *s = &settings[i];
        const void *field = (const char *)c + s->offset;
        struct buf text own_buf = {0};

        if (!str_eq(str_from(s->key), str_from(key))) {
            continue;
        }
        if (s->type == SETTING_SECRETS) {
            return ((const struct str *)field)->len > 0 ? S("(set, not shown)") : STR_EMPTY;
        }
        if (setting_is_text(s)) {
            return without_user(a, *(const struct str *)field);
        }
        buf_init(&text, 64);
        add_number(&text, s->type, *(const int64_t *)field);
        return arena_str(a, buf_str(&text));
    }
    return STR_EMPTY;
}
