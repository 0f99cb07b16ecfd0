/*
 * proto.h - what anybox and boxinit say to each other.
 *
 * One connection carries one conversation. The agent speaks first: HELLO, at
 * once; the client need not wait for it before it sends its request. Locally a
 * connection is one unix-socket connection per call; where the agent is on another
 * machine, mux.h carries the same connections over one stream.
 *
 * exec is "start a task, attach to it". EXEC starts a command and attaches this
 * connection: STARTED, any number of DATA, one ENDED. DETACH, or the connection
 * going away, leaves the command running: to kill is a separate request (KILL, on
 * the same or on another connection), so nothing is lost when a client dies. The
 * agent spools both streams, bounded (SPOOL_*), and ATTACH continues at any
 * offset. Finished commands are remembered until their ENDED was delivered to an
 * attached client, else for TASK_KEEP_MS, and never more than TASKS_KEPT.
 *
 * File requests are answered by a forked worker that has the payload's uid, no
 * capabilities and the seccomp filter, inside the box's mount namespace: it can do
 * exactly what code in the box could, so no path needs checking. Paths are
 * absolute, or relative to WORK_DIR, or start with "~".
 */
#ifndef AGENT_PROTO_H
#define AGENT_PROTO_H

#define AGENT_VERSION 3 /* 1: without TREE_*, TCP and EXEC_KEEP; 2: without parts of files, UNIX */
#define AGENT_LOWEST  1 /* what both sides still speak */
#define AGENT_TREES   2 /* the version that TREE_* came with */
#define AGENT_PORTS   2 /* the version that TCP came with */
#define AGENT_PARTS   3 /* the version that TREE_PART_* came with */
#define AGENT_UNIX    3 /* the version that UNIX came with */

#define PART_FILE_MIN (32u << 20) /* a file of so many bytes may go in parts */

#define BOX_HOME     "/home/user"
#define BOX_WORK_DIR "/workspace"
#define BOX_WORK_TOO "/app/results" /* its other name */
#define BOX_USER     "user"
#define KEPT_DIR     "/var/anybox"
/* On a host, in the folder of ours: the place of an agent and its program, of which it has the hash. */
#define PLACE_OF        "at-"
#define PLACE_OF_DIGITS 16
#define PROGRAM_OF      "agent-"
#define KEPT_HOME       ".anybox/exec" /* below the home folder */
#define BOX_UID         1000           /* of the payload, inside */
/* Of a box with an image: there the payload is the owner of the files. */
#define BOX_ROOT_USER "root"
#define BOX_ROOT_HOME "/root"
#define BOX_PATH      "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

#define SPOOL_HEAD     (64u << 10)  /* of each stream, kept from the start */
#define SPOOL_TAIL     (960u << 10) /* and from the end, when nobody reads */
#define TASKS_MAX      256          /* running at once in a box */
#define TASKS_KEPT     64           /* finished, not collected */
#define TASK_KEEP_MS   (60 * 60 * 1000)
#define ID_MAX         64 /* bytes of a task id */
#define ARGV_MAX       4096
#define ENV_MAX        4096
#define PATH_MAX_BYTES 4096
#define NAME_LIST_MAX  100000 /* entries that one LIST looks at per folder */
#define KILL_GRACE_MS  2000   /* between TERM and KILL */

/* Where a command's descriptors come from. */
enum frame_type {
    /* ---- client to agent ---- */

    /* str id, list argv, str cwd, list env, u8 flags (EXEC_*),
     * u64 timeout_ms (0 none), u32 grace_ms.
     * argv[0] without '/' is looked up in the command's PATH. The command gets its own
     * session. When timeout_ms passes, the session and its descendants get TERM and
     * after grace_ms KILL; ENDED says timed_out. FAIL before STARTED: it never ran
     * (ERR_NOT_FOUND cwd or program, ERR_LIMIT no process to be had, ERR_EXISTS id). */
    FRAME_EXEC = 1,
    /* str id, u64 from_out, u64 from_err. Answers as EXEC from there on. One client at a
     * time: a new one takes over and the old connection is closed. */
    FRAME_ATTACH = 2,
    /* bytes (a str) for the attached command's stdin; empty: end of input. */
    FRAME_INPUT = 3,
    /* (none) on an attached connection: leave the command running. The agent closes. */
    FRAME_DETACH = 4,
    /* str id, u32 grace_ms: TERM to the session and its descendants, KILL after the
     * grace. Sent on an attached connection it is not answered itself (ENDED follows);
     * on another one: OK at once. A finished command: OK. */
    FRAME_KILL = 5,
    /* str id -> TASK, or FAIL ERR_NOT_FOUND. Empty id: one TASK for each, then OK. */
    FRAME_STATE = 6,

