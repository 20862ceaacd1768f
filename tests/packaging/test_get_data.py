#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/get_data: downloads from a local server."""

import hashlib
import resource
import subprocess
import unittest

from get_data_support import ARCHIVE, FILES, FOLDER, TEXT_CONTENT, TEXT_MD5, Base


class Downloading(Base):
    def test_fetches_unpacks_and_does_nothing_the_second_time(self) -> None:
        server = self.serve()
        done = self.run_script("cifar10", "--url", server.url)
        self.assert_whole(done)
        self.assertNotIn("\r", done.stdout)
        self.assertIn(f"{ARCHIVE}: 0.2 of 0.2 MB", done.stdout)
        again = self.run_script("cifar10", "--url", server.url)
        self.assertIn("already there", again.stdout)
        self.assertEqual(len(server.ranges), 1)

    def test_url_may_name_the_archive_itself(self) -> None:
        self.assert_whole(self.run_script("cifar10", "--url", f"{self.serve().url}/{ARCHIVE}"))

    def test_goes_on_where_the_connection_broke(self) -> None:
        server = self.serve(["truncate", "truncate"])
        self.assert_whole(self.run_script("cifar10", "--url", server.url))
        half = len(self.archive) // 2
        self.assertEqual(server.ranges[:2], [None, f"bytes={half}-"])
        self.assertEqual(len(server.ranges), 3)

    def test_starts_over_where_the_server_refuses_ranges(self) -> None:
        server = self.serve(["truncate", "no range"])
        self.assert_whole(self.run_script("cifar10", "--url", server.url))

    def test_starts_over_where_the_server_sends_another_range(self) -> None:
        server = self.serve(["truncate", "other range"])
        self.assert_whole(self.run_script("cifar10", "--url", server.url))
        self.assertIsNone(server.ranges[2])

    def test_a_whole_file_left_unchecked_is_not_fetched_again(self) -> None:
        downloads = self.dir / f".{FOLDER}.downloads"
        downloads.mkdir(parents=True)
        (downloads / f"{ARCHIVE}.part").write_bytes(self.archive)
        self.assert_whole(self.run_script("cifar10", "--url", self.serve(["416"]).url))

    def test_gives_up_after_some_attempts_and_keeps_what_it_has(self) -> None:
        half = len(self.archive) // 2
        failing = self.serve(["truncate", "500", "500", "500", "500", "500"])
        self.assert_fails(
            self.run_script("cifar10", "--url", failing.url), 3, "500", f"{half} bytes", "--from"
        )
        server = self.serve()
        self.assert_whole(self.run_script("cifar10", "--url", server.url))
        self.assertEqual(server.ranges, [f"bytes={half}-"])

    def test_a_missing_file_is_not_tried_again(self) -> None:
        server = self.serve(["404"])
        self.assert_fails(self.run_script("cifar10", "--url", server.url), 3, "404", "--url")
        self.assertEqual(len(server.ranges), 1)

    def test_nobody_listens(self) -> None:
        server = self.serve()
        server.http.server_close()
        self.assert_fails(self.run_script("cifar10", "--url", server.url), 3, "refused", "--from")

    def test_a_silent_server_is_left_after_the_time_out(self) -> None:
        self.timeout = 0.5
        server = self.serve(["stall"] * 9)
        self.assert_fails(self.run_script("cifar10", "--url", server.url), 3, "timed out")

    def test_wrong_checksum_removes_the_file(self) -> None:
        done = self.run_script("cifar10", "--url", self.serve().url, md5="0" * 32)
        self.assert_fails(done, 3, hashlib.md5(self.archive).hexdigest(), "expected " + "0" * 32)
        self.assertEqual(list((self.dir / f".{FOLDER}.downloads").iterdir()), [])

    def test_a_full_disk_is_reported_and_not_taken_for_the_network(self) -> None:
        server = self.serve()
        done = subprocess.run(
            self.command("cifar10", "--url", server.url),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)),
        )
        self.assert_fails(done, 4, "cannot write", f"{ARCHIVE}.part")
        self.assertEqual(len(server.ranges), 1)

    def test_killed_while_downloading_then_run_again(self) -> None:
        server = self.serve(["stall"])
        with subprocess.Popen(
            self.command("cifar10", "--url", server.url), stdout=subprocess.PIPE
        ) as process:
            self.assertTrue(server.stalled.wait(30))
            process.kill()
        self.assertFalse((self.dir / FOLDER).exists())
        self.assert_whole(self.run_script("cifar10", "--url", server.url))

    def test_killed_while_unpacking_then_run_again(self) -> None:
        partial = self.dir / f".{FOLDER}.partial"
        partial.mkdir(parents=True)
        (partial / FILES[0]).write_bytes(b"half")  # what kill -9 leaves
        (partial / "stale.bin").write_bytes(b"")
        self.assert_whole(self.run_script("cifar10", "--url", self.serve().url))
        self.assertFalse((self.dir / FOLDER / "stale.bin").exists())

    def test_two_at_once_do_it_once(self) -> None:
        server = self.serve()
        both = [
            subprocess.Popen(
                self.command("cifar10", "--url", server.url), stdout=subprocess.PIPE, text=True
            )
            for _ in range(2)
        ]
        said = sorted(
            process.communicate(timeout=60)[0].splitlines()[-1].rpartition(" ")[2]
            for process in both
        )
        self.assertEqual([process.returncode for process in both], [0, 0])
        self.assertEqual(said, ["ready", "there"])
        self.assertEqual(len(server.ranges), 1)

    def test_a_text_becomes_one_file_and_the_second_time_nothing_is_done(self) -> None:
        server = self.serve(["truncate"], TEXT_CONTENT)
        self.assert_whole_text(
            self.run_script("tinyshakespeare", "--url", server.url, md5=TEXT_MD5)
        )
        self.assertEqual(server.ranges, [None, f"bytes={len(TEXT_CONTENT) // 2}-"])
        self.assertEqual(set(server.paths), {"/mirror/input.txt"})
        again = self.run_script("tinyshakespeare", "--url", server.url)
        self.assertIn("already there", again.stdout)
        self.assertEqual(len(server.ranges), 2)

    def test_url_may_name_the_text_itself(self) -> None:
        url = f"{self.serve(content=TEXT_CONTENT).url}/input.txt"
        self.assert_whole_text(self.run_script("tinyshakespeare", "--url", url, md5=TEXT_MD5))

    def test_a_text_with_a_wrong_checksum_is_not_kept(self) -> None:
        server = self.serve(content=TEXT_CONTENT[::-1])
        done = self.run_script("tinyshakespeare", "--url", server.url, md5=TEXT_MD5)
        self.assert_fails(done, 3, "input.txt", f"expected {TEXT_MD5}")


if __name__ == "__main__":
    unittest.main()
