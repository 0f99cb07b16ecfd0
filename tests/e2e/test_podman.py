"""What test_docker.py says of containers holds for Podman's, too: its core over Podman's socket."""
import os

import pytest
from dockerd import IMAGE, Podman, cached_archive
from test_docker import (docker, test_a_container_that_is_killed_is_told_and_removed,  # noqa: F401
                         test_a_paused_one_can_be_deleted, test_a_paused_one_says_how_it_goes_on,
                         test_a_read_only_root_has_writable_folders, test_an_idle_one_ends_and_says_why,
                         test_an_image_with_links_and_odd_files_is_prepared_inside_its_root,
                         test_an_unknown_image_says_where_images_come_from, test_another_state_folder_sees_nothing_of_it,
                         test_both_work_folders_are_one, test_code_inside_cannot_give_itself_more_time,
                         test_containers_of_others_are_left_alone, test_environment_reaches_commands_and_the_hosts_does_not,
                         test_images_are_listed_prepared_once_and_removed, test_it_outlives_the_server_that_made_it,
                         test_its_lifetime_is_kept_without_us, test_killed_under_a_running_command,
                         test_memory_and_processes_are_limited_and_told, test_reuse_gives_the_same_sandbox_and_no_other,
                         test_servers_share_it, test_the_answer_tells_what_was_made,
                         test_the_user_of_an_image_is_kept_unless_it_is_root, test_what_holds_inside)

__all__ = ["docker"]


@pytest.fixture(scope="module")
def engine(session_folder, install):
    """A Podman of our own, instead of the dockerd of other modules."""
    why = Podman.why_not()
    if why:
        pytest.skip(why)
    made = Podman(session_folder / "podman")
    try:
        try:
            made.start()
        except RuntimeError as refused:
            pytest.skip(str(refused))
        made.import_image(IMAGE, cached_archive(os.environ.get("ANYBOX_BUILD") or "build"))
        yield made
    finally:
        made.close()


def test_a_disk_limit_is_refused(docker):
    error = docker.server().tool_error("create_sandbox", provider="docker", disk="8m")
    assert error["code"] == "unsupported" and "disk" in error["error"] and "read_only" not in error["error"]
    error = docker.server(env={"ANYBOX_DOCKER_READ_ONLY": "true"}).tool_error("create_sandbox", provider="docker", disk="8m")
    assert error["code"] == "unsupported" and "Podman" in error["error"]


def test_python_and_files_and_a_task(docker):
    client = docker.server()
    client.tool("create_sandbox", provider="docker", name="work")
    client.tool("write_remote_file", remote_path="a.txt", content="text")
    assert client.tool("execute_python_code", code="x = open('a.txt').read(); x")["result"] == "'text'"
    assert client.tool("execute_python_code", code="x * 2")["result"] == "'texttext'"
    begun = client.tool("exec_bash_background", command="echo begun; sleep 0.1; echo done")
    told = client.tool("check_background_task", task_id=begun["task_id"], wait_s=60)
    assert told["exit_code"] == 0 and "done" in told["log_tail"]
