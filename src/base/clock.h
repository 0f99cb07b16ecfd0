/* clock.h - the clocks we use, in milliseconds, and time as text. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

int64_t clock_mono_ms(void); /* CLOCK_MONOTONIC: deadlines, durations, idle time */
int64_t clock_mono_us(void); /* the same in microseconds, to measure with */
int64_t clock_boot_ms(void); /* CLOCK_BOOTTIME: goes on while suspended; lifetimes */
int64_t clock_wall_ms(void); /* since 1970 */

#define CLOCK_RFC3339_SIZE 32
/* "2026-11-15T08:52:33Z" (UTC), within 1970..9999. Returns `to`. */
char *clock_rfc3339(int64_t wall_ms, char to[CLOCK_RFC3339_SIZE]);

#endif
