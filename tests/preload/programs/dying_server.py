"""A server that is killed as soon as it has written an answer: dying_server.py PORT BYTES."""

import os
import signal
import socket
import sys

SIGNALS = []


def look_around(listener):
    """What a program sees that has no children, and no descriptors but its own."""
    try:
        os.wait()
    except ChildProcessError:
        pass
    null = os.open(os.devnull, os.O_RDONLY)
    assert null == listener.fileno() + 1, null
    os.close(null)
    assert not SIGNALS, SIGNALS
    print("nothing unusual", flush=True)


def main():
    port, size = map(int, sys.argv[1:])
    signal.signal(signal.SIGCHLD, lambda *what: SIGNALS.append(what))
    listener = socket.create_server(("", port))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    look_around(listener)
    answer = bytes(at % 251 for at in range(size))
    while True:
        connection, _ = listener.accept()
        if connection.recv(100):
            written = connection.send(answer)
            assert written == size, written
            os.kill(os.getpid(), signal.SIGKILL)


main()
