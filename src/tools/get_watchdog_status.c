/* get_watchdog_status.c - does the watchdog run, and what does it watch. */
#include "tools/rows.h"
#include "tools/watch_answer.h"

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    (void)given;
    watch_take_over(c);
    *out = watchdog_answer(c, e);
    return *out == NULL ? -1 : 0;
}

const struct tool tool_get_watchdog_status = {
    .name = "get_watchdog_status",
    .title = "Status of the watchdog",
    .help = "Does the watchdog run, is it installed as a service, and how many watches are there.",
    .args_size = 0,
    .toolsets = TOOLSET_ADVANCED | TOOLSET_ALL,
    .hints = HINT_READ_ONLY,
    .run = run,
};
