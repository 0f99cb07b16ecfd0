/* settings_own.h - the table of settings as its two files share it: settings.c has the rows
 * and the checks, settings_file.c reads files. */
#ifndef CONFIG_SETTINGS_OWN_H
#define CONFIG_SETTINGS_OWN_H

#include "config/settings.h"

enum setting_type {
    SETTING_STRING,  /* struct str; max is in bytes */
    SETTING_LEVEL,   /* struct str: a log level */
    SETTING_PATH,    /* struct str: absolute, "~/..." is expanded */
    SETTING_LIST,    /* struct str: texts with commas between them; an array in a file */
    SETTING_SECRETS, /* the same, never shown */
    SETTING_INTEGER, /* int64_t */
    SETTING_SECONDS, /* int64_t */
    SETTING_SIZE,    /* int64_t bytes: 1048576 or "512m" */
    SETTING_MILLIS,  /* int64_t thousandths of a number */
    SETTING_BOOLEAN, /* int64_t: 0 or 1 */
};

struct setting {
    const char *key;
    size_t offset;
    int64_t min, max;
    const char *fallback;
    const char *env;
    enum setting_type type;
    bool zero;
};

extern const struct setting settings[];
extern const size_t n_settings;

bool setting_is_list(const struct setting *s);
bool setting_is_text(const struct setting *s);
/* ERR_INVALID: what is accepted, and what was found. */
int setting_refuse(const struct setting *s, struct str found, struct err *e);
int setting_text(struct config *c, const struct setting *s, struct str v, struct err *e) MUST_CHECK;
int setting_number(struct config *c, const struct setting *s, int64_t v, struct str found,
                   struct err *e) MUST_CHECK;
/* From the environment, and sizes from a file: everything is text there. */
int setting_from_text(struct config *c, const struct setting *s, struct str v, struct err *e)
    MUST_CHECK;
/* A number with a fraction in thousandths; false when it is out of any range. */
bool setting_to_millis(double v, int64_t *out);

#endif
