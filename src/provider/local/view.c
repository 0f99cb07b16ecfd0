#include "provider/local/view.h"

#include <dirent.h>
#include <string.h>

#include "agent/proto.h"

/* Not all of /nix: nobody is kept from its daemon's socket by a read-only mount, and the
 * daemon builds, outside of the box, whatever it is asked for. */
static const char *const folders[] = {
    "/usr",   "/bin",    "/sbin", "/lib",       "/lib32",
    "/lib64", "/libx32", "/opt",  "/nix/store", "/nix/var/nix/profiles",
};

/* Of /etc/ssl and /etc/pki only what is public: their private/ folders hold keys. Nothing
 * of package managers' settings either, they carry tokens. */
static const char *const etc_names[] = {
    "ssl/certs",
    "ssl/openssl.cnf",
    "ca-certificates",
    "ca-certificates.conf",
    "pki/ca-trust",
    "pki/tls/certs",
    "pki/tls/cert.pem",
    "pki/tls/openssl.cnf",
    "pki/nss-legacy",
    "crypto-policies",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    "localtime",
    "timezone",
    "fonts",
    "terminfo",
    "mime.types",
    "magic",
    "magic.mime",
    "services",
    "protocols",
    "rpc",
    "gai.conf",
    "host.conf",
    "networks",
    "ethertypes",
    "locale.alias",
    "locale.conf",
    "bash.bashrc",
    "bashrc",
    "profile",
    "inputrc",
    "os-release",
    "debian_version",
    "lsb-release",
    "redhat-release",
    "alpine-release",
    "shells",
    "login.defs",
    "manpath.config",
    "groff",
    "xattr.conf",
    "OpenCL",
    "vulkan",
    "glvnd",
    "ImageMagick-6",
    "texmf",
    "sgml",
    "xml",
    "emacs",
    "vim",
    "gdb",
    "papersize",
    "gprofng.rc",
    "matplotlibrc",
};

/* Folders of languages carry their version in the name. */
static const char *const etc_prefixes[] = {"python3", "python2", "java-", "perl", "lua", "ghc"};

static void add(struct names *to, struct str name)
{
    to->items[to->n++] = name;
}

static struct names room(struct arena *a, size_t n)
{
    return (struct names){.items = arena_alloc(a, n, sizeof(struct str))};
}

struct names view_folders(struct arena *a)
{
    struct names out = room(a, COUNTOF(folders));
    for (size_t i = 0; i < COUNTOF(folders); i++) {
        add(&out, str_from(folders[i]));
    }
    return out;
}

static bool has_prefix(struct str name)
{
    for (size_t i = 0; i < COUNTOF(etc_prefixes); i++) {
        if (str_starts(name, str_from(etc_prefixes[i]))) {
            return true;
        }
    }
    return false;
}

#define VERSIONED_MAX 64

struct names view_etc(struct arena *a)
{
    struct names out = room(a, COUNTOF(etc_names) + VERSIONED_MAX);
    for (size_t i = 0; i < COUNTOF(etc_names); i++) {
        add(&out, str_from(etc_names[i]));
    }
    DIR *etc = opendir("/etc");
    if (etc == NULL) {
        return out;
    }
    for (struct dirent *entry = readdir(etc); entry != NULL; entry = readdir(etc)) {
        struct str name = str_from(entry->d_name);
        if (has_prefix(name) && out.n < COUNTOF(etc_names) + VERSIONED_MAX) {
            add(&out, arena_str(a, name));
        }
    }
    (void)closedir(etc);
    return out;
}

struct names view_env(struct arena *a, const struct box_spec *spec)
{
    static const char *const always[] = {("PATH=" BOX_PATH), "LANG=C.UTF-8", "TERM=dumb",
                                         "SHELL=/bin/bash"};
    static const char *const user[] = {"HOME=" BOX_HOME, "USER=" BOX_USER, "LOGNAME=" BOX_USER};
    static const char *const root[] = {"HOME=" BOX_ROOT_HOME, "USER=" BOX_ROOT_USER,
                                       "LOGNAME=" BOX_ROOT_USER};
    struct names out = room(a, COUNTOF(always) + COUNTOF(user) + spec->n_env);
    for (size_t i = 0; i < COUNTOF(always); i++) {
        add(&out, str_from(always[i]));
    }
    for (size_t i = 0; i < COUNTOF(user); i++) {
        add(&out, str_from(spec->image.len > 0 ? root[i] : user[i]));
    }
    for (size_t i = 0; i < spec->n_env; i++) {
        add(&out, spec->env[i]);
    }
    return out;
}
