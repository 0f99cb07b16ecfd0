#include "tools/transfer.h"

json_t *transfer_answer(const struct transfer_started *started, bool auto_switched)
{
    json_t *o = json_object();

    (void)json_object_set_new(o, "mode", json_string("background"));
    if (auto_switched) {
        (void)json_object_set_new(o, "auto_switched", json_true());
    }
    (void)json_object_set_new(o, "task_id", json_integer(started->task_id));
    answer_str(o, "status", started->status);
    (void)json_object_set_new(o, "pid", json_integer(started->pid));
    answer_str(o, "log_file", started->log_file);
    answer_str(o, "direction", started->down ? S("remote_to_local") : S("local_to_remote"));
    (void)json_object_set_new(
        o, "note",
        json_string("It goes on in the background: check_file_transfer_task tells how far it is, "
                    "cancel_file_transfer_task ends it."));
    return o;
}

static void set_count(json_t *o, const char *key, int64_t n)
{
    if (n > 0) {
        (void)json_object_set_new(o, key, json_integer(n));
    }
}

/* Seconds that are left at the present rate. */
static void set_rate(json_t *o, const struct transfer_progress *p)
{
    if (p->rate <= 0) {
        return;
    }
    (void)json_object_set_new(o, "bytes_per_s", json_integer(p->rate));
    if (p->bytes_total > p->bytes) {
        (void)json_object_set_new(o, "time_left_s",
                                  json_integer((p->bytes_total - p->bytes) / p->rate + 1));
    }
}

/* R's names for what is counted. */
static json_t *counts(const struct transfer_row *row)
{
    const struct transfer_progress *p = &row->progress;
    json_t *o = json_object();

    if (p->files_total > 0 || p->unchanged > 0 || p->dirs > 0 || row->state > TRANSFER_RUNNING) {
        (void)json_object_set_new(o, "synced_type", json_string(p->is_file ? "file" : "directory"));
    }
    answer_str(o, "phase", p->phase);
    answer_str_if(o, "current_path", p->path);
    if (p->used_ms > 0) {
        (void)json_object_set_new(o, "duration_s", answer_seconds(p->used_ms));
    }
    set_count(o, row->down ? "created_dirs" : "uploaded_dirs", p->dirs);
    set_count(o, row->down ? "downloaded_files" : "uploaded_files", p->files);
    set_count(o, "skipped_files", p->unchanged);
    set_count(o, "deleted_files", p->deleted_files);
    set_count(o, "deleted_dirs", p->deleted_dirs);
    set_count(o, "failed_files", p->failed);
    set_count(o, "total_files", p->files_total);
    set_count(o, "bytes", p->bytes);
    set_count(o, "total_bytes", p->bytes_total);
    answer_str_if(o, "warning", p->note);
    return o;
}

static void add_how_to_resume(json_t *o, const struct transfer_row *row)
{
    (void)json_object_set_new(
        o, "hint",
        json_string(row->down
                        ? "Call sync_remote_to_local with the same arguments again to go on: what "
                          "has arrived is not sent twice."
                        : "Call sync_local_to_remote with the same arguments again to go on: what "
                          "has arrived is not sent twice."));
}

json_t *transfer_view_answer(const struct transfer_view *view)
{
    const struct transfer_row *row = &view->row;
    bool live = row->state == TRANSFER_QUEUED || row->state == TRANSFER_RUNNING;
    json_t *o = json_object();
    json_t *progress = counts(row);

    (void)json_object_set_new(o, "task_id", json_integer(row->id));
    (void)json_object_set_new(o, "status", json_string(transfer_status(row->state)));
    if (live) {
        const char *how = view->stale                      ? "stale"
                          : row->state == TRANSFER_RUNNING ? "running"
                                                           : "pending";
        (void)json_object_set_new(o, how, json_true());
    }
    answer_str(o, "direction", row->down ? S("remote_to_local") : S("local_to_remote"));
    answer_str(o, "sandbox", row->box_name.len > 0 ? row->box_name : row->box_id);
    answer_str(o, "local_path", row->local);
    answer_str(o, "remote_path", row->remote);
    if (live && !view->stale) {
        (void)json_object_set_new(o, "pid", json_integer(row->proc.pid));
        set_rate(progress, &row->progress);
    }
    (void)json_object_set_new(o, row->state == TRANSFER_COMPLETED ? "result" : "progress",
                              progress);
    if (row->state == TRANSFER_FAILED) {
        answer_str(o, "error", row->error);
    }
    if (view->stale) {
        (void)json_object_set_new(o, "problem",
                                  json_string("its worker has died, or does not answer any more"));
    }
    if (view->stale || row->state == TRANSFER_FAILED || row->state == TRANSFER_CANCELLED) {
        add_how_to_resume(o, row);
    }
    answer_time(o, "created_at", row->created_ms);
    answer_time(o, "finished_at", row->finished_ms);
    return o;
}
