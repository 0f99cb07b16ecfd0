/* resource_rows.h - the resources, for the table in resources.c. */
#ifndef TOOLS_RESOURCE_ROWS_H
#define TOOLS_RESOURCE_ROWS_H

#include "tools/answer.h"
#include "tools/resource.h"

extern const struct resource resource_file;
extern const struct resource resource_list;
extern const struct resource resource_result;
extern const struct resource resource_logs;
extern const struct resource resource_status;
extern const struct resource resource_watch;
extern const struct resource resource_watches;

/* resource_results.c: under which key the journal has the last answer for this template and box. */
struct str resource_result_key(struct call *c, struct str uri, struct str box_id);

/* ---- resource_boxes.c: what those of boxes share ------------------------------------------ */

/* The word in an address that means a box. */
int resource_box_word(struct call *c, struct str value, struct box_want *out, struct err *e)
    MUST_CHECK;
/* struct resource.list: one address for each box, "sandbox://<id><tail>". */
int resource_each_box(struct call *c, const char *tail, const char *name, const char *mime,
                      json_t *all, struct err *e) MUST_CHECK;
/* struct resource.complete of "id": the names of boxes. */
int resource_complete_box(struct call *c, struct str name, struct str start, json_t **values,
                          struct err *e) MUST_CHECK;

#endif
