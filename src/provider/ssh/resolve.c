/* resolve.c - a machine's configuration made whole, once, by the thread that is the first to
 * connect: machine.is_connecting lets no second one in beside it. */
#include "base/clock.h"
#include "base/thread.h"
#include "provider/ssh/machine.h"
#include "provider/ssh/ssh_config.h"

#define MEMORY_MAX (1u << 20)

void machine_keep(struct machine *m, const struct ssh_host *conf)
{
    struct ssh_host *to = &m->conf;
    struct str *const texts[] = {
        &to->name,
        &to->host,
        &to->user,
        &to->key_file,
        &to->key_passphrase,
        &to->key_passphrase_file,
        &to->key_passphrase_command,
        &to->password,
        &to->password_file,
        &to->password_command,
        &to->known_hosts,
        &to->host_key_alias,
        &to->proxy_jump,
        &to->proxy_command,
        &to->problem,
    };

    *to = *conf;
    for (size_t i = 0; i < COUNTOF(texts); i++) {
        *texts[i] = arena_str(&m->arena, *texts[i]);
    }
}

int machine_resolve(struct machine *m, struct err *e)
{
    struct arena scratch own_arena = {0};
    struct ssh_host given;
    struct ssh_host whole;
    bool is_resolved;

    lock(&m->lock);
    is_resolved = m->is_resolved;
    given = m->conf;
    unlock(&m->lock);
    if (is_resolved) {
        return 0;
    }
    arena_init(&scratch, MEMORY_MAX);
    const struct ctx ctx = {.arena = &scratch};

    if (ssh_config_resolve(&ctx, &given, &whole, e) < 0) {
        return -1;
    }
    LOCKED(&m->lock);
    machine_keep(m, &whole);
    m->is_resolved = true;
    return 0;
}
