/* resolve.c - a machine's configuration made whole, once, by the thread that is the first to
 * connect: machine.is_connecting lets no second one in beside it. */
#include "base/thread.h"
#include "provider/ssh/jump.h"
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
        &to->agent_socket,
        &to->problem,
    };

    *to = *conf;
    for (size_t i = 0; i < COUNTOF(texts); i++) {
        *texts[i] = arena_str(&m->arena, *texts[i]);
    }
    for (size_t i = 0; i < SSH_KEYS_MAX; i++) {
        to->more_keys[i] = arena_str(&m->arena, to->more_keys[i]);
        to->certificates[i] = arena_str(&m->arena, to->certificates[i]);
    }
}

/* The programs that are asked end when the machine is told to stop. */
static int resolve(struct machine *m, struct arena *a, const struct ssh_host *given,
                   struct ssh_host *out, struct err *e)
{
    struct cancel stop;
    const struct ctx ctx = {.arena = a, .cancel = &stop};

    if (cancel_init(&stop, e) < 0) {
        return -1;
    }
    lock(&m->lock);
    m->resolving = &stop;
    bool is_closing = m->is_closing;
    unlock(&m->lock);
    int rc = is_closing ? err_set(e, ERR_CANCELLED, "shutting down")
                        : ssh_config_resolve(&ctx, given, out, e);
    lock(&m->lock);
    m->resolving = NULL;
    unlock(&m->lock);
    cancel_fini(&stop);
    return rc;
}

int machine_resolve(struct machine *m, struct err *e)
{
    struct arena scratch own_arena = {0};
    struct ssh_host given;
    struct ssh_host whole = {0};
    bool is_resolved;

    lock(&m->lock);
    is_resolved = m->is_resolved;
    given = m->conf;
    unlock(&m->lock);
    if (is_resolved) {
        return 0;
    }
    arena_init(&scratch, MEMORY_MAX);
    if (resolve(m, &scratch, &given, &whole, e) < 0 || jump_check(m, &whole, e) < 0) {
        return -1;
    }
    LOCKED(&m->lock);
    machine_keep(m, &whole);
    if (m->jump == NULL && whole.proxy_jump.len > 0 && jump_add(m, m->conf.proxy_jump, e) < 0) {
        return -1;
    }
    m->is_resolved = true;
    return 0;
}
