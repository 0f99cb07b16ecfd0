/* settings.h - the table of settings, for config.c only. Everyone else reads struct config. */
#ifndef CONFIG_SETTINGS_H
#define CONFIG_SETTINGS_H

#include "config/config.h"
#include "config/toml.h"

/* What a setting accepts: kept by problem_add() as the first of several problems. */
void settings_defaults(struct config *c);
/* Every key of a parsed file into *c. What is wrong is left out and goes to `problem`. */
/* A lenient file may have keys that mean nothing here. */
void settings_from_file(struct config *c, struct str file, const struct toml_value *root,
                        bool is_lenient);
/* Every setting's variables; empty ones count as unset. */
void settings_from_env(struct config *c);

/* Keeps the first problem only: later ones often follow from it. */
void config_problem(struct config *c, const struct err *e);
/* An environment variable, trimmed; blank ones are empty. */
struct str config_env(const char *name);
/* $HOME, else the passwd entry's; empty when neither is an absolute path. */
struct str config_home(struct arena *a);

#endif
