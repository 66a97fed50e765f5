"""Telnet's interrupt: `urgent.py serve PORT` works until an urgent byte interrupts it and says how far that was, in urgent data of its own;
`urgent.py call ADDRESS PORT` interrupts it. As RFC 854 has it, what was sent before the mark is thrown away."""
import fcntl
import os
import select
import signal
import socket
import sys

IAC, IP, DM = b"\xff", b"\xf4", b"\xf2"


def at_mark(peer):
    return bool(int.from_bytes(fcntl.ioctl(peer, 0x8905, b"\0" * 4), "little"))


def whole(peer, count):
    data = b""
    while len(data) < count:
        data += peer.recv(count - len(data)) or sys.exit("the end came early")
    return data


def serve(port):
    listener = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    # The first only asks whether somebody is there.
    listener.accept()[0].close()
    peer, _ = listener.accept()
    heard, wake = os.pipe()
    signal.signal(signal.SIGURG, lambda *_: os.write(wake, b"!"))
    fcntl.fcntl(peer, fcntl.F_SETOWN, os.getpid())
    peer.sendall(b"login:")
    assert select.select([heard], [], [], 20)[0], "no SIGURG"
    assert select.select([], [], [peer], 20)[2], "no urgent byte"
    assert peer.recv(1, socket.MSG_OOB) == DM
    thrown = b""
    while not at_mark(peer):
        thrown += peer.recv(100)
    assert thrown == b"yes\n" * 500 + IAC + IP + IAC, thrown[-20:]
    assert whole(peer, 4) == b"stop"
    peer.sendall(b"stopped at ")
    peer.send(b"%d." % len(thrown), socket.MSG_OOB)
    assert whole(peer, 4) == b"bye\n"
    print("fine", flush=True)


def call(address, port):
    peer = socket.create_connection((address, port), timeout=20)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
    assert whole(peer, 6) == b"login:"
    peer.sendall(b"yes\n" * 500 + IAC + IP)
    assert peer.send(IAC + DM, socket.MSG_OOB) == 2
    peer.sendall(b"stop")
    wait = select.poll()
    wait.register(peer, select.POLLPRI)
    assert wait.poll(20000), "no urgent answer"
    said = b""
    while not at_mark(peer):
        said += peer.recv(100)
    assert said + whole(peer, 1) == b"stopped at 2003.", said
    peer.sendall(b"bye\n")
    assert peer.recv(1) == b""
    print("fine", flush=True)


if sys.argv[1] == "serve":
    serve(int(sys.argv[2]))
else:
    call(sys.argv[2], int(sys.argv[3]))
