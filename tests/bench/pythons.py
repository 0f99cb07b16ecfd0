"""The tables of execute_python_code: an interpreter that stays, against a fresh one; in a container, against a
fresh one by the Engine API's exec. And what a thousand calls cost in memory."""
import os
import statistics
import sys
import time

import container
import engine
from kit import Client, Home, faster, head, left_out, row, slower, us

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import dockerd  # noqa: E402

GAP_S = 0.02


def taken(client, tool, **arguments):
    """Microseconds of one call."""
    time.sleep(GAP_S)
    began = time.perf_counter()
    answer = client.call(tool, **arguments)
    took = (time.perf_counter() - began) * 1e6
    if answer["exit_code"] != 0:
        raise RuntimeError(answer["stderr"])
    return took


def warm(programs, rounds):
    """Medians of `1+1` in the interpreter and by a fresh one, in turns."""
    ours, fresh = [], []
    with Home(programs) as home, Client(home) as client:
        client.call("create_sandbox")
        for _ in range(3):
            taken(client, "execute_python_code", code="1+1")
        for _ in range(rounds):
            ours.append(taken(client, "execute_python_code", code="1+1"))
            fresh.append(taken(client, "exec_bash", command="python3 -c 'print(1+1)'"))
    return statistics.median(ours), statistics.median(fresh)


def first(programs, rounds):
    """Medians of the first call in a box and of `python3 -c pass` there, in turns."""
    ours, fresh = [], []
    with Home(programs) as home, Client(home) as client:
        for i in range(rounds):
            name = f"box{i}"
            client.call("create_sandbox", name=name)
            taken(client, "exec_bash", command="true", sandbox_name=name)
            if i % 2:
                fresh.append(taken(client, "exec_bash", command="python3 -c pass", sandbox_name=name))
            else:
                ours.append(taken(client, "execute_python_code", code="1+1", sandbox_name=name))
            client.call("delete_sandbox", sandbox_name=name)
    return statistics.median(ours), statistics.median(fresh)


def resident(client):
    """KiB of the server, the keeper and the interpreter."""
    inside = client.call("exec_bash", command="cat $(grep -lsz ^KEEP /proc/[0-9]*/cmdline | sed s/cmdline/status/) | grep VmRSS")
    with open(f"/proc/{client.proc.pid}/status") as f:
        server = next(line for line in f if line.startswith("VmRSS"))
    return sum(int(line.split()[1]) for line in [server, *inside["stdout"].splitlines()])


def grown(programs, calls):
    """KiB before and after so many calls, each with an output, a value and a file."""
    code = "open('f%d' % (i % 7), 'w').write('x' * 1000); i += 1; print('y' * 1000); [i] * 100"
    with Home(programs) as home, Client(home) as client:
        client.call("create_sandbox")
        client.call("execute_python_code", code="i = 0")
        for n in range(calls + 100):
            if n == 100:
                before = resident(client)
            client.call("execute_python_code", code=code)
        return before, resident(client)


def in_container(programs, rounds):
    """Medians of `1+1` in a container's interpreter, and of a fresh one by the API, in turns."""
    ours, fresh = [], []
    with engine.Docker() as docker:
        if not docker.ready:
            return left_out("the container's row", docker.why)
        image = f"{docker.image}-python"
        made = engine.quiet(docker.command("import", "-", image), input=dockerd.root_archive())
        if made.returncode != 0:
            return left_out("the container's row", "docker refuses the image")
        os.environ.update(DOCKER_HOST=f"unix://{docker.socket}", ANYBOX_DOCKER_DEFAULT_IMAGE=f"{image}:latest")
        api = container.Api(docker.socket)
        with Home(programs) as home, Client(home) as client:
            box = client.call("create_sandbox", provider="docker")["sandbox_id"]
            for _ in range(3):
                taken(client, "execute_python_code", code="1+1", sandbox_id=box)
            for _ in range(rounds):
                ours.append(taken(client, "execute_python_code", code="1+1", sandbox_id=box))
                time.sleep(GAP_S)
                fresh.append(container.clock(lambda: api.exec(f"anybox-{box[:12]}", "python3", "-c", "print(1+1)"))[0])
            client.call("delete_sandbox", sandbox_id=box)
        for name in container.prepared(api, f"{image}:latest"), image:
            engine.quiet(docker.command("rmi", name))
    return statistics.median(ours), statistics.median(fresh)


def table(programs, quick):
    head("execute_python_code of `1+1`, local", peer="python3 -c")
    ours, fresh = warm(programs, 20 if quick else 200)
    row("warm interpreter; fresh one by exec_bash", us(ours), us(fresh), faster(ours, fresh), "<= 1 ms")
    ours, fresh = first(programs, 10 if quick else 60)
    row("first use; `python3 -c pass` by exec_bash", us(ours), us(fresh), slower(ours, fresh), "<= 1.5x")
    before, after = grown(programs, 100 if quick else 1000)
    row(f"memory after {100 if quick else 1000} calls more; before", f"{after} KiB", f"{before} KiB", f"{after / before:.2f}x", "1.0x")
    head("execute_python_code of `1+1`, docker", peer="Engine API")
    got = in_container(programs, 10 if quick else 100)
    if got:
        ours, fresh = got
        row("warm interpreter; fresh one by the API's exec", us(ours), us(fresh), faster(ours, fresh), ">= 20x, 3 ms")
