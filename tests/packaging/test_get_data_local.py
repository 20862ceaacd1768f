#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/get_data --from: archives, folders and images."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tarfile
import unittest
from pathlib import Path

from get_data_support import (
    FILES,
    FOLDER,
    RECORD,
    SCRIPTS,
    TEXT,
    TEXT_CONTENT,
    TEXT_MD5,
    Base,
    make_archive,
)


class LocalFiles(Base):
    def test_from_an_archive(self) -> None:
        path = self.root / "any name.tgz"
        path.write_bytes(self.archive)
        self.assert_whole(self.run_script("cifar10", "--from", str(path)))

    def test_from_the_unpacked_folder_or_its_parent(self) -> None:
        with tarfile.open(fileobj=io.BytesIO(self.archive)) as tar:
            tar.extractall(self.root / "there")
        self.assert_whole(self.run_script("cifar10", "--from", str(self.root / "there" / FOLDER)))
        self.dir = self.root / "second"
        self.assert_whole(self.run_script("cifar10", "--from", str(self.root / "there")))

    def test_damaged_archives(self) -> None:
        path = self.root / "archive.tar.gz"
        flipped = bytearray(self.archive)
        flipped[len(flipped) // 2] ^= 0xFF
        for content in (self.archive[: len(self.archive) // 2], bytes(flipped), b"", b"no archive"):
            path.write_bytes(content)
            self.assert_fails(self.run_script("cifar10", "--from", str(path)), 3, str(path))

    def test_archive_without_a_file_or_with_a_short_one(self) -> None:
        path = self.root / "archive.tar.gz"
        path.write_bytes(make_archive([f"{FOLDER}/{name}" for name in FILES[:-1]]))
        self.assert_fails(self.run_script("cifar10", "--from", str(path)), 3, "no test_batch.bin")
        path.write_bytes(make_archive(size=9 * RECORD))
        self.assert_fails(
            self.run_script("cifar10", "--from", str(path)),
            3,
            f"holds {9 * RECORD} bytes, expected {10 * RECORD}",
        )

    def test_unsafe_paths_are_refused(self) -> None:
        path = self.root / "archive.tar.gz"
        for evil in (f"/{FOLDER}/evil.bin", f"{FOLDER}/../../evil.bin"):
            path.write_bytes(make_archive([f"{FOLDER}/{FILES[0]}", evil]))
            self.assert_fails(
                self.run_script("cifar10", "--from", str(path)), 3, "unsafe path", evil
            )
        self.assertEqual(list(self.root.rglob("evil.bin")), [])

    def test_a_name_that_no_file_can_have(self) -> None:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
            member = tarfile.TarInfo(f"{FOLDER}/{FILES[0]}")
            member.pax_headers = {"path": f"{FOLDER}/a\0b"}
            tar.addfile(member)
        path = self.root / "archive.tar"
        path.write_bytes(out.getvalue())
        self.assert_fails(self.run_script("cifar10", "--from", str(path)), 3, "damaged archive")

    def test_links_in_an_archive_are_not_followed(self) -> None:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as tar:
            link = tarfile.TarInfo(f"{FOLDER}/{FILES[0]}")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(link)
            other = tarfile.TarInfo(f"{FOLDER}/other")
            tar.addfile(other)
        path = self.root / "archive.tar.gz"
        path.write_bytes(out.getvalue())
        self.assert_fails(self.run_script("cifar10", "--from", str(path)), 3, f"no {FILES[0]}")

    def test_nothing_at_from(self) -> None:
        self.assert_fails(
            self.run_script("cifar10", "--from", str(self.root / "none")), 3, "no such file"
        )

    def test_a_folder_that_is_not_whole_is_left_alone(self) -> None:
        (self.dir / FOLDER).mkdir(parents=True)
        mine = self.dir / FOLDER / FILES[0]
        mine.write_bytes(b"mine")
        done = self.run_script("cifar10", "--url", self.serve().url)
        self.assertEqual(done.returncode, 3)
        self.assertIn("move it away", done.stderr)
        self.assertEqual(mine.read_bytes(), b"mine")

    def test_an_unwritable_place(self) -> None:
        (self.root / "data").write_text("a file, not a folder")
        done = self.run_script("cifar10", "--url", self.serve().url)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn(str(self.dir), done.stderr)

    def test_idx_files_are_decoded_to_check_them(self) -> None:
        source = self.root / "idx"
        source.mkdir()
        sizes = {
            "train-images-idx3": 100,
            "train-labels-idx1": 50,
            "t10k-images-idx3": 40,
            "t10k-labels-idx1": 20,
        }
        for name, size in sizes.items():
            (source / f"{name}-ubyte.gz").write_bytes(gzip.compress(b"x" * size))
        done = self.run_script("mnist", "--from", str(source))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(list((self.dir / "mnist").iterdir())), 4)
        self.assertIn("already there", self.run_script("mnist").stdout)
        damaged = source / "t10k-images-idx3-ubyte.gz"
        damaged.write_bytes(damaged.read_bytes()[:-9])
        self.assert_fails(
            self.run_script("fashion_mnist", "--from", str(source)), 3, "t10k-images", "damaged"
        )

    def test_a_text_from_a_file_of_any_name_or_from_its_folder(self) -> None:
        (self.root / "input.txt").write_bytes(TEXT_CONTENT)
        self.assert_whole_text(self.text_from(self.root / "input.txt"))
        there = self.dir
        self.dir = self.root / "second"
        self.assert_whole_text(self.text_from(there))

    def test_another_text_is_refused(self) -> None:
        path = self.root / "input.txt"
        path.write_bytes(TEXT_CONTENT[:-1])
        self.assert_fails(
            self.text_from(path), 3, f"holds {10 * RECORD - 1} bytes, expected {10 * RECORD}"
        )
        path.write_bytes(TEXT_CONTENT[::-1])
        self.assert_fails(self.text_from(path), 3, str(path), f"expected {TEXT_MD5}")
        self.assert_fails(self.text_from(self.root), 3, f"no {TEXT}")

    def test_a_text_that_is_not_whole_is_left_alone(self) -> None:
        self.dir.mkdir()
        (self.dir / TEXT).write_bytes(b"mine")
        done = self.text_from(self.root)
        self.assertEqual(done.returncode, 3)
        self.assertIn("move it away", done.stderr)
        self.assertEqual((self.dir / TEXT).read_bytes(), b"mine")

    def text_from(self, source: Path) -> subprocess.CompletedProcess[str]:
        return self.run_script("tinyshakespeare", "--from", str(source), md5=TEXT_MD5)

    def test_usage_errors(self) -> None:
        self.assert_fails(self.run_script("imagenet"), 2, "invalid choice")
        self.assert_fails(
            self.run_script("cifar10", "--from", "a", "--url", "http://b/"), 2, "not allowed with"
        )
        for address in ("nonsense", "http://[::1/x", "http://a b/", "", "ftp://a/"):
            self.assert_fails(self.run_script("cifar10", "--url", address), 2, "is no address")
        self.assert_fails(self.run_script("cifar10", "--from", ""), 2, "expected a path")

    def test_help_needs_nothing(self) -> None:
        done = subprocess.run(
            [SCRIPTS / "get_data", "--help"], capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, 0)
        self.assertIn("exit codes", done.stdout)


def python_with_pillow() -> str | None:
    for python in (sys.executable, "/usr/bin/python3"):
        if (
            os.path.exists(python)
            and subprocess.run(
                [python, "-c", "import PIL"], capture_output=True, check=False
            ).returncode
            == 0
        ):
            return python
    return None


@unittest.skipIf(python_with_pillow() is None, "no Python with Pillow: install python3-pil")
class FromImages(Base):
    CLASSES = list("abcdefghij")
    WRITE = """
import sys
from pathlib import Path
from PIL import Image
root = Path(sys.argv[1])
for split, count in (("train", 5), ("test", 1)):
    for label, name in enumerate("abcdefghij"):
        folder = root / split / name
        folder.mkdir(parents=True)
        for i in range(count):
            image = Image.new("RGB", (32, 32), (label, i, 200))
            image.putpixel((31, 0), (1, 2, 3))
            image.save(folder / f"{i}.png")
"""

    def setUp(self) -> None:
        super().setUp()
        self.images = self.root / "images"
        subprocess.run([str(python_with_pillow()), "-c", self.WRITE, str(self.images)], check=True)

    def assert_converted(self, done: subprocess.CompletedProcess[str]) -> None:
        self.assertEqual(done.returncode, 0, done.stderr)
        for number in range(5):
            content = (self.dir / FOLDER / f"data_batch_{number + 1}.bin").read_bytes()
            for label in range(10):
                record = content[label * RECORD : (label + 1) * RECORD]
                self.assertEqual(record[:3], bytes([label, label, label]))
                self.assertEqual(record[1 + 31 : 1 + 33], bytes([1, label]))  # end of the first row
                self.assertEqual(record[1 + 1024], number)
                self.assertEqual(record[-1], 200)
        meta = (self.dir / FOLDER / "batches.meta.txt").read_text()
        self.assertEqual(meta.split(), self.CLASSES)

    def test_from_a_folder_of_images(self) -> None:
        self.assert_converted(self.run_script("cifar10", "--from", str(self.images)))

    def test_from_archives_of_images(self) -> None:
        for mode, ending in (("w", "tar"), ("w:gz", "tar.gz"), ("w:xz", "tar.xz")):
            path = self.root / f"images.{ending}"
            with tarfile.open(path, mode) as tar:
                tar.add(self.images / "test", "./test")
                tar.add(self.images / "train", "./train")
            self.dir = self.root / ending
            self.assert_converted(self.run_script("cifar10", "--from", str(path)))

    def test_an_image_that_is_damaged(self) -> None:
        path = self.images / "train" / "c" / "3.png"
        path.write_bytes(path.read_bytes()[:40])
        self.assert_fails(
            self.run_script("cifar10", "--from", str(self.images)), 3, "train/c/3.png"
        )

    def test_a_class_with_too_few_images(self) -> None:
        (self.images / "train" / "c" / "3.png").unlink()
        self.assert_fails(self.run_script("cifar10", "--from", str(self.images)), 3, "'c': 4")

    def test_images_of_one_split_alone(self) -> None:
        for path in (self.images / "test").rglob("*.png"):
            path.unlink()
        self.assert_fails(
            self.run_script("cifar10", "--from", str(self.images)), 3, "test_batch.bin"
        )


if __name__ == "__main__":
    unittest.main()
