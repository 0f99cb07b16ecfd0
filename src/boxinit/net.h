/* net.h - a box with a network: its interface and its routes. */
#ifndef BOXINIT_NET_H
#define BOXINIT_NET_H

#include "boxinit/spec.h"

#define NET_TAP "tap0"
#define NET_MTU 65520
#define NET_DNS "10.0.2.3"

/* In the box's own network namespace, while it may still be changed and the host's
 * /dev is still in sight. */
int net_make(const struct spec *spec, struct err *e) MUST_CHECK;

#endif
