#include "sync/danger.h"

#include "base/attr.h"
#include "base/path.h"

#define GIT    "git runs it, or what it names, by itself"
#define SSH    "it decides who may log in, and what ssh runs"
#define SHELL  "a shell or desktop runs it when it starts"
#define EDITOR "an editor may run what it names when the folder is opened"
#define AGENT  "coding agents start what it names"

/* A file of this name, anywhere. */
static const struct {
    const char *name;
    const char *why;
} names[] = {
    {".bash_aliases", SHELL},
    {".bash_login", SHELL},
    {".bash_logout", SHELL},
    {".bash_profile", SHELL},
    {".bashrc", SHELL},
    {".cshrc", SHELL},
    {".envrc", "direnv runs it when the folder is entered"},
    {".exrc", EDITOR},
    {".gdbinit", "a debugger runs it when it starts"},
    {".git", GIT},
    {".gitconfig", GIT},
    {".kshrc", SHELL},
    {".lldbinit", "a debugger runs it when it starts"},
    {".login", SHELL},
    {".mcp.json", AGENT},
    {".profile", SHELL},
    {".tcshrc", SHELL},
    {".vimrc", EDITOR},
    {".xinitrc", SHELL},
    {".xprofile", SHELL},
    {".xsession", SHELL},
    {".zlogin", SHELL},
    {".zlogout", SHELL},
    {".zprofile", SHELL},
    {".zshenv", SHELL},
    {".zshrc", SHELL},
};

/* A file below these folders, which may be anywhere. One that ends in '/' means all below it,
 * with a last part it is that file. */
static const struct {
    const char *folder;
    const char *why;
} folders[] = {
    {".claude/settings.json", AGENT},
    {".claude/settings.local.json", AGENT},
    {".codex/config.toml", AGENT},
    {".config/autostart/", SHELL},
    {".config/environment.d/", SHELL},
    {".config/fish/", SHELL},
    {".config/git/", GIT},
    {".config/nvim/", EDITOR},
    {".config/systemd/user/", SHELL},
    {".cursor/mcp.json", AGENT},
    {".gemini/settings.json", AGENT},
    {".git/config", GIT},
    {".git/config.worktree", GIT},
    {".git/hooks/", GIT},
    {".git/modules/", GIT},
    {".husky/", GIT},
    {".idea/", EDITOR},
    {".ssh/", SSH},
    {".vscode/launch.json", EDITOR},
    {".vscode/mcp.json", AGENT},
    {".vscode/settings.json", EDITOR},
    {".vscode/tasks.json", EDITOR},
    {"Library/LaunchAgents/", SHELL},
};

/* Do the next parts of `path` begin like `rule`? All of them, unless the rule ends in '/'. */
static bool begins_like(struct str path, struct str rule)
{
    bool all_below = str_ends(rule, S("/"));

    return (all_below ? path.len > rule.len : path.len == rule.len) &&
           str_eq_nocase(str_head(path, rule.len), rule);
}

static const char *of_folder(struct str path)
{
    for (size_t i = 0; i < COUNTOF(folders); i++) {
        if (begins_like(path, str_from(folders[i].folder))) {
            return folders[i].why;
        }
    }
    return NULL;
}

const char *danger_of(struct str path)
{
    struct str base = path_base(path);
    struct str rest = path;

    for (size_t i = 0; i < COUNTOF(names); i++) {
        if (str_eq_nocase(base, str_from(names[i].name))) {
            return names[i].why;
        }
    }
    while (rest.len > 0) {
        const char *why = of_folder(rest);

        if (why != NULL) {
            return why;
        }
        (void)str_cut(rest, '/', &rest);
    }
    return NULL;
}

bool danger_leads_out(struct str path, struct str target)
{
    long depth = 0;
    struct str part;

    if (path_is_absolute(target)) {
        return true;
    }
    for (size_t i = 0; i < path.len; i++) {
        depth += path.p[i] == '/' ? 1 : 0;
    }
    for (struct str rest = target; rest.len > 0;) {
        part = str_cut(rest, '/', &rest);
        if (str_eq(part, S(".."))) {
            depth--;
        } else if (part.len > 0 && !str_eq(part, S("."))) {
            depth++;
        }
        if (depth < 0) {
            return true;
        }
    }
    return false;
}
