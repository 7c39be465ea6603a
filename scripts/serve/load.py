"""A load of clients on this machine, of which some vanish, do not read, or send garbage."""

import json
import random
import socket
import threading
import time

CLIENTS = 200
KINDS = 12


def body_of(kind):
    """A request, one of a few kinds, whose answer is always the same."""
    return json.dumps({"prompt": "abcdefghijkl"[kind] * (1 + 11 * kind), "max_tokens": 1 + 3 * kind,
                       "seed": kind, "logprobs": 1, "echo": kind % 3 == 0, "n": 1 + kind % 2}).encode()


def head_of(body, close=True):
    connection = "Connection: close\r\n" if close else ""
    return (f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n{connection}"
            f"Content-Length: {len(body)}\r\n\r\n").encode()


def connected(port):
    return socket.create_connection(("127.0.0.1", port), timeout=120)


def unchunked(data):
    body = b""
    while True:
        size, _, data = data.partition(b"\r\n")
        size = int(size, 16)
        if size == 0:
            return body
        body, data = body + data[:size], data[size + 2:]


def ask(port, body, slow=False):
    """Status and choices of an answer."""
    with connected(port) as client:
        client.sendall(head_of(body) + body)
        data = b""
        while part := client.recv(64 if slow else 1 << 16):
            data += part
            if slow:
                time.sleep(0.01)
    head, _, rest = data.partition(b"\r\n\r\n")
    status = int(head.split()[1])
    if b"chunked" in head:
        rest = unchunked(rest)
    return status, json.loads(rest).get("choices")


class Load:
    def __init__(self, server, seconds):
        self.server, self.end = server, time.monotonic() + seconds
        self.expected = [ask(server.port, body_of(kind))[1] for kind in range(KINDS)]
        self.counts = {"answered": 0, "refused": 0, "vanished": 0, "garbage": 0, "slow": 0}
        self.faults = []
        self.lock = threading.Lock()

    def count(self, name, fault=None):
        with self.lock:
            self.counts[name] += 1
            if fault:
                self.faults.append(fault)

    def check(self, kind, slow=False):
        status, choices = ask(self.server.port, body_of(kind), slow)
        if status == 503:
            self.count("refused")
            time.sleep(0.2)
        else:
            wrong = status != 200 or choices != self.expected[kind]
            self.count("slow" if slow else "answered", f"kind {kind}: {status}" if wrong else None)

    def vanish(self, draw):
        body = json.dumps({"prompt": "a", "max_tokens": 250, "stream": draw.random() < 0.5}).encode()
        with connected(self.server.port) as client:
            whole = head_of(body) + body
            client.sendall(whole[:draw.choice([10, len(whole) - 5, len(whole), len(whole)])])
            time.sleep(draw.random() * 0.3)
        self.count("vanished")

    def garbage(self, draw):
        body = bytes(draw.randrange(256) for _ in range(draw.randrange(2000)))
        status, _ = ask(self.server.port, body)
        self.count("garbage", None if status == 400 else f"garbage: {status}")

    def run_client(self, number):
        draw = random.Random(number)
        while time.monotonic() < self.end:
            try:
                action = draw.random()
                if number % 10 == 9 and action < 0.5:
                    self.vanish(draw)
                elif number % 10 == 8 and action < 0.5:
                    self.garbage(draw)
                else:
                    self.check(draw.randrange(KINDS), slow=number % 10 == 7)
            except OSError as error:
                with self.lock:
                    self.faults.append(repr(error))


def check_load(server, seconds, expect):
    load = Load(server, seconds)
    threads = [threading.Thread(target=load.run_client, args=(i,)) for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    time.sleep(seconds / 3)
    before = server.memory_mib()
    for thread in threads:
        thread.join()
    after = server.memory_mib()
    expect(server.process.poll() is None, "the server ended under load")
    expect(not load.faults, f"{len(load.faults)} faults under load: {load.faults[:5]}")
    for kind in range(KINDS):
        expect(ask(server.port, body_of(kind))[1] == load.expected[kind], "an answer changed")
    expect(after < before * 1.2 + 20, f"memory grew from {before:.0f} to {after:.0f} MiB")
    counts = ", ".join(f"{count} {name}" for name, count in load.counts.items())
    print(f"load: {CLIENTS} clients, {seconds:.0f} s: {counts}; "
          f"memory {before:.0f} MiB after a third, {after:.0f} MiB at the end")
