"""The table of execute_python_code: an interpreter that stays, against a fresh one."""
import statistics
import time

from kit import Client, Home, faster, head, row, slower, us

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


def table(programs, quick):
    head("execute_python_code of `1+1`, local", peer="python3 -c")
    ours, fresh = warm(programs, 20 if quick else 200)
    row("warm interpreter; fresh one by exec_bash", us(ours), us(fresh), faster(ours, fresh), "<= 1 ms")
    ours, fresh = first(programs, 10 if quick else 60)
    row("first use; `python3 -c pass` by exec_bash", us(ours), us(fresh), slower(ours, fresh), "<= 1.5x")
