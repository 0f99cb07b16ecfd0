/*
 * net.c - the inside of a box's network.
 *
 * The other end of the interface is slirp4netns (stack.c), which opens a socket of the
 * host for each connection and so would reach whatever the host reaches. What a box must
 * not reach is therefore stopped here, in a namespace that nobody in the box may change:
 *
 *   - routes prohibit the private and special ranges and the host's own addresses;
 *   - a program that names the interface itself (SO_BINDTODEVICE, IP_PKTINFO) makes the
 *     kernel ignore such a route and look for a neighbour: there are but two, the
 *     gateway and the name server, because slirp4netns answers for no other address;
 *   - multicast needs no neighbour: the interface passes frames only to those two and
 *     to the broadcast address, which finding them takes.
 *
 * So the interface is made here and kept (TUNSETPERSIST) for slirp4netns to find, rather
 * than left to it. It has no IPv6 on the other side.
 */
#include "boxinit/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/own.h"

#define NET_ADDRESS "10.0.2.100"
#define NET_GATEWAY "10.0.2.2"
#define NET_SYSCTL  "/proc/sys/net/ipv4/conf/" NET_TAP "/ignore_routes_with_linkdown"
#define PEERS       3

/* Nothing there is the internet. */
static const struct {
    const char *from;
    unsigned char bits;
} closed[] = {
    {"0.0.0.0", 8},      {"10.0.0.0", 8},    {"100.64.0.0", 10}, {"127.0.0.0", 8},
    {"169.254.0.0", 16}, {"172.16.0.0", 12}, {"192.0.0.0", 24},  {"192.168.0.0", 16},
    {"198.18.0.0", 15},  {"224.0.0.0", 4},   {"240.0.0.0", 4},
};

/* ---- the interface ---------------------------------------------------------------------- */

static int make_tap(struct err *e)
{
    /* struct tun_filter ends in an array of any length. */
    struct {
        uint16_t flags, count;
        unsigned char address[PEERS][6];
    } peers = {
        .count = PEERS,
        .address = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
                    {0x52, 0x55, 10, 0, 2, 2},
                    {0x52, 0x55, 10, 0, 2, 3}},
    };
    struct ifreq tap = {.ifr_name = NET_TAP, .ifr_flags = IFF_TAP | IFF_NO_PI};
    int fd own_fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);

    if (fd < 0) {
        return err_set(e, ERR_UNSUPPORTED,
                       "a network needs /dev/net/tun, which cannot be opened (%s): run \"%s\"; a "
                       "container must be given the device",
                       strerror(errno),
                       errno == EACCES ? "sudo chmod 666 /dev/net/tun" : "sudo modprobe tun");
    }
    if (ioctl(fd, TUNSETIFF, &tap) < 0 || ioctl(fd, TUNSETTXFILTER, &peers) < 0 ||
        ioctl(fd, TUNSETPERSIST, 1) < 0) {
        return err_sys(e, errno, "make the network interface");
    }
    return 0;
}

static struct sockaddr_in inet(const char *text)
{
    struct sockaddr_in at = {.sin_family = AF_INET};

    (void)inet_pton(AF_INET, text, &at.sin_addr);
    return at;
}

static int set_address(int fd, unsigned long what, const char *text)
{
    struct ifreq request = {.ifr_name = NET_TAP};
    struct sockaddr_in at = inet(text);

    memcpy(&request.ifr_addr, &at, sizeof(at));
    return ioctl(fd, what, &request);
}

static int raise_tap(struct err *e)
{
    struct ifreq mtu = {.ifr_name = NET_TAP, .ifr_mtu = NET_MTU};
    struct ifreq up = {.ifr_name = NET_TAP, .ifr_flags = IFF_UP | IFF_RUNNING};
    int fd own_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    /* A mask of one address: no route comes with it. */
    if (fd < 0 || set_address(fd, SIOCSIFADDR, NET_ADDRESS) < 0 ||
        set_address(fd, SIOCSIFNETMASK, "255.255.255.255") < 0 || ioctl(fd, SIOCSIFMTU, &mtu) < 0 ||
        ioctl(fd, SIOCSIFFLAGS, &up) < 0) {
        return err_sys(e, errno, "raise the network interface");
    }
    return 0;
}

/* Should slirp4netns die, connections fail at once instead of waiting for it. Without
 * this they do fail, only later. */
static void fail_fast(void)
{
    int fd own_fd = open(NET_SYSCTL, O_WRONLY | O_CLOEXEC);

    if (fd >= 0) {
        (void)!write(fd, "1", 1);
    }
}

/* ---- routes ------------------------------------------------------------------------------ */

