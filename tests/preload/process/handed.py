"""A server that hands each connection on, in the way that the first word says."""

import os
import signal
import socket
import subprocess
import sys

# Who is passed a connection, and has no library.
HELPER = """
import socket, sys
channel = socket.socket(fileno=int(sys.argv[1]))
_, (number,), _, _ = socket.recv_fds(channel, 1, 1)
connection = socket.socket(fileno=number)
connection.sendall(b"helper\\n")
while piece := connection.recv(65536):
    connection.sendall(piece)
"""


def line(connection):
    """What comes up to the next end of a line, and nothing behind it."""
    text = b""
    while not text.endswith(b"\n"):
        byte = connection.recv(1)
        if not byte:
            return None
        text += byte
    return text


def echo(connection):
    while piece := connection.recv(65536):
        connection.sendall(piece)


def executed(connection):
    os.dup2(connection.fileno(), 0)
    os.dup2(connection.fileno(), 1)
    os.execv("/bin/sh", ["sh", "-c", "read text; echo shell $text; exec cat"])


def passed(connection):
    channel.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, connection.fileno().to_bytes(4, sys.byteorder))])
    connection.close()
    helper.wait()


def passed_on(connection):
    """Who passes it writes behind the helper, whose end is the last."""
    channel.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, connection.fileno().to_bytes(4, sys.byteorder))])
    helper.wait()
    connection.sendall(b"and the server\n")


def killed(connection):
    if os.fork() > 0:
        signal.pause()
    os.kill(os.getppid(), signal.SIGKILL)
    connection.sendall(b"child\n")
    echo(connection)


def closed(connection):
    child = os.fork()
    if child == 0:
        connection.sendall(b"child\n")
        echo(connection)
        os._exit(0)
    connection.close()
    os.waitpid(child, 0)


def spawned(connection):
    number = connection.fileno()
    to = [(os.POSIX_SPAWN_DUP2, number, 0), (os.POSIX_SPAWN_DUP2, number, 1)]
    child = os.posix_spawn("/bin/cat", ["cat"], os.environ, file_actions=to)
    connection.close()
    os.waitpid(child, 0)


def static(connection):
    os.dup2(connection.fileno(), 3)
    os.execv(os.environ["BINARY"], ["static"])


in_go = static


def chrooted(connection):
    if os.fork() > 0:
        connection.close()
        os.wait()
        return
    os.chroot(os.environ["EMPTY"])
    os.chdir("/")
    connection.sendall(b"child\n")
    echo(connection)


def run(connection):
    subprocess.run(["/bin/cat"], stdin=connection, stdout=connection, check=True)
    connection.sendall(b"and the server\n")


case, address, port = sys.argv[1:]
if case.startswith("passed"):
    channel, other = socket.socketpair()
    bare = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    helper = subprocess.Popen([sys.executable, "-c", HELPER, str(other.fileno())], pass_fds=[other.fileno()], env=bare)
    other.close()
with socket.create_server((address, int(port))) as listener:
    while True:
        connection, _ = listener.accept()
        # Who only looks whether somebody listens says nothing.
        if line(connection):
            connection.sendall(b"server\n")
            globals()[case](connection)
            break
