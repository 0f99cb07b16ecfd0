/* ssh's configuration, as ssh prints it and as it stands in files. */
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "provider/ssh/ssh_config.h"

static struct str same_file(void *arg, struct arena *a, struct str path)
{
    const struct str *text = arg;

    (void)a;
    (void)path;
    return *text;
}

static void same_name(void *arg, struct arena *a, struct str pattern,
                      void (*each)(void *to, struct str path), void *to)
{
    (void)arg;
    (void)a;
    each(to, pattern);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size < 4096 ? size : 4096};
    struct ssh_config_source from = {same_file, same_name, &text, S("/s")};
    struct arena a own_arena = {0};
    struct ssh_options o = {0};

    arena_init(&a, 64u << 20);
    ssh_config_read(&a, &from, text, S("gpu1"), &o);
    ssh_config_answer(text, &o);
    if (o.n_keys > SSH_KEYS_MAX || o.port < 0 || o.port > 65535) {
        abort();
    }
    (void)ssh_config_matches(text, S("gpu1.example.com"));
    return 0;
}