    /* str path, u8 follow links -> ENTRY */
    FRAME_STAT = 10,
    /* str path, u8 recursive, u32 max -> ENTRY for each, pre-order, sorted by name in each
     * folder, links not followed, at most max; OK with a u8: 1 when there was more. */
    FRAME_LIST = 11,
    /* str path, u64 from, u64 max -> ENTRY (of the open file), CHUNKs, OK */
    FRAME_READ = 12,
    /* str path, u32 mode (0: 0644, or the old file's), u8 flags (WRITE_*), then CHUNKs from
     * the client, the last one empty -> ENTRY of the new file. Atomic: temporary file in
     * the same folder, fsync not needed, rename. A connection that ends early leaves
     * nothing behind. */
    FRAME_WRITE = 13,
    /* str path -> OK. mkdir -p */
    FRAME_MKDIR = 14,
    /* str path -> OK. rm -rf, missing is success, links are removed and not followed */
    FRAME_REMOVE = 15,

    /* (none) -> USAGE */
    FRAME_USAGE = 20,
    /* u64 lifetime_ms from now (0: leave), u64 idle_ms (0: leave) -> OK */
    FRAME_EXTEND = 21,
    /* (none) -> OK, then PID 1 ends and everything with it */
    FRAME_SHUTDOWN = 22,
    /* u32 port -> OK; from then on this is no conversation any more but the very connection:
     * bytes both ways to whoever listens there at the loopback inside the box, and the end of
     * each direction. FAIL ERR_NOT_FOUND: nobody does. */
    FRAME_TCP = 24,
    /* str path of a unix socket (a stream), as file requests take it -> as TCP. */
    FRAME_UNIX = 25,

    /* Whole trees, each in one exchange (tree/entry.h, entries.h); asked of a file worker, too. What
     * is below the root is never reached through a link. `flags` are TREE_*. */

    /* str root, u8 flags, str digest (of the client's own listing, see tree/digest.h; "" none),
     * list excludes -> TREE_IS; then, unless it says "same" or that there is nothing, BLOCKs
     * with the listing (mtimes in whole seconds); TREE_END. */
    FRAME_TREE_LIST = 30,
    /* str root, u8 flags, then BLOCKs with entries and contents, the last one empty -> PUT_IS
     * and OK. When it fails: PUT_IS with what was written, and FAIL, at once; what the
     * client still sends is taken and dropped until it closes. A root that is missing is made. */
    FRAME_TREE_PUT = 31,
    /* str root, u8 flags, then BLOCKs with paths in order, the last one empty -> BLOCKs with
     * entries and contents, while the paths come; TREE_END. The client reads while it sends. */
    FRAME_TREE_GET = 32,
    /* str root, u8 flags, then BLOCKs with paths, the last of the order first, the last block
     * empty -> PRUNE_IS and OK or FAIL. */
    FRAME_TREE_PRUNE = 33,
    /* u32 length when unpacked (0: it is not packed), str block; empty: the end */
    FRAME_TREE_GIVE = 34,

    /* Parts of one large file, over several connections at once. The conversation of a PUT has
     * an item "parts" for it (entries.h) and is answered by TREE_PARTS with the name of the
     * temporary file, beside where the file goes; others then write into that, and when
     * all of it is confirmed the first one goes on, to "done" or "failed". In a GET with TREE_IN_PARTS
     * that item stands for the contents of each file of PART_FILE_MIN bytes or more, and
     * others read them. These conversations have no end but that of the connection. */

    /* str root, u8 flags, str path of the file below it, str name of the temporary file; then
     * TREE_SLICEs -> TREE_WRITTEN from time to time, or FAIL */
    FRAME_TREE_PART_PUT = 35,
    /* str root, u8 flags, str path -> TREE_FILE; then TREE_WANTs -> TREE_PIECEs, or FAIL */
    FRAME_TREE_PART_GET = 36,
    /* u64 offset, u32 length when unpacked (0: it is not packed), str bytes, not empty */
    FRAME_TREE_SLICE = 37,
    /* u64 offset, u64 length, not 0 */
    FRAME_TREE_WANT = 38,

    /* ---- agent to client ---- */

