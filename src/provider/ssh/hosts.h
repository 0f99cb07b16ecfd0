/* hosts.h - see provider/hosts.h, which core fills in. */
#ifndef PROVIDER_SSH_HOSTS_H
#define PROVIDER_SSH_HOSTS_H

#include "provider/hosts.h"

#endif
