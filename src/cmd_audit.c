/* anybox audit verify: is the audit log as it was written? */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "core/audit.h"

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

/* `before` is the hash of the last line of the file before this one; empty: there was none. */
static int verify_one(const struct cli *cli, struct str path, char before[65])
{
    struct audit_verdict v;
    struct buf text own_buf = {0};
    struct err e;

    if (audit_verify(path, &v, &e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    buf_init(&text, 4096);
    cli_plain(&text, path);
    buf_addf(&text, ": %lld good line%s", (long long)v.lines, plural(v.lines));
    if (v.torn > 0) {
        buf_addf(&text, ", %lld cut short by a crash", (long long)v.torn);
    }
    if (v.broken_at > 0) {
        buf_addf(&text, "; the chain breaks at line %lld: %s\n", (long long)v.broken_at, v.reason);
    } else if (before[0] != '\0' && v.lines > 0 && strcmp(before, v.first) != 0) {
        buf_addf(&text, "; it does not continue the file before it\n");
        v.broken_at = 1;
    } else {
        buf_addf(&text, "%s; last hash %s\n",
                 v.continues && before[0] == '\0' ? ", the first continues an earlier file" : "",
                 v.last);
    }
    (void)snprintf(before, sizeof(v.last), "%s", v.last);
    int status = cli_print(cli, &text);
    return v.broken_at > 0 ? EXIT_FAILURE : status;
}

static int verify_configured(const struct cli *cli)
{
    struct config config = {0};
    char before[65] = "";
    int status;

    config_load(&config, &cli->flags);
    if (config.problem.len > 0) {
        status = cli_fail(cli, EXIT_FAILURE, "%.*s", STR_ARG(config.problem));
    } else if (config.audit_file.len == 0) {
        status = cli_misused(cli, "which file? audit.file is not set, so name one");
    } else {
        status = verify_one(cli, config.audit_file, before);
    }
    config_fini(&config);
    return status;
}

int cmd_audit(struct cli *cli, int argc, char **argv)
{
    char before[65] = "";
    int status = EXIT_SUCCESS;
    int at = cli_options(cli, NULL, 0, argc, argv, &status);

    if (at < 0) {
        return status;
    }
    if (at == argc || !str_eq(str_from(argv[at]), S("verify"))) {
        return cli_misused(cli, "say verify");
    }
    at++;
    if (at == argc) {
        return verify_configured(cli);
    }
    for (; at < argc; at++) {
        status |= verify_one(cli, str_from(argv[at]), before);
    }
    return status;
}
