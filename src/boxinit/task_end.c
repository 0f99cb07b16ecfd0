/*
 * task_end.c - how a command ends.
 *
 * It has ended when its process was reaped and what then lay in the pipes was read.
 * Nobody waits for the end of the pipes: a process left in the background holds them for
 * as long as it lives. Being killed takes longer: the end is told when nothing of the
 * session and its descendants runs any more.
 */
#include <signal.h>
#include <sys/wait.h>

#include "boxinit/keep.h"
#include "boxinit/kill.h"
#include "boxinit/server.h"

#define KILL_STEP_MS 20   /* between looks at what is left */
#define KILL_MOST_MS 5000 /* of SIGKILL; what is left then hangs in the kernel */
#define HELD_MS      200  /* that a dead process waits for its tracer to let it go */

static uint8_t was_oom(const struct server *s, const struct task *t, const struct limit_counts *now)
{
    bool looks_so = (t->ending.how == END_SIGNALED && t->ending.code == SIGKILL) ||
                    (t->ending.how == END_EXITED && t->ending.code == 128 + SIGKILL);

    if (!looks_so) {
        return OOM_NO;
    }
    if (s->fds.oom < 0) {
        return t->kill == KILL_FORCED ? OOM_NO : OOM_UNKNOWN;
    }
    return now->oom_kills > t->before.oom_kills ? OOM_YES : OOM_NO;
}

static void finish(struct server *s, struct task *t)
{
    struct limit_counts now = usage_limit_counts(s);

    task_close_streams(s, t);
    if (WIFSIGNALED(t->wait_status)) {
        t->ending.how = END_SIGNALED;
        t->ending.code = (uint32_t)WTERMSIG(t->wait_status);
    } else {
        t->ending.how = END_EXITED;
        t->ending.code = (uint32_t)WEXITSTATUS(t->wait_status);
    }
    t->ending.oom = was_oom(s, t, &now);
    t->ending.limits = usage_limits_hit(s->spec, &t->before, &now);
    t->finished = true;
    t->finished_ms = s->used_ms = server_now();
    s->n_running--;
    keep_finish(s, t);
}

void task_exited(struct server *s, struct task *t, int status)
{
    int64_t now = server_now();

    t->reaped = true;
    t->wait_status = status;
    t->ending.wall_ms = (uint64_t)(now - t->started_ms);
    if (!task_check_start(s, t, now) || !t->reaped) {
        return; /* it did not start, or another process runs it now */
    }
    if (t->kill == KILL_NONE) {
        finish(s, t);
        return;
    }
    t->kill_next_ms = now;
}

void task_kill(struct server *s, struct task *t, uint32_t grace_ms, bool timed_out)
{
    int64_t now = server_now();

    (void)s;
    if (t->finished) {
        return;
    }
    t->ending.timed_out |= timed_out;
    if (t->kill == KILL_NONE) {
        t->kill = KILL_ASKED;
        t->kill_force_ms = now + grace_ms;
        if (grace_ms > 0) {
            /* A stopped process takes TERM only when it goes on. */
            (void)kill_tree(t, SIGTERM, SIGCONT);
        }
    } else if (t->kill == KILL_ASKED && now + grace_ms < t->kill_force_ms) {
        t->kill_force_ms = now + grace_ms; /* a more impatient one */
    }
    t->kill_next_ms = grace_ms > 0 && !t->reaped ? t->kill_force_ms : now;
}

/* One step of ending a command that is being killed. */
static void kill_step(struct server *s, struct task *t, int64_t now)
{
    size_t left;

    if (t->kill == KILL_ASKED && now >= t->kill_force_ms) {
        t->kill = KILL_FORCED;
        t->kill_since_ms = now;
    }
    left = kill_tree(t, t->kill == KILL_FORCED ? SIGKILL : 0, 0);
    /* We are told of a process that another of the box traces when its tracer has taken
     * note, if ever: the command must end without that. */
    if (!t->reaped && t->kill == KILL_FORCED &&
        now - t->kill_since_ms > (left == 0 ? HELD_MS : KILL_MOST_MS)) {
        task_exited(s, t, SIGKILL);
    }
    if (t->dead) {
        return;
    }
    if (t->reaped &&
        (left == 0 || (t->kill == KILL_FORCED && now - t->kill_since_ms > KILL_MOST_MS))) {
        finish(s, t);
        return;
    }
    t->kill_next_ms = now + KILL_STEP_MS;
}

static void task_turn(struct server *s, struct task *t, int64_t now)
{
    keep_turn(s, t);
    if (t->dead || t->finished) {
        if (t->finished && now - t->finished_ms > (int64_t)(TASK_KEEP_MS)) {
            t->dead = true;
        }
        return;
    }
    if (!t->started && !task_check_start(s, t, now)) {
        return;
    }
    if (t->deadline_ms > 0 && now >= t->deadline_ms) {
        t->deadline_ms = 0;
        task_kill(s, t, t->grace_ms, true);
    }
    if (t->kill != KILL_NONE && now >= t->kill_next_ms) {
        kill_step(s, t, now);
    }
}

void tasks_turn(struct server *s, int64_t now)
{
    struct list *pos;
    struct list *tmp;
    struct task *oldest = NULL;
    unsigned kept = 0;

    list_each_safe (pos, tmp, &s->tasks) {
        struct task *t = list_entry(pos, struct task, link);

        task_turn(s, t, now);
        if (t->dead && t->client == NULL) {
            task_free(s, t);
        } else if (t->finished && t->client == NULL) {
            kept++;
            oldest = oldest == NULL || t->finished_ms < oldest->finished_ms ? t : oldest;
        }
    }
    if (kept > TASKS_KEPT && oldest != NULL) {
        task_free(s, oldest); /* one ends at a time, or the next turn takes the next */
    }
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

int64_t tasks_next_ms(struct server *s)
{
    struct list *pos;
    int64_t next = 0;

    list_each (pos, &s->tasks) {
        struct task *t = list_entry(pos, struct task, link);

        if (t->dead || t->finished) {
            continue;
        }
        next = sooner(next, t->deadline_ms);
        if (t->kill != KILL_NONE) {
            next = sooner(next, t->kill_next_ms);
        }
        next = sooner(next, task_start_due_ms(t));
    }
    return next;
}
