/* id.h - random identifiers from the kernel's generator. */
#ifndef BASE_ID_H
#define BASE_ID_H

#include <stddef.h>
#include <stdint.h>

/* n_bytes that nobody can guess. Ends the program when the kernel gives no randomness. */
void id_random(void *to, size_t n_bytes);
/* The same as 2 * n_bytes lower-case hex digits, and a terminator. */
void id_hex(char *to, size_t n_bytes);
uint32_t id_below(uint32_t limit); /* uniform in [0, limit) */

#endif
