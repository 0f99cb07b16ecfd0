"""Clients of every kind at once, many of which go away in the middle: nothing of them may be
left, whatever the order in which things end."""
import json
import random
import threading
import time

import pytest
from host import wait_until
from http_wire import Legacy, Modern, Served, call, request

POOL = 0
THREADS = 16


def cancelled(request_id):
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}}


class Storm:
    """One thread's clients; each method is one way to behave."""

    def __init__(self, served, seed):
        self.served, self.dice, self.id = served, random.Random(seed), seed
        self.ways = [getattr(self, name) for name in sorted(dir(self)) if name.startswith("client_")]

    def run(self, end):
        while time.monotonic() < end:
            self.dice.choice(self.ways)()

    def pause(self, most):
        time.sleep(self.dice.random() * most)

    def sleep(self, seconds, token=True):
        return call("exec_bash", self.id, token=self.dice.choice([None, 1]) if token else None,
                    command=f"sleep {seconds:.2f}", sandbox_name="storm")

    def session(self):
        return Legacy(self.served, self.dice.choice(["2025-03-26", "2025-11-25"]))

    def client_that_waits(self):
        client = self.dice.choice([Modern, Legacy])(self.served)
        assert client.post(self.sleep(self.dice.random() * 1.6)).messages()[-1]["id"] == self.id

    def client_that_goes(self):
        with self.dice.choice([Modern, Legacy])(self.served).begin(self.sleep(2)):
            self.pause(1.5)

    def client_that_cancels(self):
        session = self.session()
        with session.begin(self.sleep(30)) as wire:
            self.pause(1.3)
            assert session.post(cancelled(self.id)).status == 202
            wire.reply()

    def client_that_ends_its_session(self):
        session = self.session()
        with session.begin(self.sleep(30)) as wire, session.listen():
            self.pause(1.3)
            assert self.served.send("DELETE", headers=session.headers).status == 204
            wire.reply()

    def client_that_listens(self):
        session = self.session()
        with session.listen():
            if self.dice.random() < 0.5:
                session.listen().close()
            self.pause(0.3)

    def client_that_stops_in_the_middle(self):
        data = self.served.request(body=b"x" * 500, headers=self.session().headers)
        with self.served.wire() as wire:
            wire.send(data[:self.dice.randrange(len(data))])
            self.pause(2.5)

    def client_with_a_batch(self):
        session = Legacy(self.served, "2025-03-26")
        with session.begin([{**self.sleep(self.dice.random(), False), "id": i} for i in range(4)]) as wire:
            if self.dice.random() < 0.5:
                wire.reply()

    def client_with_much_to_say(self):
        body = json.dumps(request("ping")).encode() + b" " * self.dice.randrange(4 << 20)
        assert self.session().post(body).status == 200

    def client_that_hurries(self):
        session = self.session()
        one = self.served.request(body=json.dumps(request("tools/list")).encode(), headers=session.headers)
        with self.served.wire() as wire:
            wire.send(one * 20)
            for _ in range(self.dice.randrange(20)):
                assert wire.reply().status == 200


@pytest.mark.long
@pytest.mark.parametrize("leaves", ["afterwards", "in the middle"])
def test_a_storm_of_clients_leaves_nothing(host, leaves):
    served = Served(host, "--no-auth", env={
        "ANYBOX_HTTP_MAX_CALLS": "500", "ANYBOX_HTTP_IDLE_TIMEOUT": "3", "ANYBOX_HTTP_REQUEST_TIMEOUT": "2"})
    Modern(served).tool("create_sandbox", name="storm")
    before, failed = served.descriptors(), []
    end = time.monotonic() + 12

    def play(seed):
        try:
            Storm(served, seed).run(end)
        except Exception as wrong:  # pylint: disable=broad-except
            if leaves == "afterwards":
                failed.append(repr(wrong))

    threads = [threading.Thread(target=play, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    if leaves == "in the middle":
        time.sleep(5)
        started = time.monotonic()
        assert served.stop() == 0 and time.monotonic() - started < 30
    for thread in threads:
        thread.join()
    assert not failed
    if leaves == "afterwards":
        assert Legacy(served).post(request("ping")).status == 200
        assert wait_until(lambda: served.descriptors() <= before + 4)
        assert served.stop() == 0
    assert "not freed" not in served.log
