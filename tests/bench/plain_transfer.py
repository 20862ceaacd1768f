#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a link carries: the ranks of a pair send each other BYTES at the same time over one TCP connection, 21 times; rank 0 prints
the median as a JSON line. Nothing of Trireme takes part.

  mpirun -np 2 plain_transfer.py FOLDER BYTES        FOLDER: empty, seen by all ranks
"""
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import threading
import time

REPEATS = 21


def meet(folder: pathlib.Path, rank: int) -> socket.socket:
    """Even ranks wait for the odd ones after them."""
    place = folder / f"pair{rank // 2}"
    if rank % 2 == 0:
        listener = socket.create_server(("", 0))
        own = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=True).stdout.split()
        written = place.with_suffix(".new")
        written.write_text(f"{own[0] if own else '127.0.0.1'} {listener.getsockname()[1]}")
        written.rename(place)
        connection, _ = listener.accept()
    else:
        while not place.exists():
            time.sleep(0.01)
        address, port = place.read_text().split()
        connection = socket.create_connection((address, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def exchange(connection: socket.socket, out: memoryview, into: memoryview) -> None:
    sender = threading.Thread(target=connection.sendall, args=(out,))
    sender.start()
    received = 0
    while received < len(into):
        count = connection.recv_into(into[received:])
        if count == 0:
            raise SystemExit("the other rank has gone")
        received += count
    sender.join()


def main() -> None:
    folder, size = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    connection = meet(folder, rank)
    out, into = memoryview(bytearray(size)), memoryview(bytearray(size))
    ready = memoryview(bytearray(1))
    seconds = []
    for _ in range(REPEATS):
        exchange(connection, ready, memoryview(bytearray(1)))
        start = time.monotonic()
        exchange(connection, out, into)
        seconds.append(time.monotonic() - start)
    if rank == 0:
        print(json.dumps({"bytes": size, "us": round(statistics.median(seconds[1:]) * 1e6, 1)}))


if __name__ == "__main__":
    main()