    /* u32 version, u32 lowest version it speaks */
    FRAME_HELLO = 64,
    /* u32 pid in the box */
    FRAME_STARTED = 65,
    /* u8 stream (0 stdout, 1 stderr), u64 offset of the first byte, str bytes. An offset
     * beyond the end of the last DATA: what lies between was lost. */
    FRAME_DATA = 66,
    /* u8 how (END_*), u32 exit code or signal, u8 timed_out, u8 oom (OOM_*), u8 limits
     * (LIMITED_*), u64 wall_ms, u64 stdout bytes, u64 stderr bytes in all */
    FRAME_ENDED = 67,
    /* str id, u8 running, then the fields of ENDED (zeros while running), u64 started_wall_ms */
    FRAME_TASK = 68,
    /* str path, u8 type (ENTRY_*), u32 mode (07777 bits), u64 size, u64 mtime seconds */
    FRAME_ENTRY = 69,
    /* str bytes (file contents, both ways); empty: the end where a request says so */
    FRAME_CHUNK = 70,
    /* u64 memory_used, u64 memory_limit (0 unknown), u64 disk_used, u64 disk_total,
     * u32 processes, u32 tasks running, u64 idle_ms so far, u64 ms until the hard end (0 none) */
    FRAME_USAGE_IS = 71,
    /* u8 more (see LIST; else 0) */
    FRAME_OK = 72,
    /* u8 err_kind, u32 errno, str message; on the control of a new box also u8 setup_step */
    FRAME_FAIL = 73,

    /* As TREE_GIVE. */
    FRAME_TREE_BLOCK = 80,
    /* u8 exists, u8 type (ENTRY_*), str real path of the root (as far as it exists), str home,
     * u8 same */
    FRAME_TREE_IS = 81,
    /* u64 entries that could not be read and are missing, str one of them: "path: why" */
    FRAME_TREE_END = 82,
    /* u64 dirs, u64 files, u64 links, u64 bytes, u64 skipped, str one of those: "path: why" */
    FRAME_PUT_IS = 83,
    /* u64 files, u64 dirs, u64 dirs that are not empty and stay */
    FRAME_PRUNE_IS = 84,
    /* str name of the temporary file; "": the file cannot be written, which was noted */
    FRAME_TREE_PARTS = 85,
    /* u64 offset, u32 length when unpacked, str bytes: what is wanted, in order; what is passed
     * over are zeros. Without bytes: here ends what was wanted. */
    FRAME_TREE_PIECE = 86,
    /* u64 size, u64 mtime in ns, of the file that was opened */
    FRAME_TREE_FILE = 87,
    /* u64 slices that are written, in all */
    FRAME_TREE_WRITTEN = 88,
};

enum {
    EXEC_INPUT = 1 << 0, /* stdin is what INPUT frames bring, else /dev/null */
    /* When the client is gone, or has detached, output and end are kept in files below
     * KEPT_DIR (on a host KEPT_HOME): <id>/started, job, stdout, stderr, status, as
     * core/task.h describes them. */
    EXEC_KEEP = 1 << 1,
};
enum { END_EXITED = 0, END_SIGNALED = 1 };
enum { OOM_NO = 0, OOM_YES = 1, OOM_UNKNOWN = 2 };
/* Limits of the box that were reached while the command ran, by it or by another one, as
 * far as the kernel counts that. */
enum {
    LIMITED_MEMORY = 1 << 0, /* a process was ended, or refused memory, for the box's limit */
    LIMITED_PIDS = 1 << 1,   /* a process or thread was refused */
    LIMITED_DISK = 1 << 2,   /* no space or no inode was left when the command ended */
    LIMITED_ALL = LIMITED_MEMORY | LIMITED_PIDS | LIMITED_DISK,
};
enum { ENTRY_FILE = 0, ENTRY_DIR = 1, ENTRY_LINK = 2, ENTRY_OTHER = 3 };
enum {
    TREE_LEGACY = 1 << 0,    /* the excludes are of that style */
    TREE_GITIGNORE = 1 << 1, /* .gitignore files count */
    TREE_SUMS = 1 << 2,      /* with the SHA-256 of each file */
    TREE_COMPRESS = 1 << 3,  /* the link is slow: pack blocks */
    TREE_IN_PARTS = 1 << 4,  /* of a GET: others fetch the contents of large files */
    TREE_FLAGS = 31,
};
enum {
    WRITE_PARENTS = 1 << 0, /* make missing folders */
    WRITE_APPEND = 1 << 1,  /* old contents first (still atomic) */
    WRITE_NEW = 1 << 2,     /* ERR_EXISTS when it is there */
};

