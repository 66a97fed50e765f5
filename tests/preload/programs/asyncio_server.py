"""A web server on asyncio's streams: asyncio_server.py PORT DIRECTORY."""

import asyncio
import pathlib
import sys


async def serve(reader, writer):
    try:
        while await answer(reader, writer):
            pass
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    writer.close()


async def answer(reader, writer):
    """Answers one request; whether there may be another."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    path = head.split(" ", 2)[1].split("?")[0]
    body = (ROOT / path.lstrip("/")).read_bytes()
    keep = "HTTP/1.1" in head.split("\r\n", 1)[0]
    state = "keep-alive" if keep else "close"
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: {state}\r\n\r\n".encode())
    writer.write(body)
    await writer.drain()
    return keep


async def main():
    server = await asyncio.start_server(serve, ["0.0.0.0", "::"], PORT, backlog=1024)
    async with server:
        await server.serve_forever()


PORT, ROOT = int(sys.argv[1]), pathlib.Path(sys.argv[2])
asyncio.run(main())
