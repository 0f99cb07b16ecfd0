/* packages_answer.h - what the tools about Python packages share: the names, and how packages look
 * in an answer. */
#ifndef TOOLS_PACKAGES_ANSWER_H
#define TOOLS_PACKAGES_ANSWER_H

#include "core/package.h"
#include "core/packages.h"
#include "tools/answer.h"

struct packages_args {
    struct box_args box;
    struct str_list names;
    struct str name; /* of the tools that take one */
    int64_t timeout_s;
};

#define PARAM_PACKAGES(is_shown)                                                                   \
    {                                                                                              \
        .name = "package_names", .type = PARAM_STRINGS,                                            \
        .offset = offsetof(struct packages_args, names), .required = (is_shown),                   \
        .hidden = !(is_shown),                                                                     \
        .help = "such as [\"requests\", \"numpy==1.26.4\", \"pandas>=2,<3\"]",                     \
    }
#define PARAM_PACKAGE(is_shown)                                                                    \
    {                                                                                              \
        .name = "package_name", .type = PARAM_STRING,                                              \
        .offset = offsetof(struct packages_args, name), .required = (is_shown),                    \
        .hidden = !(is_shown), .help = "such as requests or numpy==1.26.4",                        \
    }

/* All that were given, checked, each once; in the call's arena. ERR_INVALID. */
int packages_names(struct call *c, const struct packages_args *args, struct str_list *out,
                   struct err *e) MUST_CHECK;

/* What became of them, as a word and a sentence: "success", "installing", "failed", "not_found". */
struct packages_verdict {
    const char *status;
    struct str message; /* in the call's arena */
};
struct packages_verdict packages_judge(struct call *c, const json_t *report);

#endif
