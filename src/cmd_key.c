/* anybox key: add, list and rm the API keys of `anybox serve`. */
#include "base/clock.h"
#include "cli.h"
#include "serve/http/keys.h"

#define LIST_TEXT_MAX (1u << 20)

struct key_call {
    const struct cli *cli;
    struct config config;
    struct arena arena;
    struct str name; /* the operand; empty: none was given */
};

static void key_call_fini(struct key_call *k)
{
    config_fini(&k->config);
    arena_fini(&k->arena);
}

static int need_name(const struct key_call *k, const char *verb)
{
    return k->name.len > 0 ? 0 : cli_misused(k->cli, "which name? Say \"key %s NAME\"", verb);
}

static int add(struct key_call *k)
{
    struct buf key own_buf = {0};
    int status = need_name(k, "add");
    struct err e;

    if (status != 0) {
        return status;
    }
    buf_init(&key, 256);
    if (keys_add(&k->config, k->name, &key, &e) < 0) {
        return cli_fail(k->cli, EXIT_FAILURE, "%s", e.msg);
    }
    (void)fprintf(stderr, "This key is shown once; only its hash is kept.\n");
    buf_addc(&key, '\n');
    return cli_print(k->cli, &key);
}

static int list(struct key_call *k)
{
    struct buf text own_buf = {0};
    size_t n = 0, width = sizeof("NAME") - 1;
    struct err e;
    const struct key *keys = keys_list(&k->config, &k->arena, &n, &e);

    if (keys == NULL) {
        return cli_fail(k->cli, EXIT_FAILURE, "%s", e.msg);
    }
    for (size_t i = 0; i < n; i++) {
        size_t len = str_from(keys[i].name).len;

        width = len > width ? len : width;
    }
    buf_init(&text, LIST_TEXT_MAX);
    buf_add(&text,
            n == 0 ? S("no keys; the first start of \"anybox serve\" makes one\n") : STR_EMPTY);
    for (size_t i = 0; i < n; i++) {
        char date[CLOCK_RFC3339_SIZE];

        if (i == 0) {
            cli_cell(&text, S("NAME"), width + 2);
            buf_add(&text, S("MADE\n"));
        }
        cli_cell(&text, str_from(keys[i].name), width + 2);
        buf_addf(&text, "%s\n",
                 keys[i].configured ? "in the configuration"
                                    : clock_rfc3339(keys[i].created_ms, date));
    }
    return cli_print(k->cli, &text);
}

static int rm(struct key_call *k)
{
    int status = need_name(k, "rm");
    struct err e;

    if (status != 0) {
        return status;
    }
    if (keys_remove(&k->config, k->name, &e) < 0) {
        return cli_fail(k->cli, EXIT_FAILURE, "%s", e.msg);
    }
    (void)fprintf(stderr,
                  "Sandboxes that were made with it are still there: \"anybox rm --owner key:%.*s "
                  "--all\" deletes them.\n",
                  STR_ARG(k->name));
    return EXIT_SUCCESS;
}

int cmd_key(struct cli *cli, int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(struct key_call *k);
        int n_operands;
    } verbs[] = {{"add", add, 1}, {"list", list, 0}, {"rm", rm, 1}};
    struct key_call k CLEANUP(key_call_fini) = {.cli = cli};
    int status = EXIT_SUCCESS;
    int at = cli_options(cli, NULL, 0, argc, argv, &status);

    if (at < 0) {
        return status;
    }
    struct str verb = at < argc ? str_from(argv[at++]) : STR_EMPTY;
    k.name = at < argc ? str_from(argv[at]) : STR_EMPTY;
    config_load(&k.config, &cli->flags);
    arena_init(&k.arena, LIST_TEXT_MAX);
    for (size_t i = 0; i < COUNTOF(verbs); i++) {
        if (!str_eq(verb, str_from(verbs[i].name))) {
            continue;
        }
        if (argc - at > verbs[i].n_operands) {
            return cli_misused(cli, "'%s' is too much", argv[argc - 1]);
        }
        if (k.config.problem.len > 0) {
            return cli_fail(cli, EXIT_FAILURE, "%.*s", STR_ARG(k.config.problem));
        }
        return verbs[i].run(&k);
    }
    return cli_misused(cli, "say add, list or rm");
}
