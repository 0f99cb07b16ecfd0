/* The program's front door: a table of commands, and which one is meant. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/path.h"
#include "cli.h"

static int cmd_help(struct cli *cli, int argc, char **argv);

static const struct command commands[] = {
    {"stdio", "", "MCP server on stdin and stdout, for one client",
     "This is what a client starts; it is also the default when stdin is not a terminal.\n"
     "stdout carries MCP and nothing else; the log goes to stderr or a file.\n",
     cmd_stdio},
    {"serve", "[--host H] [--port N] [--no-auth]", "MCP server on HTTP, for many clients",
     "MCP is at /mcp. It listens on 127.0.0.1:8000 unless told otherwise, and clients need a key:\n"
     "the first start makes one and shows it, \"anybox key\" makes others. The log goes to stderr\n"
     "or a file. There is no TLS: put a proxy in front where others than this machine connect.\n\n"
     "  --host ADDRESS  0.0.0.0 for all of this machine's\n"
     "  --port NUMBER   0 for any that is free\n"
     "  --no-auth       no key is needed; on a loopback address only\n",
     cmd_serve},
    {"run", "[OPTION]... [--] CMD...", "Run one command in a fresh local sandbox",
     "The exit status is CMD's; 128+N when signal N ended it, 124 after --timeout, 125 when\n"
     "anybox itself failed, 126 and 127 when CMD cannot be run or is not there. stdin, stdout\n"
     "and stderr are passed through as they are; CMD sees pipes and no terminal. It sees no\n"
     "file of yours: give it input, or use exec and cp with a sandbox that stays. The sandbox\n"
     "of run is deleted afterwards.\n\n"
     "  --timeout SECONDS  kill the command after so long\n"
     "  --memory SIZE      such as 512m or 2g\n"
     "  --cpus NUMBER      such as 1.5\n"
     "  --pids NUMBER      processes and threads\n"
     "  --disk SIZE        of what can be written\n"
     "  --open-files N     of each process\n"
     "  --network NAME     none (the default) or internet\n"
     "  --image NAME       a name that \"anybox image list\" tells, or an absolute path\n"
     "  --env KEY=VALUE    may be repeated\n"
     "  --cwd FOLDER       inside the sandbox; /workspace\n",
     cmd_run},
    {"ls", "[--json] [--all | --owner OWNER]", "List your sandboxes",
     "Sandboxes belong to who made them: you (user), or an HTTP key (key:NAME).\n\n"
     "  --all              those of all owners\n"
     "  --owner OWNER      those of this one\n",
     cmd_ls},
    {"exec", "[OPTION]... BOX [--] CMD...", "Run a command in a sandbox that exists",
     "BOX is a name, an id, or the first 12 digits of an id. Exit statuses as with run.\n\n"
     "  --timeout SECONDS  kill the command after so long\n"
     "  --env KEY=VALUE    may be repeated\n"
     "  --cwd FOLDER       inside the sandbox; /workspace\n"
     "  --owner OWNER      a sandbox of this owner, see \"anybox help ls\"\n",
     cmd_exec},
    {"cp", "SRC DST", "Copy a file or folder into a sandbox or out of one",
     "One of the two is BOX:PATH; a relative PATH is below /workspace. Missing folders in the\n"
     "sandbox are made. Permissions are kept, of a folder's files times too; owners are not. A\n"
     "folder goes into a folder that exists under its own name, with all that is in it.\n",
     cmd_cp},
    {"sync", "[OPTION...] SRC DST", "Make a folder in a sandbox the same as one here, or back",
     "One of the two is BOX:PATH. What is in SRC is then in DST, and only what differs is sent:\n"
     "by size and time, to the second. .git, node_modules, __pycache__, *.pyc, .idea and .vscode\n"
     "are left out. A file goes into a folder that exists, or one that ends in '/'.\n\n"
     "  --delete             delete in DST what SRC lacks, but nothing that is left out\n"
     "  --dry-run            only say what would be done\n"
     "  --exclude PATTERN    as in .gitignore; !PATTERN takes back; may be repeated\n"
     "  --exclude-from FILE  such patterns, one on a line\n"
     "  --gitignore          leave out what .gitignore files name, too\n"
     "  --checksum           compare contents, not size and time\n"
     "  --legacy             patterns mean what they do in remote-sandbox-mcp\n"
     "  --owner OWNER        a sandbox of this owner, see \"anybox help ls\"\n",
     cmd_sync},
    {"forward", "[--owner OWNER] BOX [LOCAL:]PORT", "Reach a port of a sandbox from this machine",
     "Listens on 127.0.0.1, prints the URL and passes each connection on to what listens on PORT\n"
     "inside the sandbox, whatever its network is, until Ctrl-C or the end of the sandbox. LOCAL\n"
     "is a port of this machine, 0 for any; without it the same number where it is free, else\n"
     "any. Every program on this machine can connect.\n\n"
     "  --owner OWNER      a sandbox of this owner, see \"anybox help ls\"\n",
     cmd_forward},
    {"logs", "[-f] [TASK]", "Print what a background task has printed",
     "TASK is a task_id or the name of a session. The whole log, as it is. Without TASK: which tasks\n"
     "there are.\n\n"
     "  -f, --follow       go on until the task ends\n"
     "  --owner OWNER      a task of this owner, see \"anybox help ls\"\n",
     cmd_logs},
    {"attach", "TASK", "Look at a background task in its terminal",
     "TASK as with logs. On an SSH host with tmux: ssh to its session (leave it with Ctrl-B D).\n"
     "Elsewhere: its log, followed.\n",
     cmd_attach},
    {"pause", "[--owner OWNER] BOX...", "Stop all that runs in containers where it is",
     "Nothing is lost, and nothing can be run in one until it is resumed. Its lifetime goes on.\n"
     "Other kinds of sandboxes cannot be paused.\n\n"
     "  --owner OWNER      sandboxes of this owner, see \"anybox help ls\"\n",
     cmd_pause},
    {"resume", "[--owner OWNER] BOX...", "Let paused containers go on",
     "  --owner OWNER      sandboxes of this owner, see \"anybox help ls\"\n", cmd_resume},
    {"rm", "[--owner OWNER] BOX... | --all", "Delete sandboxes and everything in them",
     "  --all              all of the owner's, who is you unless --owner says otherwise\n"
     "  --owner OWNER      see \"anybox help ls\"\n",
     cmd_rm},
    {"image", "make | list | pull | rm", "What sandboxes can be made of",
     "  make [NAME] [--suite SUITE] [--mirror URL] [--include PACKAGE,PACKAGE...]\n"
     "           a small Debian by debootstrap, named debian unless NAME is given; suite and\n"
     "           mirror are this machine's where it is Debian. It takes a minute or two.\n"
     "  list     the images, their size, what they hold and when they were made\n"
     "  rm NAME  remove one\n"
     "  pull [NAME...]  get images of containers from their registries; the default one's name\n"
     "           is docker.default_image\n\n"
     "With --docker make, list and rm are about the container engine's images: make then makes\n"
     "the default one (python-sandbox:latest) by debootstrap, without a registry, as root.\n"
     "An image of local sandboxes is a folder: NAME is images/NAME in the state folder, and run --image and\n"
     "create_sandbox take the absolute path of any other folder that holds a whole system,\n"
     "too. Sandboxes share it and never change it: what they write is their own. In a\n"
     "sandbox with an image commands are root, without root's special rights.\n",
     cmd_image},
    {"key", "add NAME | list | rm NAME", "API keys for clients of the HTTP server",
     "A key stands for a client: the sandboxes that it makes are its own, and no other key sees\n"
     "them. add prints the new key, which is shown only then; rm ends a key at once, also for a\n"
     "server that is running. Keys can be in the configuration too (http.keys, http.key_file).\n",
     cmd_key},
    {"audit", "verify [FILE...]", "Check that the audit log is as it was written",
     "Reads the file that audit.file names, or those that are named here, oldest first, and says\n"
     "how many lines are good, or at which line the chain of hashes breaks; the exit status is 1\n"
     "then.\n",
     cmd_audit},
    {"doctor", "[--json]", "Tell what works here, what does not, and the exact fix",
     "The exit status is 1 when something that anybox needs is missing.\n", cmd_doctor},
    {"demo", "", "A guided tour over MCP on this machine; it ends by itself",
     "Starts a server of its own with its own state folder, plays a session as an agent's\n"
     "client would, checks every answer, and leaves nothing behind.\n",
     cmd_demo},
    {"tools", "[--markdown | --json]", "The tools that agents get, as documentation", "",
     cmd_tools},
    {"config", "[--markdown]", "The settings, what they mean and their values now", "", cmd_config},
    {"watchdog", "run | start | status | install | uninstall | unit | plist",
     "Look after long jobs: events, and starting them again",
     "One process for each state folder, which outlives every client. It starts by itself with the\n"
     "first watch; `install` makes it a service of yours (systemd, launchd) that survives a restart\n"
     "of the machine.\n\n"
     "  run                 in the foreground, until a signal\n"
     "    --loop-sleep S    look for new watches every S seconds (5)\n"
     "    --exit-when-idle  end after ten minutes with nothing to watch\n"
     "  start               in the background, unless one runs\n"
     "  status              does it run, and what does it watch\n"
     "  install, uninstall  the service\n"
     "  unit, plist         print what systemd or launchd would be given\n",
     cmd_watchdog},
    {"forward-worker", "...", "Keep the port of a deployed application open",
     "deploy_app starts it, and it outlives the server. It ends with its sandbox, and when nothing has\n"
     "listened at the port for ten minutes. `anybox forward` is the one for people.\n",
     cmd_forward_worker},
    {"transfer-worker", "--task-id N", "Go on with a sync in the background that has ended early",
     "Servers start it for syncs that take long. By hand it resumes the transfer that\n"
     "check_file_transfer_task calls stale, failed or cancelled, here and now; what has arrived is\n"
     "not sent twice. The exit status is 0 when it is complete, 1 when it failed, and 2 when there\n"
     "is no such transfer.\n\n"
     "  --task-id N  which one\n",
     cmd_transfer_worker},
    {"help", "[COMMAND]", "This text, or a command's", "", cmd_help},
};

static const struct command *find_command(struct str name)
{
    for (size_t i = 0; i < COUNTOF(commands); i++) {
        if (str_eq(str_from(commands[i].name), name)) {
            return &commands[i];
        }
    }
    return NULL;
}

static int unknown_command(const struct cli *cli, struct str name)
{
    const char *nearest = NULL;
    size_t best = 3; /* further away is no typing mistake */

    for (size_t i = 0; i < COUNTOF(commands); i++) {
        size_t d = str_distance(str_from(commands[i].name), name);
        if (d < best) {
            best = d;
            nearest = commands[i].name;
        }
    }
    if (nearest) {
        return cli_misused(cli, "there is no command '%.*s'; did you mean '%s'?", STR_ARG(name),
                           nearest);
    }
    return cli_misused(cli, "there is no command '%.*s'", STR_ARG(name));
}

