# SPDX-License-Identifier: Apache-2.0
"""What the tests of scripts/get_data share: the shipped script with data sets shrunk to 10 records
a file, and a server that can misbehave."""

from __future__ import annotations

import hashlib
import http.server
import io
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
RECORD = 1 + 3072
ARCHIVE = "cifar-10-binary.tar.gz"
FOLDER = "cifar-10-batches-bin"
FILES = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
TEXT = "tinyshakespeare.txt"
TEXT_CONTENT = hashlib.shake_128(TEXT.encode()).digest(10 * RECORD)
TEXT_MD5 = hashlib.md5(TEXT_CONTENT).hexdigest()

# Runs the script with data sets of 10 records a file and without waiting between attempts.
DRIVER = """
import dataclasses, importlib.machinery, importlib.util, sys
loader = importlib.machinery.SourceFileLoader("get_data", sys.argv[1])
spec = importlib.util.spec_from_loader("get_data", loader)
module = importlib.util.module_from_spec(spec)
sys.modules["get_data"] = module
loader.exec_module(module)
module.RETRY_SECONDS = 0
module.TIMEOUT_SECONDS = float(sys.argv[4])
sets = module.DATASETS
for name in ("cifar10", "tinyshakespeare"):
    sets[name] = dataclasses.replace(
        sets[name], files=dict.fromkeys(sets[name].files, int(sys.argv[2])),
        md5=dict.fromkeys(sets[name].md5, sys.argv[3]))
sizes = dict(zip(sets["mnist"].files, (100, 50, 40, 20)))
for name in ("mnist", "fashion_mnist"):
    sets[name] = dataclasses.replace(sets[name], files=sizes, packaged=None)
sys.exit(module.main(sys.argv[5:]))
"""


def make_archive(names: list[str] | None = None, size: int = 10 * RECORD) -> bytes:
    """An archive as the official one, of bytes that do not compress."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name in names or [f"{FOLDER}/{file}" for file in [*FILES, "readme.html"]]:
            info = tarfile.TarInfo(name)
            info.size = size
            tar.addfile(info, io.BytesIO(hashlib.shake_128(name.encode()).digest(size)))
    return out.getvalue()


class Server:
    """Serves `content` at any path. `behaviours` are used up one a request; then it behaves."""

    def __init__(self, content: bytes, behaviours: list[str]) -> None:
        self.ranges: list[str | None] = []  # of each request
        self.paths: list[str] = []
        self.stalled = threading.Event()  # half of the body is sent and no more will come
        self.release = threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # noqa: N802 (http.server's name)
                behaviour = behaviours.pop(0) if behaviours else ""
                wanted = self.headers.get("Range")
                outer.ranges.append(wanted)
                outer.paths.append(self.path)
                begin = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
                if behaviour in ("404", "500", "416"):
                    self.send_error(int(behaviour))
                    return
                if behaviour == "no range":
                    begin = 0
                body = content[begin:]
                self.send_response(206 if begin else 200)
                if begin:
                    at = begin + 1 if behaviour == "other range" else begin
                    self.send_header(
                        "Content-Range", f"bytes {at}-{len(content) - 1}/{len(content)}"
                    )
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if behaviour == "truncate":
                    body = body[: len(body) // 2]
                if behaviour == "stall":
                    self.wfile.write(body[: len(body) // 2])
                    self.wfile.flush()
                    outer.stalled.set()
                    outer.release.wait()
                    return
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/mirror"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.release.set()
        self.http.shutdown()
        self.http.server_close()


class Base(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name)
        self.dir = self.root / "data"
        self.archive = make_archive()
        self.timeout = 20.0

    def command(self, *args: str, md5: str | None = None) -> list[str]:
        digest = md5 or hashlib.md5(self.archive).hexdigest()
        return [
            sys.executable,
            "-c",
            DRIVER,
            str(SCRIPTS / "get_data"),
            str(10 * RECORD),
            digest,
            str(self.timeout),
            *args,
            "--dir",
            str(self.dir),
        ]

    def run_script(self, *args: str, md5: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*args, md5=md5), capture_output=True, text=True, timeout=60, check=False
        )

    def serve(self, behaviours: list[str] | None = None, content: bytes | None = None) -> Server:
        server = Server(self.archive if content is None else content, behaviours or [])
        self.addCleanup(server.close)
        return server

    def assert_whole(self, done: subprocess.CompletedProcess[str]) -> None:
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in FILES:
            content = (self.dir / FOLDER / name).read_bytes()
            self.assertEqual(
                content, hashlib.shake_128(f"{FOLDER}/{name}".encode()).digest(10 * RECORD)
            )
        left = sorted(path.name for path in self.dir.iterdir())
        self.assertEqual(left, [".get_data.lock", FOLDER])

    def assert_whole_text(self, done: subprocess.CompletedProcess[str]) -> None:
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.dir / TEXT).read_bytes(), TEXT_CONTENT)
        left = sorted(path.name for path in self.dir.iterdir())
        self.assertEqual(left, [".get_data.lock", TEXT])

    def assert_fails(self, done: subprocess.CompletedProcess[str], code: int, *texts: str) -> None:
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr)
        self.assertFalse((self.dir / FOLDER).exists())
        self.assertFalse((self.dir / TEXT).exists())
