/*
 * plain.h - program output made harmless for a reader, human or model.
 *
 * Program output is untrusted: escape sequences can clear a screen, write a
 * clipboard or hide text, and invisible code points can carry instructions that
 * nobody sees. plain_text() leaves what a person would have read on a terminal.
 */
#ifndef BASE_PLAIN_H
#define BASE_PLAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

/*
 * Appends `s` to `out` as valid UTF-8 with
 *  - ANSI CSI, OSC, DCS, APC, PM and SOS sequences and other ESC pairs removed, in
 *    their 7-bit form and as C1 code points (U+0080..U+009F), unterminated ones too;
 *  - "\r\n" as "\n", and a line with "\r" in it reduced to its last non-empty state
 *    (progress bars); "\b" takes back one character of the line;
 *  - NUL, other C0 controls (but \t and \n) and DEL removed;
 *  - invisible and bidirectional format characters removed (zero-width, bidi
 *    controls and isolates, tags U+E0000..U+E007F, variation selector
 *    supplements, U+00AD, U+2028 and U+2029 as "\n", BOM inside text...); U+200D
 *    and U+FE0F stay, emoji need them;
 *  - invalid bytes as U+FFFD.
 * Linear time; an endless line is fine.
 */
void plain_text(struct str s, struct buf *out);

/* Code points that show nothing or reorder what is shown, and which plain_text() removes
 * for that. */
bool plain_hides(uint32_t c);

#endif
