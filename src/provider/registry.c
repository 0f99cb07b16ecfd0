#include "base/str.h"
#include "provider/provider.h"

#if HAVE_LOCAL
#    include "provider/local/local.h"
#endif
#include "provider/docker/docker.h"
#include "provider/opensandbox/opensandbox.h"
#include "provider/ssh/ssh.h"

const struct provider_ops *const provider_types[] = {
    &docker_ops,
#if HAVE_LOCAL
    &local_ops,
#endif
    &opensandbox_ops, &ssh_ops, NULL,
};

const struct provider_ops *provider_type(struct str type)
{
    for (size_t i = 0; provider_types[i] != NULL; i++) {
        if (str_eq(type, str_from(provider_types[i]->type))) {
            return provider_types[i];
        }
    }
    return NULL;
}
