/* tools_own.h - what settings_file.c needs of tools.c. */
#ifndef CONFIG_TOOLS_OWN_H
#define CONFIG_TOOLS_OWN_H

#include "config/config.h"
#include "config/toml.h"

/* [[tool]] tables; `v` is the value of the key "tool", whatever it is. */
void tools_from_file(struct config *c, struct str file, const struct toml_value *v);

#endif