/*
 * Where others have made the box (an SSH host, a container), boxinit has two more ways to
 * start; the theory is in boxinit/agent.h:
 *
 *   boxinit serve --socket FOLDER [--idle SECONDS]
 *      serves this protocol in FOLDER/<machine>/AGENT_SOCKET; a daemon, or PID 1
 *   boxinit relay --socket FOLDER [--idle SECONDS] [--marker HEX]
 *      on the stream: HEX and a newline, as soon as an agent serves in FOLDER, started where
 *      none did; from then on the accepting side of mux.h. What cannot be done is one
 *      sentence on stderr and exit status 1, without the marker. Ends with its stdin
 *
 * boxinit's command line for a box of its own: "boxinit box". Descriptors:
 *   3  the spec: one frame of type FRAME_SPEC, then EOF
 *   4  one end of a socket pair, the control. boxinit says BORN, PREPARED and READY in
 *      turn, or FAIL at any of these points; the server sends the ORDER. Its end before
 *      READY, or no order for ORDER_WAIT_MS, is the end of the box
 *   5  the box's folder in the state directory (O_PATH or O_RDONLY): the listening
 *      socket AGENT_SOCKET is made there, and END_FILE is opened for writing
 *   6  (optional, spec.keep_fd) a descriptor that PID 1 keeps open for its lifetime:
 *      the lock of the box's uid range
 *
 * "boxinit maker" makes such boxes for one server (boxinit/maker.c). Descriptor:
 *   3  one end of a pair of SOCK_SEQPACKET sockets. Each message is the frame of a spec, of at
 *      most MAKER_SPEC_MAX bytes, and brings the descriptors 4, 5 and perhaps 6 of above. Its
 *      end is the end of the maker
 *
 * The spec is what can be known before anybody asks for a box, the order is what only the
 * one who asks knows. So a box can be prepared in advance (provider/local/pool.h) and is
 * made in the same way whether it was or not.
 */
#define SPEC_FD    3
#define CONTROL_FD 4
#define FOLDER_FD  5
#define KEEP_FD    6

#define MAKER_FD       3
#define MAKER_SPEC_MAX (32u << 10)

#define ORDER_WAIT_MS (10 * 60 * 1000)

#define AGENT_SOCKET "agent.sock"
#define END_FILE     "end" /* PID 1 writes why it ended: "idle", "lifetime", "shutdown" */

/* What "boxinit serve" exits with as PID 1 of a container, which has no such file. */
#define AGENT_EXIT_IDLE     100
#define AGENT_EXIT_LIFETIME 101
#define AGENT_EXIT_SHUTDOWN 0
#define AGENT_EXIT_SIGNAL   102

/* Where the machine may refuse a box. What it means is for the server to find out. */
enum setup_step {
    SETUP_OTHER = 0,
    SETUP_NAMESPACES = 1, /* clone() */
    SETUP_IDS = 2,        /* the maps of user and group ids */
    SETUP_INSIDE = 3,     /* what the first process does in its new namespaces */
};

enum {
    /* The spec, in this order:
     *   u8  uid mode: 0 one uid (ours), 1 write the maps ourselves (root),
     *       2 by newuidmap and newgidmap
     *   u32 first outside uid of the range, u32 first outside gid (modes 1, 2)
     *   u32 size of the range
     *   list ro_binds   host paths shown read-only at the same place; missing ones are
     *                   skipped, symbolic links are remade as links
     *   list etc_binds  the same for names below /etc
     *   list cgroup_procs   cgroup.procs files to join before anything else
     *   str oom_file    memory.oom_control or memory.events, "" none
     *   str memory_file memory.usage_in_bytes or memory.current, "" none
     *   str pids_file   pids.events, "" none
     *   u8  network     0 none, 1 the internet, 2 the host's own
     *   u8  keep_fd     1: KEEP_FD is there
     *   u8  scoped      1: Landlock keeps abstract sockets and signals inside
     *   str image       the clean path of a folder with a whole system: an overlay over it
     *                   is the root, there are no binds, and the payload is the box's root
     *                   without its capabilities (modes 1, 2); "" none
     * and with network 1:
     *   str net_program the absolute path of slirp4netns
     *   list closed     IPv4 addresses as text that the box must not reach, besides the
     *                   private and special ranges: the host's own
     * and with network 2:
     *   str resolv_conf, str hosts   what the host has in these files of /etc
     */
    FRAME_SPEC = 100,
    /* u32 pid of PID 1 as the host sees it */
    FRAME_BORN = 101,
    /* (none) the box is made but for what the order says, and waits for it; not said when the
     * order is there already */
    FRAME_PREPARED = 102,
    /* The order:
     *   str hostname
     *   list env        KEY=value of every command in the box (PATH, HOME... first)
     *   u64 disk_bytes  size of the writable tmpfs
     *   u64 memory_bytes, u32 pids, u32 open_files   rlimits, 0 none (RLIMIT_AS, NPROC, NOFILE)
     *   u64 memory_limit, u32 pids_limit   what cgroups enforce, 0 none (for what is told)
     *   u64 lifetime_ms (0 none), u64 idle_ms (0 none), from now on
     */
    FRAME_ORDER = 103,
    /* (none) it serves */
    FRAME_READY = 104,
};

#endif
