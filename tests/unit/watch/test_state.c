#include <stdio.h>

#include "test.h"
#include "watch/state.h"

/*
 * A story is a line of looks and outcomes, one letter each, 60 s apart; what the watch says
 * to each is compared with the words behind it.
 *   r running   e ended with 0   E ended with 3   i interrupted   n interrupted, a new run
 *   u unreachable   c no configuration   s task cancelled   g sandbox gone   x replaced
 *   o interrupted, others take care
 * and for the outcome of a resume that was wanted:
 *   + started   - failed   ? uncertain   0 not needed
 */
struct story {
    const char *name;
    struct watch_rules rules;
    const char *looks;
    const char *told;   /* events, in order */
    const char *status; /* at the end */
    const char *state;
    int resumes; /* how often a start was wanted */
};

#define WATCHING                                                                                   \
    {                                                                                              \
        .interval_s = 60, .alert_after_failures = 2, .resume_delay_s = 100                         \
    }
#define RESUMING(n)                                                                                \
    {                                                                                              \
        .interval_s = 60, .alert_after_failures = 2, .resume_delay_s = 100,                        \
        .max_resume_attempts = (n), .auto_resume = true, .has_resume_command = true                \
    }

static const struct story stories[] = {
    {"runs and ends", WATCHING, "rre", "completed", "completed", "completed", 0},
    {"ends with a failure", WATCHING, "rE", "completed", "completed", "completed", 0},
    {"nothing more is told after the end", WATCHING, "eeiu", "completed", "completed", "completed",
     0},
    {"one lost look is no event", WATCHING, "rurur", "", "active", "running", 0},
    {"told once when it stays away", WATCHING, "ruuuu", "ssh_unreachable", "active",
     "ssh_unreachable", 0},
    {"restored is told after it was told away", WATCHING, "ruur",
     "ssh_unreachable running_restored", "active", "running", 0},
    {"away again is told again", WATCHING, "uuruu",
     "ssh_unreachable running_restored ssh_unreachable", "active", "ssh_unreachable", 0},
    {"ended while away", WATCHING, "ruue", "ssh_unreachable completed", "completed", "completed",
     0},
    {"configuration missing is told once", WATCHING, "rccr", "config_missing running_restored",
     "active", "running", 0},
    {"interrupted without resuming stays watched", WATCHING, "riiir",
     "interrupted running_restored", "active", "running", 0},
    {"a lost look does not forget an interruption", WATCHING, "riuir",
     "interrupted running_restored", "active", "running", 0},
    {"resumed when its time has come", RESUMING(1), "riii+re",
     "interrupted resume_started completed", "completed", "completed", 1},
    {"not before", RESUMING(1), "rii", "interrupted", "active", "interrupted", 0},
    {"interrupted again with no attempt left", RESUMING(1), "iii+ri",
     "interrupted resume_started interrupted resume_exhausted", "exhausted", "interrupted", 1},
    {"two attempts", RESUMING(2), "iii+iii+e",
     "interrupted resume_started interrupted resume_started completed", "completed", "completed",
     2},
    {"a failed start uses no attempt up", RESUMING(1), "iii-iii+e",
     "interrupted resume_failed resume_started completed", "completed", "completed", 2},
    {"but not for ever", RESUMING(1), "iii-iii-iii-iii-iii-i",
     "interrupted resume_failed resume_failed resume_failed resume_failed resume_failed "
     "resume_exhausted",
     "exhausted", "interrupted", 5},
    {"uncertain, and it runs", RESUMING(1), "iii?r", "interrupted resume_started", "active",
     "running", 1},
    {"uncertain, and it has ended already", RESUMING(1), "iii?e",
     "interrupted resume_started completed", "completed", "completed", 1},
    {"uncertain, and nothing ran", RESUMING(1), "iii?i", "interrupted resume_failed", "active",
     "interrupted", 1},
    {"uncertain, it ran and was interrupted again", RESUMING(1), "iii?n",
     "interrupted resume_started interrupted resume_exhausted", "exhausted", "interrupted", 1},
    {"uncertain and then away is not resumed again", RESUMING(1), "iii?uur",
     "interrupted ssh_unreachable resume_started", "active", "running", 1},
    {"found running on the host after all", RESUMING(1), "iii0r", "interrupted running_restored",
     "active", "running", 1},
    {"and its attempt is not used up", RESUMING(1), "iii0riii+e",
     "interrupted running_restored interrupted resume_started completed", "completed", "completed",
     2},
    {"finished jobs are never resumed", RESUMING(3), "rEiii", "completed", "completed", "completed",
     0},
    {"left to another watchdog", RESUMING(1), "ooooo", "interrupted", "active", "interrupted", 0},
    {"the other watchdog went away", RESUMING(1), "oooi+", "interrupted resume_started", "active",
     "running", 1},
    {"the task was cancelled", RESUMING(1), "rsii", "task_cancelled", "task_cancelled", "cancelled",
     0},
    {"the sandbox has ended", RESUMING(1), "rgi", "sandbox_gone", "gone", "gone", 0},
    {"a later run has the name", RESUMING(1), "rxi", "task_replaced", "replaced", "replaced", 0},
    {"away while its time comes, then resumed", RESUMING(1), "iuuui+",
     "interrupted ssh_unreachable resume_started", "active", "running", 1},
};