struct route {
    int family;
    unsigned char type, bits;
    struct in_addr to, via; /* via 0: the neighbour itself. IPv6: to everywhere */
    unsigned interface;     /* 0: none */
};

struct route_request {
    struct nlmsghdr header;
    struct rtmsg route;
    char attributes[64];
};

static void add_attribute(struct route_request *r, unsigned short type, const void *value)
{
    struct rtattr *at = (struct rtattr *)(void *)((char *)r + NLMSG_ALIGN(r->header.nlmsg_len));

    at->rta_type = type;
    at->rta_len = RTA_LENGTH(4); /* every value here has four bytes */
    memcpy(RTA_DATA(at), value, 4);
    r->header.nlmsg_len = NLMSG_ALIGN(r->header.nlmsg_len) + at->rta_len;
}

/* 0, or the errno that the kernel answers. */
static int ask_kernel(int fd, const struct route_request *r)
{
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
        char rest[256];
    } answer;

    if (send(fd, r, r->header.nlmsg_len, 0) < 0) {
        return errno;
    }
    if (recv(fd, &answer, sizeof(answer), 0) < (ssize_t)NLMSG_LENGTH(sizeof(answer.error)) ||
        answer.header.nlmsg_type != NLMSG_ERROR) {
        return EPROTO;
    }
    return -answer.error.error;
}

static int add_route(int fd, const struct route *want)
{
    struct route_request r = {
        .header = {.nlmsg_len = NLMSG_LENGTH(sizeof(r.route)),
                   .nlmsg_type = RTM_NEWROUTE,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE},
        .route = {.rtm_family = (unsigned char)want->family,
                  .rtm_dst_len = want->bits,
                  .rtm_table = RT_TABLE_MAIN,
                  .rtm_protocol = RTPROT_BOOT,
                  .rtm_type = want->type},
    };

    if (want->interface != 0 && want->via.s_addr == 0) {
        r.route.rtm_scope = RT_SCOPE_LINK;
    }
    if (want->bits > 0) {
        add_attribute(&r, RTA_DST, &want->to);
    }
    if (want->via.s_addr != 0) {
        add_attribute(&r, RTA_GATEWAY, &want->via);
    }
    if (want->interface != 0) {
        add_attribute(&r, RTA_OIF, &want->interface);
    }
    return ask_kernel(fd, &r);
}

static int close_range_of(int fd, struct in_addr from, unsigned char bits, struct err *e)
{
    struct route r = {.family = AF_INET, .type = RTN_PROHIBIT, .to = from, .bits = bits};
    int rc = add_route(fd, &r);

    return rc != 0 ? err_sys(e, rc, "close a range of addresses to the sandbox") : 0;
}

static int close_ranges(const struct spec *spec, int fd, struct err *e)
{
    for (size_t i = 0; i < COUNTOF(closed); i++) {
        if (close_range_of(fd, inet(closed[i].from).sin_addr, closed[i].bits, e) < 0) {
            return -1;
        }
    }
    for (size_t i = 0; i < spec->n_closed; i++) {
        if (close_range_of(fd, spec->closed[i], 32, e) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Last, so that an address of the host which happens to be one of these does not hide it. */
static int open_ways(int fd, struct err *e)
{
    unsigned tap = if_nametoindex(NET_TAP);
    struct in_addr gateway = inet(NET_GATEWAY).sin_addr;
    const struct route ways[] = {
        {AF_INET, RTN_UNICAST, 32, gateway, {0}, tap},
        {AF_INET, RTN_UNICAST, 32, inet(NET_DNS).sin_addr, {0}, tap},
        {AF_INET, RTN_UNICAST, 0, {0}, gateway, tap},
    };

    for (size_t i = 0; i < COUNTOF(ways); i++) {
        int rc = add_route(fd, &ways[i]);

        if (rc != 0) {
            return err_sys(e, rc, "make the sandbox's routes");
        }
    }
    return 0;
}

static int close_ipv6(int fd, struct err *e)
{
    const struct route nowhere = {.family = AF_INET6, .type = RTN_UNREACHABLE};
    int rc = add_route(fd, &nowhere);

    /* A kernel without IPv6 has none to close. */
    if (rc != 0 && rc != EAFNOSUPPORT && rc != EOPNOTSUPP) {
        return err_sys(e, rc, "close IPv6 to the sandbox");
    }
    return 0;
}

int net_make(const struct spec *spec, struct err *e)
{
    if (make_tap(e) < 0 || raise_tap(e) < 0) {
        return -1;
    }
    fail_fast();
    int fd own_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0) {
        return err_sys(e, errno, "open a netlink socket");
    }
    if (close_ranges(spec, fd, e) < 0 || open_ways(fd, e) < 0) {
        return -1;
    }
    return close_ipv6(fd, e);
}