static void overview(struct buf *to)
{
    buf_addf(to,
             PROGRAM " " ANYBOX_VERSION ": sandboxes for AI agents, over MCP, and for people\n\n"
                     "usage: " PROGRAM " [--config FILE] [--toolset NAME] [COMMAND]\n\n");
    for (size_t i = 0; i < COUNTOF(commands); i++) {
        buf_addf(to, "  %-15s %s\n", commands[i].name, commands[i].brief);
    }
    buf_addf(to, "\nWithout a command it is an MCP server on stdio, unless stdin is a terminal.\n"
                 "  --config FILE    read this file instead of the usual ones\n"
                 "  --toolset NAME   default, remote-sandbox, opensandbox, mcp-sandbox, advanced "
                 "or all;\n"
                 "                   several with commas\n"
                 "  --version\n\n"
                 "First steps: " PROGRAM " doctor, " PROGRAM " demo, " PROGRAM " run echo hello\n");
}

static int cmd_help(struct cli *cli, int argc, char **argv)
{
    struct buf text own_buf = {0};
    int status = EXIT_SUCCESS;

    int at = cli_options(cli, NULL, 0, argc, argv, &status);
    if (at < 0) {
        return status;
    }
    buf_init(&text, 64u << 10);
    if (at == argc) {
        overview(&text);
        return cli_print(cli, &text);
    }
    const struct command *c = find_command(str_from(argv[at]));
    if (!c) {
        cli->command = NULL; /* the overview helps on, not the help of help */
        return unknown_command(cli, str_from(argv[at]));
    }
    cli_help(c, &text);
    return cli_print(cli, &text);
}

