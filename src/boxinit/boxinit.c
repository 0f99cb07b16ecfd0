/*
 * boxinit.c - makes a box and stays in it.
 *
 * "boxinit box" is two processes. The outer one reads the spec, joins the cgroups, opens
 * what must be opened on the host's side (the listening socket, the file that tells why
 * the box ended, the cgroup's counters), clones the inner one into new namespaces, maps
 * its uids, tells the server of its birth and exits. The inner one is PID 1 of the box: it
 * builds the file system, says that it is prepared and waits for the order, which names
 * what is different from box to box. Then it finishes the file system, gives up what it
 * does not need and serves (serve.c) until the box ends. When PID 1 is gone, the kernel has
 * removed everything of the box but its folder and its cgroup on the host, which belong to
 * the server.
 *
 * The inner process is never left without somebody who wants it: it waits for a byte of
 * the outer one after the maps are written and for the order of the server after that, and
 * a closed pipe or control instead of it is the end. A box that nobody knows of cannot come
 * to be, and prepared ones end with their server.
 *
 * A box with a network has a third process, slirp4netns, which the outer one starts when
 * the inner one has made its side (stack.c); the inside is net.c.
 */
#include <stdio.h>
#include <string.h>

#include "agent/proto.h"
#include "boxinit/box.h"

/* Inside the box everyone can read PID 1's command line: it must not tell where on the
 * host this program lies. */
static void hide_path(char **argv)
{
    size_t len = strlen(argv[0]);
    size_t keep = len < sizeof("init") - 1 ? len : sizeof("init") - 1;

    memset(argv[0], 0, len);
    memcpy(argv[0], "init", keep);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "box") == 0) {
        hide_path(argv);
        return box_make();
    }
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        (void)printf("boxinit %s, agent protocol %d\n", ANYBOX_VERSION, AGENT_VERSION);
        return 0;
    }
    (void)fprintf(stderr, "boxinit is started by anybox: \"boxinit box\" with a spec on "
                          "descriptor 3.\n");
    return 2;
}