static struct watch_look look_of(char c)
{
    switch (c) {
    case 'r': return (struct watch_look){.found = FOUND_RUNNING};
    case 'e': return (struct watch_look){.found = FOUND_ENDED, .has_exit_code = true};
    case 'E':
        return (struct watch_look){.found = FOUND_ENDED, .has_exit_code = true, .exit_code = 3};
    case 'i': return (struct watch_look){.found = FOUND_INTERRUPTED};
    case 'n': return (struct watch_look){.found = FOUND_INTERRUPTED, .is_new_run = true};
    case 'o': return (struct watch_look){.found = FOUND_INTERRUPTED, .is_others = true};
    case 'u': return (struct watch_look){.found = FOUND_UNREACHABLE};
    case 'c': return (struct watch_look){.found = FOUND_NO_CONFIG};
    case 's': return (struct watch_look){.found = FOUND_STOPPED};
    case 'g': return (struct watch_look){.found = FOUND_GONE};
    default: assert_int_equal(c, 'x'); return (struct watch_look){.found = FOUND_REPLACED};
    }
}

static enum watch_resume outcome_of(char c)
{
    switch (c) {
    case '+': return RESUME_STARTED;
    case '-': return RESUME_FAILED;
    case '?': return RESUME_UNCERTAIN;
    default: assert_int_equal(c, '0'); return RESUME_NOT_NEEDED;
    }
}

static void note(char *told, size_t cap, const struct watch_step *step)
{
    for (size_t i = 0; i < step->n_events; i++) {
        size_t at = strlen(told);
        snprintf(told + at, cap - at, "%s%s", at > 0 ? " " : "", watch_event_name(step->events[i]));
    }
}

static void every_story_ends_as_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof stories / sizeof *stories; i++) {
        const struct story *s = &stories[i];
        struct watch_memory memory = {0};
        struct watch_step step = {0};
        char told[1000] = "";
        int64_t now = 1000000;
        int resumes = 0;

        for (const char *c = s->looks; *c != '\0'; c++) {
            if (strchr("+-?0", *c) != NULL) {
                assert_true(step.resume);
                watch_resumed(&s->rules, &memory, outcome_of(*c), now, &step);
                assert_false(step.resume);
            } else {
                struct watch_look look = look_of(*c);
                assert_false(step.resume);
                watch_step(&s->rules, &memory, &look, now, &step);
                resumes += step.resume;
                now += 60;
            }
            memory = step.memory;
            note(told, sizeof told, &step);
        }
        if (strcmp(told, s->told) != 0 || resumes != s->resumes) {
            fail_msg("%s: told \"%s\", %d resumes", s->name, told, resumes);
        }
        assert_string_equal(watch_status_name(memory.status), s->status);
        assert_string_equal(watch_state_name(memory.state), s->state);
    }
}

static void the_next_look_is_not_after_the_resume_is_due(void **state)
{
    (void)state;
    const struct watch_rules rules = {.interval_s = 300,
                                      .alert_after_failures = 1,
                                      .resume_delay_s = 10,
                                      .max_resume_attempts = 1,
                                      .auto_resume = true,
                                      .has_resume_command = true};
    struct watch_memory memory = {0};
    struct watch_look look = {.found = FOUND_INTERRUPTED};
    struct watch_step step;

    watch_step(&rules, &memory, &look, 1000, &step);
    assert_int_equal(step.memory.next_check_s, 1010);
    memory = step.memory;
    watch_step(&rules, &memory, &look, 1010, &step);
    assert_true(step.resume);
    assert_int_equal(step.memory.resume_attempts, 1); /* counted before it is made */
    assert_true(step.memory.resume_uncertain);
}

static void an_end_has_no_next_look(void **state)
{
    (void)state;
    const struct watch_rules rules = {.interval_s = 300, .alert_after_failures = 1};
    struct watch_memory memory = {0};
    struct watch_look look = {.found = FOUND_ENDED, .has_exit_code = true, .exit_code = 7};
    struct watch_step step;

    watch_step(&rules, &memory, &look, 1000, &step);
    assert_int_equal(step.memory.next_check_s, 0);
    assert_true(step.memory.has_exit_code);
    assert_int_equal(step.memory.exit_code, 7);
}

static void a_clock_that_is_set_back_delays_nothing_for_long(void **state)
{
    (void)state;
    const struct watch_rules rules = {.interval_s = 60,
                                      .alert_after_failures = 1,
                                      .resume_delay_s = 10,
                                      .max_resume_attempts = 1,
                                      .auto_resume = true,
                                      .has_resume_command = true};
    struct watch_memory memory = {0};
    struct watch_look look = {.found = FOUND_INTERRUPTED};
    struct watch_step step;

    assert_true(watch_is_due(&memory, 5));
    watch_step(&rules, &memory, &look, 1000000, &step);
    memory = step.memory;
    assert_false(watch_is_due(&memory, 1000005));
    assert_true(watch_is_due(&memory, 1000010));
    assert_true(watch_is_due(&memory, 5000));
    watch_step(&rules, &memory, &look, 5000, &step);
    assert_false(step.resume); /* nobody knows how much of the pause has passed */
    assert_true(step.memory.resume_due_s <= 5060);
}

static void names_come_back(void **state)
{
    (void)state;
    for (unsigned i = 0; i < WATCH_STATUSES; i++) {
        enum watch_status back;
        assert_true(watch_status_parse(watch_status_name((enum watch_status)i), &back));
        assert_int_equal(back, i);
    }
    for (unsigned i = 0; i < STATE_STATES; i++) {
        enum watch_state back;
        assert_true(watch_state_parse(watch_state_name((enum watch_state)i), &back));
        assert_int_equal(back, i);
    }
    enum watch_status none;
    assert_false(watch_status_parse("nonsense", &none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_story_ends_as_told),
        cmocka_unit_test(the_next_look_is_not_after_the_resume_is_due),
        cmocka_unit_test(an_end_has_no_next_look),
        cmocka_unit_test(a_clock_that_is_set_back_delays_nothing_for_long),
        cmocka_unit_test(names_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
