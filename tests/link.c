/*
 * link.c - a slow line for tests: two network namespaces whose packets meet here, each held
 * back for so many milliseconds. The kernel's netem is not everywhere; a TUN device is.
 *
 *   link ONE_WAY_MS        prints "ready PID FD" when both ends are up and runs until it is
 *                          killed. The far end is the process's own network namespace, the
 *                          near end is its descriptor FD: /proc/PID/ns/net, /proc/PID/fd/FD.
 *   SIGUSR1                packets are lost from now on, in both directions
 *   SIGUSR2                they are not any more
 *
 * Segments pass as large as TCP makes them (GSO), so the rate is bound by copying only. A
 * packet waits in a queue of its direction; all wait equally long, so the first is due first.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NEAR       "10.99.0.1"
#define FAR        "10.99.0.2"
#define MASK       "255.255.255.252"
#define PACKET_MAX (70u << 10)
#define QUEUE_MAX  (512u << 20) /* bytes; then nothing more is read */
#define AT_ONCE    64

struct packet {
    struct packet *next;
    int64_t due_ns;
    size_t len;
    char bytes[];
};

struct way {
    int from, to;
    struct packet *first, **last;
    size_t bytes;
};

static volatile sig_atomic_t is_cut;

static void on_signal(int number)
{
    is_cut = number == SIGUSR1;
}

static void check(int rc, const char *what)
{
    if (rc < 0) {
        fprintf(stderr, "link: %s: %s\n", what, strerror(errno));
        exit(1);
    }
}

static int64_t now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void set_address(int sock, struct ifreq *r, unsigned long what, const char *text)
{
    struct sockaddr_in address = {.sin_family = AF_INET};

    (void)inet_pton(AF_INET, text, &address.sin_addr);
    memcpy(&r->ifr_addr, &address, sizeof(address));
    check(ioctl(sock, what, r), "give the device an address");
}

static void set_up(int sock, const char *name)
{
    struct ifreq r = {0};

    (void)snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", name);
    r.ifr_flags = IFF_UP | IFF_RUNNING;
    check(ioctl(sock, SIOCSIFFLAGS, &r), "set the device up");
}

/* A TUN device in a fresh network namespace, which is ours from then on. */
static int make_end(const char *address)
{
    struct ifreq r = {.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR, .ifr_name = "link0"};
    int fd, sock;

    check(unshare(CLONE_NEWNET), "make a network namespace");
    fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    check(fd, "open /dev/net/tun");
    check(ioctl(fd, TUNSETIFF, &r), "make a TUN device");
    check(ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4), "pass large segments");
    sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    check(sock, "make a socket");
    r.ifr_qlen = 10000; /* as long as a large window of small packets */
    check(ioctl(sock, SIOCSIFTXQLEN, &r), "lengthen the device's queue");
    set_address(sock, &r, SIOCSIFADDR, address);
    set_address(sock, &r, SIOCSIFNETMASK, MASK);
    set_up(sock, "link0");
    set_up(sock, "lo");
    (void)close(sock);
    return fd;
}

static void take(struct way *w, int64_t due_ns)
{
    static char room[PACKET_MAX];

    for (int i = 0; i < AT_ONCE; i++) {
        ssize_t n = read(w->from, room, sizeof(room));
        struct packet *p;

        if (n <= 0) {
            return;
        }
        if (is_cut) {
            continue;
        }
        p = malloc(sizeof(*p) + (size_t)n);
        check(p != NULL ? 0 : -1, "keep a packet");
        *p = (struct packet){.due_ns = due_ns, .len = (size_t)n};
        memcpy(p->bytes, room, (size_t)n);
        *w->last = p;
        w->last = &p->next;
        w->bytes += p->len;
    }
}

/* When the next one is due, or -1. */
static int64_t give(struct way *w, int64_t now)
{
    while (w->first != NULL && w->first->due_ns <= now) {
        struct packet *p = w->first;

        if (!is_cut && write(w->to, p->bytes, p->len) < 0 && errno != EAGAIN && errno != EIO) {
            fprintf(stderr, "link: a packet was refused: %s\n", strerror(errno));
        }
        w->first = p->next;
        w->last = w->first != NULL ? w->last : &w->first;
        w->bytes -= p->len;
        free(p);
    }
    return w->first != NULL ? w->first->due_ns : -1;
}

static void run(struct way ways[2], int64_t delay_ns)
{
    for (;;) {
        struct pollfd fds[2];
        int64_t wake = -1, now = now_ns();

        for (int i = 0; i < 2; i++) {
            int64_t due = give(&ways[i], now);

            wake = wake < 0 || (due >= 0 && due < wake) ? due : wake;
            fds[i] = (struct pollfd){ways[i].from, ways[i].bytes < QUEUE_MAX ? POLLIN : 0, 0};
        }
        int64_t rest = wake > now ? wake - now : 0;
        struct timespec t = {rest / 1000000000, rest % 1000000000};
        (void)ppoll(fds, 2, wake < 0 ? NULL : &t, NULL);
        now = now_ns();
        for (int i = 0; i < 2; i++) {
            if (fds[i].revents != 0) {
                take(&ways[i], now + delay_ns);
            }
        }
    }
}

int main(int argc, char **argv)
{
    double one_way_ms = argc == 2 ? strtod(argv[1], NULL) : -1;
    struct way ways[2] = {0};
    int near, space, far;

    if (one_way_ms < 0) {
        fprintf(stderr, "usage: link ONE_WAY_MS\n");
        return 2;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_TIMERSLACK, 1);
    (void)signal(SIGUSR1, on_signal);
    (void)signal(SIGUSR2, on_signal);
    near = make_end(NEAR);
    space = open("/proc/self/ns/net", O_RDONLY);
    check(space, "keep the near end's namespace");
    far = make_end(FAR);
    ways[0] = (struct way){.from = near, .to = far, .last = &ways[0].first};
    ways[1] = (struct way){.from = far, .to = near, .last = &ways[1].first};
    printf("ready %d %d\n", (int)getpid(), space);
    (void)fflush(stdout);
    run(ways, (int64_t)(one_way_ms * 1e6));
}
