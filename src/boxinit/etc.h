/* etc.h - the box's own /etc: its users, and a resolver that knows files only. */
#ifndef BOXINIT_ETC_H
#define BOXINIT_ETC_H

#include "boxinit/spec.h"

int etc_make(const struct spec *spec, struct err *e) MUST_CHECK;
/* What holds the name of the box. In a shared root it is there already, and empty. */
int etc_name(const struct spec *spec, struct err *e) MUST_CHECK;

#endif
