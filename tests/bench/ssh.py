"""The table of SSH: a command over a warm connection beside OpenSSH's ControlMaster and
paramiko with a poll, and many at once. Root only: it makes a user to log in as, with the
servers of the end-to-end tests."""
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from kit import Client, Home, left_out, head, row, slower, us

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))

import ssh_servers  # noqa: E402


def median_us(n, act):
    act()
    took = []
    for _ in range(n):
        began = time.monotonic()
        act()
        took.append(time.monotonic() - began)
    return statistics.median(took) * 1e6


def paramiko_poll(port, user, key):
    """One call as remote-sandbox-mcp makes it: a channel, and a look every 50 ms."""
    import paramiko
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
    client.connect("127.0.0.1", port, user, key_filename=str(key), allow_agent=False, look_for_keys=False)

    def act():
        channel = client.get_transport().open_session()
        channel.exec_command("timeout 120s bash -c true")
        while not channel.exit_status_ready():
            time.sleep(0.05)
        channel.recv_exit_status()
        channel.close()

    return client, act


def table(programs, quick):
    head("SSH, loopback: exec_bash of `true` over a warm connection", peer="peer")
    if ssh_servers.why_not():
        left_out("SSH", ssh_servers.why_not())
        return
    folder = pathlib.Path(tempfile.mkdtemp(prefix="abx-bench-ssh-", dir="/tmp"))
    folder.chmod(0o755)
    user = server = None
    try:
        user = ssh_servers.User(f"abxb{os.getpid() % 100000}", folder)
        key = ssh_servers.keygen(folder / "id")
        server = ssh_servers.Sshd(folder / "sshd", [key])
        rows(programs, quick, folder, user, server, key)
    finally:
        if server:
            server.stop()
        if user:
            user.remove()
        shutil.rmtree(folder, ignore_errors=True)


def rows(programs, quick, folder, user, server, key):
    n = 30 if quick else 200
    os.environ.update(ssh_servers.hosts({
        "name": "bench", "host": "127.0.0.1", "port": server.port, "user": user.name,
        "key_file": str(key), "known_hosts": str(folder / "known_hosts")}))
    common = ["-i", str(key), "-p", str(server.port), "-o", "StrictHostKeyChecking=no", "-o",
              f"UserKnownHostsFile={folder}/kh", "-o", f"ControlPath={folder}/mux"]
    where = f"{user.name}@127.0.0.1"
    subprocess.run(["ssh", *common, "-MNf", where], check=True, stderr=subprocess.DEVNULL)
    try:
        with Home(programs) as home, Client(home) as client:
            ours = median_us(n, lambda: client.call("exec_bash", command="true"))
            master = median_us(n // 2, lambda: subprocess.run(
                ["ssh", *common, where, "true"], check=True, stderr=subprocess.DEVNULL))
            row("beside ssh with a ControlMaster", us(ours), us(master), slower(ours, master), "0.6x")
            try:
                peer, act = paramiko_poll(server.port, user.name, key)
                polled = median_us(max(10, n // 10), act)
                peer.close()
                row("beside paramiko with a 50 ms poll", us(ours), us(polled), slower(ours, polled), "0.05x")
            except ImportError:
                left_out("paramiko", "python3-paramiko is not installed")
        with Home(programs) as home:
            many_row(home)
    finally:
        subprocess.run(["ssh", *common, "-O", "exit", where], check=False, stderr=subprocess.DEVNULL)
        os.environ.pop("REMOTE_SANDBOX_LIST")


def many_row(home):
    with Client(home) as client:
        client.call("exec_bash", command="true")
        began = time.monotonic()
        for i in range(64):
            client.proc.stdin.write('{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"exec_bash",'
                                    '"arguments":{"command":"sleep 1"}}}\n' % (i + 10))
        client.proc.stdin.flush()
        for _ in range(64):
            client.proc.stdout.readline()
        row("64 times `sleep 1` at once (MaxSessions 10)", f"{time.monotonic() - began:.2f} s", "1 s", "", "1.5 s")
