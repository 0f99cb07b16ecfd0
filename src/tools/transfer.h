/* transfer.h - how background syncs look in answers. */
#ifndef TOOLS_TRANSFER_H
#define TOOLS_TRANSFER_H

#include "core/transfer.h"
#include "tools/answer.h"

/* What the tool that started one answers. auto_switched: a sync was asked for, and it was too
 * large to wait for. */
json_t *transfer_answer(const struct transfer_started *started, bool auto_switched);
/* What check_file_transfer_task tells of one. */
json_t *transfer_view_answer(const struct transfer_view *view);

#endif
