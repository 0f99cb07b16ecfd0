#include <fcntl.h>

#include "base/own.h"
#include "store/db.h"
#include "test.h"

static void network_file_systems_are_known(void **state)
{
    (void)state;
    assert_string_equal(db_network_type(0x6969, STR_EMPTY), "NFS");
    assert_string_equal(db_network_type(0xff534d42, STR_EMPTY), "CIFS");
    assert_string_equal(db_network_type(0xfe534d42, STR_EMPTY), "SMB");
    assert_string_equal(db_network_type(0x01021997, STR_EMPTY), "9p");
    assert_string_equal(db_network_type(0x65735546, S("fuse.sshfs")), "fuse.sshfs");
}

static void local_file_systems_are_fine(void **state)
{
    (void)state;
    assert_null(db_network_type(0xef53, STR_EMPTY));     /* ext4 */
    assert_null(db_network_type(0x01021994, STR_EMPTY)); /* tmpfs */
    assert_null(db_network_type(0x794c7630, STR_EMPTY)); /* overlay */
    assert_null(db_network_type(0x65735546, S("fuse.fuse-overlayfs")));
    assert_null(db_network_type(0x65735546, STR_EMPTY));
    assert_null(db_network_type(0xef53, S("fuse.sshfs")));
}

static void the_temporary_folder_is_accepted(void **state)
{
    int dir own_fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct err e;

    (void)state;
    assert_true(dir >= 0);
    assert_ok(db_check_place(dir, "/tmp", &e), &e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(network_file_systems_are_known),
        cmocka_unit_test(local_file_systems_are_fine),
        cmocka_unit_test(the_temporary_folder_is_accepted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