/* The HTTP servers among the programs that we are a drop-in for. */
static bool started_as_http(struct str program)
{
    return str_eq(program, S("mcp-sandbox")) || str_eq(program, S("mcp-python-sandbox"));
}

static bool started_as_stdio(struct str program)
{
    return str_eq(program, S("remote-sandbox-mcp")) || str_eq(program, S("opensandbox-mcp-server"));
}

/* No command was named: a client wants MCP, a person wants to know what this is. */
static const struct command *usual_command(struct str program)
{
    bool person = isatty(STDIN_FILENO) == 1;

    if (started_as_http(program)) {
        return find_command(S("serve"));
    }
    return find_command(person && !started_as_stdio(program) ? S("help") : S("stdio"));
}

/* A descriptor below 3 that is closed would be taken by the next file we open. */
static void open_missing_std(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            (void)open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY);
        }
    }
}

/* Every sandbox in use and every running call holds descriptors, and the usual soft limit
 * is meant for programs that use select(). Boxes inherit it; commands get their own. */
static void raise_open_files(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}

static int print_version(const struct cli *cli)
{
    struct buf text own_buf = {0};

    buf_init(&text, 256);
    buf_addf(&text, PROGRAM " " ANYBOX_VERSION "\n");
    return cli_print(cli, &text);
}

