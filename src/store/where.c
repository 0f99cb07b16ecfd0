/*
 * where.c - may the database lie here? WAL mode needs shared memory between all
 * processes that have the file open, and locks that work. Network file systems give
 * neither reliably, and a database that breaks a week later is worse than a refusal.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "base/fd.h"
#include "store/db.h"

#define FUSE_TYPE     0x65735546ul
#define MOUNTINFO_MAX (4u << 20)

static const struct {
    unsigned long type;
    const char *name;
} network_types[] = {
    {0x6969, "NFS"},      {0xff534d42, "CIFS"},   {0xfe534d42, "SMB"},  {0x517b, "SMB"},
    {0x01021997, "9p"},   {0x5346414f, "AFS"},    {0x6b414653, "AFS"},  {0x00c36400, "Ceph"},
    {0x73757245, "Coda"}, {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"},
};

/* FUSE has one number for all; these reach over a network. */
static const char *const network_fuse[] = {
    "fuse.sshfs",   "fuse.rclone",   "fuse.s3fs",      "fuse.gcsfuse",   "fuse.glusterfs",
    "fuse.ceph",    "fuse.davfs",    "fuse.davfs2",    "fuse.curlftpfs", "fuse.goofys",
    "fuse.juicefs", "fuse.mount-s3", "fuse.blobfuse2", "fuse.nfs",       "fuse.smbnetfs",
};

const char *db_network_type(unsigned long type, struct str name)
{
    for (size_t i = 0; i < COUNTOF(network_types); i++) {
        if (network_types[i].type == type) {
            return network_types[i].name;
        }
    }
    for (size_t i = 0; type == FUSE_TYPE && i < COUNTOF(network_fuse); i++) {
        if (str_eq(name, str_from(network_fuse[i]))) {
            return network_fuse[i];
        }
    }
    return NULL;
}

/* The type of the mount with this device: the first word behind " - " of its line in
 * mountinfo, whose third word is "major:minor". Empty when it cannot be told. */
static struct str mount_type(struct arena *a, dev_t dev)
{
    struct str want = arena_printf(a, "%u:%u", major(dev), minor(dev));
    struct str text;
    struct err ignored;

    if (fd_read_file(AT_FDCWD, "/proc/self/mountinfo", MOUNTINFO_MAX, a, &text, &ignored) < 0) {
        return STR_EMPTY;
    }
    while (text.len > 0) {
        struct str line = str_cut(text, '\n', &text);
        struct str word = STR_EMPTY;

        for (int i = 0; i < 3; i++) {
            word = str_cut(line, ' ', &line);
        }
        if (!str_eq(word, want)) {
            continue;
        }
        while (line.len > 0 && !str_eq(str_cut(line, ' ', &line), S("-"))) {
        }
        return str_cut(line, ' ', &line);
    }
    return STR_EMPTY;
}

int db_check_place(int dir_fd, const char *dir, struct err *e)
{
    struct arena scratch own_arena = {0};
    struct str name = STR_EMPTY;
    const char *network;
    struct statfs fs;
    struct stat st;

    if (fstatfs(dir_fd, &fs) < 0 || fstat(dir_fd, &st) < 0) {
        return err_sys(e, errno, "the state folder %s", dir);
    }
    arena_init(&scratch, (size_t)2 * MOUNTINFO_MAX);
    if ((unsigned long)fs.f_type == FUSE_TYPE) {
        name = mount_type(&scratch, st.st_dev);
    }
    network = db_network_type((unsigned long)fs.f_type & 0xfffffffful, name);
    if (network != NULL) {
        return err_set(e, ERR_UNSUPPORTED,
                       "the state folder %s lies on a network file system (%s), where the database "
                       "would be damaged; set ANYBOX_HOME to a local folder",
                       dir, network);
    }
    return 0;
}