int main(int argc, char **argv)
{
    struct cli cli = {.flags.program = str_from(argc > 0 ? argv[0] : PROGRAM)};
    struct str mode = STR_EMPTY;
    bool version = false, help = false;
    struct str port = STR_EMPTY;
    const struct opt opts[] = {
        {"--version", OPT_FLAG, &version}, {"--help", OPT_FLAG, &help}, {"-h", OPT_FLAG, &help},
        {"--mode", OPT_TEXT, &mode},       {"--port", OPT_TEXT, &port},
    };
    int status = EXIT_SUCCESS;

    open_missing_std();
    raise_open_files();
    int at = cli_options(&cli, opts, COUNTOF(opts), argc, argv, &status);
    if (at < 0) {
        return status;
    }
    if (version) {
        return print_version(&cli);
    }
    if (str_eq(mode, S("http")) && !help && at >= argc) {
        cli.command = find_command(S("serve"));
        return cmd_serve_mode(&cli, port);
    }
    if (mode.len > 0 && !str_eq(mode, S("stdio")) && !str_eq(mode, S("http"))) {
        return cli_fail(&cli, EXIT_USAGE, "--mode must be stdio or http, not '%.*s'",
                        STR_ARG(mode));
    }
    if (help || at >= argc) {
        char *none[] = {argv[0], NULL};
        cli.command = help ? find_command(S("help")) : usual_command(path_base(cli.flags.program));
        assert(cli.command != NULL);
        return cli.command->run(&cli, 1, none);
    }
    cli.command = find_command(str_from(argv[at]));
    if (!cli.command) {
        return unknown_command(&cli, str_from(argv[at]));
    }
    return cli.command->run(&cli, argc - at, argv + at);
}
