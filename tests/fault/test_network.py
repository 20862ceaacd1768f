#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Section network of the configuration, `trainer bench comm` and `trainer doctor`, under mpirun.

Ranks of a node share memory, so that few messages travel here: `bench comm --ranks-per-node 1` does without,
and Open MPI is told to prefer TCP to its own shared memory. The loopback interface counts the bytes.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from trainer_runs import CONFIG, TrainerTest, main

UCX = ("network.transport=ucx", "network.ucx_tls=[tcp, self]", "network.interfaces=[lo]")
BENCH_BYTES = 1 << 20
REPEATS = 24  # of all_reduce: 3 to warm up, 21 to measure
OVER_LOOPBACK = {"OMPI_MCA_btl_tcp_exclusivity": "70000"}  # above that of shared memory


def loopback_bytes() -> int:
    lines = Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.strip().startswith("lo:"))


class NetworkTest(TrainerTest):
    def mpirun_call(self, *words: object, code: int = 0, ranks: int = 2, arguments: tuple[str, ...] = (),
                    **environment: str) -> subprocess.CompletedProcess[str]:
        command = [self.mpirun, "--oversubscribe", *arguments, "-np", ranks, self.trainer, *words]
        return self.finish(self.start_command(command, **environment), code)

    def bench(self, *words: object, **environment: str) -> tuple[dict, int]:
        """The header of a benchmark of messages, and what it moved over the loopback interface."""
        before = loopback_bytes()
        done = self.mpirun_call("bench", "comm", "--ranks-per-node", 1, "--json", "--sizes", BENCH_BYTES,
                                *words, **environment)
        return json.loads(done.stdout.splitlines()[0]), loopback_bytes() - before


class Transports(NetworkTest):
    # Two ranks: each sends half to the other, and half of the sums back.
    LEAST = 2 * BENCH_BYTES * REPEATS

    def test_tcp_runs_over_tcp(self) -> None:
        header, moved = self.bench("network.transport=tcp", "network.interfaces=[127.0.0.0/8]",
                                   **OVER_LOOPBACK)
        self.assertEqual(header["transport"], "ob1 (self, tcp, vader)")
        self.assertGreater(moved, self.LEAST)

    def test_ucx_runs_over_ucx(self) -> None:
        header, moved = self.bench(*UCX)
        self.assertEqual(header["transport"], "ucx")
        self.assertGreater(moved, self.LEAST)

    def test_auto_leaves_the_choice_to_open_mpi(self) -> None:
        for choice, transport in {"ob1": "ob1 (self, tcp, vader)", "ucx": "ucx"}.items():
            header, _ = self.bench(OMPI_MCA_pml=choice, OMPI_MCA_pml_ucx_tls="any",
                                   OMPI_MCA_pml_ucx_devices="any", UCX_TLS="posix,cma,self")
            self.assertEqual(header["transport"], transport)

    def test_ucx_has_its_library_in_the_process(self) -> None:
        job = self.start_command([self.mpirun, "--oversubscribe", "-np", 2, self.trainer, self.config,
                                  *UCX, "run.dir=runs/a", "train.epochs=1000"])
        self.wait_for_step(self.run_dir("a"), 1)
        maps = Path(f"/proc/{job.rank(0)}/maps").read_text()
        job.process.terminate()
        job.finish()
        self.assertIn("libucp.so", maps)


class Settings(NetworkTest):
    def test_are_set_shown_and_kept_in_the_run(self) -> None:
        preset = self.root / "net.yaml"
        preset.write_text("network: {transport: tcp, tcp_links: 2, tcp_send_buffer: 65536,\n"
                          "          tcp_receive_buffer: 65536, rendezvous_bytes: 4096}\n")
        more = ("run.dir=runs/a", "train.epochs=1", "network.yield_when_idle=always")
        out = self.mpirun_call(self.config, "--network", preset, *more).stdout
        variables = {
            "OMPI_MCA_pml": "ob1",
            "OMPI_MCA_btl": "tcp,vader,self",
            "OMPI_MCA_btl_tcp_eager_limit": "4096",
            "OMPI_MCA_mpi_yield_when_idle": "1",
            "OMPI_MCA_btl_tcp_links": "2",
            "OMPI_MCA_btl_tcp_sndbuf": "65536",
            "OMPI_MCA_btl_tcp_rcvbuf": "65536",
        }
        for name, value in variables.items():
            self.assertEqual(out.count(f"{name}={value}"), 1, out)
        environment = json.loads((self.root / "runs/a/env.json").read_text())
        self.assertEqual(environment["network_set"], variables)
        self.assertEqual(environment["mpi_transport"], "ob1 (self, tcp, vader)")
        self.assertIn("tcp_links: 2", (self.root / "runs/a/config.yaml").read_text())
        # An evaluation and a resumed run have the run's settings, or others.
        for words in (("eval", "runs/a"), ("eval", "runs/a/checkpoints/latest"), ("resume", "runs/a")):
            self.assertIn("OMPI_MCA_btl_tcp_links=2", self.mpirun_call(*words).stdout)
        others = (*UCX, "network.tcp_links=0", "network.tcp_send_buffer=0",
                  "network.tcp_receive_buffer=0")
        for command in ("eval", "resume"):
            out = self.mpirun_call(command, "runs/a", *others).stdout
            self.assertIn("MPI's messages travel over ucx", out)

    def test_of_ucx_are_followed(self) -> None:
        more = ("network.rendezvous_bytes=8192", "network.ucx_rndv_scheme=put_zcopy",
                "network.yield_when_idle=never")
        out = self.mpirun_call("bench", "comm", "--sizes", "64KiB", *UCX, *more).stdout
        for text in ("UCX_RNDV_THRESH=8192", "UCX_RNDV_SCHEME=put_zcopy", "UCX_TLS=tcp,self",
                     "UCX_NET_DEVICES=lo", "OMPI_MCA_mpi_yield_when_idle=0"):
            self.assertIn(text, out)

    def test_what_the_environment_or_mpirun_has_set_wins_and_is_shown(self) -> None:
        words = ("bench", "comm", "--sizes", "4", *UCX)
        done = self.mpirun_call(*words, arguments=("--mca", "pml", "ob1"), UCX_TLS="posix,self")
        self.assertIn("travel over ob1", done.stdout)
        for text in ("OMPI_MCA_pml=ob1 was set before (environment or mpirun) and wins over "
                     "network.transport", "UCX_TLS=posix,self was set before"):
            self.assertEqual(done.stdout.count(text), 1, done.stdout)

    def test_by_default_nothing_is_set_and_nothing_is_said(self) -> None:
        out = self.mpirun_call(self.config, "run.dir=runs/a", "train.epochs=1").stdout
        self.assertNotIn("network", out)

    def test_alone_without_mpirun_they_are_for_others(self) -> None:
        line = ("network: one rank without mpirun sends nothing, so these have no effect: "
                "network.transport: ucx, network.interfaces: [lo], network.ucx_tls: [tcp, self]\n")
        for words in ((self.config, "run.dir=runs/a", "train.epochs=1"), ("bench", "comm")):
            self.assertEqual(self.call(*words, *UCX).stdout.count(line), 1)
        self.assertNotIn("network", self.call(self.config, "run.dir=runs/b", "train.epochs=1").stdout)


class Refused(NetworkTest):
    def refused(self, *parts: str, words: tuple[object, ...], code: int = 2) -> None:
        with self.subTest(words=words):
            done = self.mpirun_call(self.config, "run.dir=runs/a", *words, code=code)
            self.assert_error_once(done, *parts)
            self.assertFalse((self.root / "runs").exists())

    def test_what_no_rank_can_follow_is_said_once(self) -> None:
        tcp, ucx = "network.transport=tcp", "network.transport=ucx"
        self.refused("'udp' is not one of the choices", words=("network.transport=udp",))
        self.refused("network.interfaces: host ", "no interface 'eth99'", words=(tcp, "network.interfaces=[eth99]"))
        self.refused("no interface 'eth99'", words=(*UCX[:2], "network.interfaces=[eth99]"))
        self.refused("no port 'mlx5_77:1'", words=(ucx, "network.ucx_devices=['mlx5_77:1']"))
        self.refused("'rcx' is not one of the choices", words=(ucx, "network.ucx_tls=[rcx]"))
        self.refused("it is for ucx; delete it", words=(tcp, "network.ucx_gid_index=3"))

    def test_loopback_alone_where_ranks_are_on_several_hosts(self) -> None:
        # As mpirun says it to each of two hosts; MPI is not asked, as the error comes before it starts.
        hosts = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
                 "OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}
        tcp = ("network.transport=tcp", "network.interfaces=[127.0.0.0/8]")
        for words in ((self.config, *tcp), ("doctor", *tcp), ("bench", "comm", *UCX)):
            job = self.start_command([self.trainer, *words], **hosts)
            self.assert_error_once(self.finish(job, 2), "is left with its loopback interface",
                                   "this job has ranks on other hosts")

    def test_nodes_that_train_apart_without_equally_many_ranks(self) -> None:
        # 31 is no multiple of 3 either, but no other batch helps.
        done = self.mpirun_call(self.config, "run.dir=runs/a", "--ranks-per-node", 2, "parallel.sync_every=4",
                                "data.drop_last=true", ranks=3, code=2)
        self.assert_error_once(done, "wants equally many ranks on every node", "found 3", "--map-by ppr:N:node")
        self.assertNotIn("global_batch", done.stderr)
        # It has left no run, so that the same name may be used for what fits.
        self.mpirun_call(self.config, "run.dir=runs/a", "--ranks-per-node", 1, "parallel.sync_every=4",
                         "data.drop_last=true", "train.global_batch=32", "train.max_steps=4")

    def test_what_a_run_has_stored_and_this_host_has_not_may_be_overridden(self) -> None:
        run = self.train("a", "train.epochs=1", "network.interfaces=[eth99]")
        stored = "network.interfaces: [eth99] is the run's (runs/a/config.yaml), and may change"
        for command in ("eval", "resume"):
            done = self.mpirun_call(command, "runs/a", code=2)
            self.assert_error_once(done, "no interface 'eth99'", stored,
                                   "network.interfaces=[] for the default")
            # An override is the user's own.
            done = self.mpirun_call(command, "runs/a", "network.interfaces=[eth98]", code=2)
            self.assertNotIn("is the run's", done.stderr)
            self.mpirun_call(command, "runs/a", "network.interfaces=[]")
        self.assertEqual(run.state()["status"], "finished")

    def test_what_needs_an_infiniband_device(self) -> None:
        if Path("/sys/class/infiniband").exists():
            self.skipTest("this host has an InfiniBand or RoCE device")
        ucx = "network.transport=ucx"
        self.refused("cannot use 'rc'", words=(ucx, "network.ucx_tls=[rc, self]"))
        self.refused("ucx_gid_index: host", words=(ucx, "network.ucx_gid_index=3"))
        self.refused("ucx_service_level: host", words=(ucx, "network.ucx_service_level=3"))

    def test_a_file_of_more_than_network_settings(self) -> None:
        self.refused("small.yaml:1:1: is no file of network settings",
                     words=("--network", self.config))
        self.refused("absent.yaml: no such configuration file", words=("--network", "absent.yaml"))
        self.refused("tcp: is no file of network settings", "--network configs/network/tcp.yaml",
                     "network.transport=tcp", words=("--network", "tcp"))

    def test_interfaces_that_open_mpis_own_choice_does_not_use(self) -> None:
        done = self.mpirun_call(self.config, "network.interfaces=[lo]", code=2, OMPI_MCA_pml="ucx",
                                OMPI_MCA_pml_ucx_tls="any", OMPI_MCA_pml_ucx_devices="any",
                                UCX_TLS="tcp,self")
        self.assert_error_once(done, "network.interfaces: has no effect: Open MPI chose ucx")

    def test_ranks_that_were_given_different_settings(self) -> None:
        one = [self.trainer, self.config]
        job = self.start_command([self.mpirun, "--oversubscribe", "-np", 1, *one,
                                  "network.transport=tcp", ":", "-np", 1, *one])
        self.assert_error_once(self.finish(job, 6), "ranks differ in the network settings",
                               "'network.transport: tcp' on rank 0")


class BenchComm(NetworkTest):
    def test_prints_a_table_with_what_it_measured(self) -> None:
        out = self.mpirun_call("bench", "comm", "--sizes", "4,1KiB,64KiB", ranks=3).stdout
        self.assertIn("3 ranks on 1 node, memory shared within a node, messages over ob1", out)
        rows = [line.split() for line in out.splitlines() if line.endswith("%")]
        self.assertEqual([row[0] for row in rows], ["4", "1024", "65536"])
        for row in rows:
            self.assertLessEqual(float(row[1]), float(row[2]))
        self.assertIn("busbw: algbw * 2 (p - 1) / p for p ranks = algbw * 1.333\n", out)
        self.assertRegex(out, r"\nlimit at 65536 bytes: each rank copies \d+\.\d+ GB/s while the others do; "
                              r"so all_reduce could take \d+\.\d us, and takes \d+\.\d\n$")

    def test_what_may_take_long_is_announced_on_stderr(self) -> None:
        for json_too in ((), ("--json",)):
            done = self.mpirun_call("bench", "comm", "--sizes", "1MiB", *json_too)
            self.assertEqual(done.stderr.count("trireme: measuring 1048576 bytes\n"), 1, done.stderr)
        self.assertNotIn("measuring", self.mpirun_call("bench", "comm", "--sizes", "4").stderr)

    def test_json_has_the_bandwidths_of_nccl_tests(self) -> None:
        done = self.mpirun_call("bench", "comm", self.config, "--sizes=4096", "--json", ranks=3)
        header, row = map(json.loads, done.stdout.splitlines())
        self.assertEqual((header["ranks"], header["nodes"], header["shared_memory"]), (3, 1, True))
        self.assertAlmostEqual(row["algbw_GB_per_s"], 4096 / row["median_us"] / 1e3, places=9)
        self.assertAlmostEqual(row["busbw_GB_per_s"], row["algbw_GB_per_s"] * 4 / 3, places=9)
        self.assertAlmostEqual(header["bus_factor"], 4 / 3)
        self.assertAlmostEqual(row["of_limit"], row["limit_us"] / row["median_us"], places=9)
        self.assertAlmostEqual(row["limit_GB_per_s"], 4096 / row["limit_us"] / 1e3, places=9)

    def test_its_own_sizes_are_powers_of_4_up_to_64_mib(self) -> None:
        done = self.mpirun_call("bench", "comm", "--json")
        sizes = [json.loads(line)["bytes"] for line in done.stdout.splitlines()[1:]]
        self.assertEqual(sizes, [4**k for k in range(1, 14)])

    def test_keys_that_it_does_not_use_are_named_in_one_line(self) -> None:
        words = ("bench", "comm", "--sizes", "4", "parallel.compression=fp16")
        for more in ((), (self.config,)):
            done = self.mpirun_call(*words[:2], *more, *words[2:])
            self.assertEqual(done.stderr.count("parallel.compression has no effect"), 1, done.stderr)
        done = self.mpirun_call("bench", "comm", self.config, "--sizes", "4", "network.transport=tcp")
        self.assertNotIn("effect", done.stderr)

    def test_settings_that_are_none_are_refused_without_a_configuration_too(self) -> None:
        for command in (("bench", "comm"), ("doctor",)):
            for ranks in (0, 2):
                done = self.call(*command, "network.transprt=tcp", ranks=ranks, code=2)
                self.assert_error_once(done, "network.transprt: unknown key", "'transport'")

    def test_one_rank_has_nothing_to_measure(self) -> None:
        for ranks in (0, 1):
            self.assertIn("nothing to measure", self.call("bench", "comm", ranks=ranks).stdout)

    def test_a_configuration_that_is_none_is_refused(self) -> None:
        self.config.write_text(CONFIG.replace("lr: 0.001", "lr: x"))
        done = self.call("bench", "comm", "small.yaml", ranks=2, code=2)
        self.assert_error_once(done, "optimizer.lr")


class NodesOfOneHost(NetworkTest):
    def run_on_nodes(self, name: str, *words: object) -> subprocess.CompletedProcess[str]:
        return self.call(self.config, f"run.dir=runs/{name}", *words, "train.max_steps=9", ranks=2)

    def test_ranks_of_a_host_that_are_nodes_compress_between_them(self) -> None:
        one = self.run_on_nodes("one", "parallel.compression=fp16")
        self.assertIn("parallel.compression acts between nodes, and there is one: no effect", one.stderr)
        two = self.run_on_nodes("two", "parallel.compression=fp16", "--ranks-per-node", 1)
        self.assertNotIn("no effect", two.stderr)
        self.assertIn("resume runs/two --ranks-per-node 1`", two.stdout)
        logs = {name: (self.run_dir(name).path / "log.txt").read_text() for name in ("one", "two")}
        self.assertIn("acts between nodes, and there is one: no effect", logs["one"])
        self.assertIn("Z between 2 nodes gradients travel as fp16 (parallel.compression: fp16)", logs["two"])
        self.assertIn("Z gradients travel in buckets of ", logs["two"])
        link = json.loads((self.run_dir("two").path / "env.json").read_text())["link_latency_s"]
        sent = {name: [event["comm_sent_bytes"] for event in self.run_dir(name).events("step")]
                for name in ("one", "two")}
        self.assertEqual(max(sent["one"]), 0)
        self.assertGreater(min(sent["two"]), 0)
        resumed = self.call("resume", "runs/two", "train.epochs=2", "train.max_steps=0", ranks=2)
        self.assertIn("made on 2 nodes, and this run is on 1 node", resumed.stderr)
        self.assertIn("(parallel.bucket_mb), as the configuration has it", resumed.stdout)
        self.assertEqual(json.loads((self.run_dir("two").path / "env.json").read_text())["link_latency_s"], link)


class Doctor(NetworkTest):
    CHECKS = {"trireme", "libtorch", "instructions", "hdf5", "gpu driver", "gpu", "cuda", "cudnn",
              "nccl", "mpi", "transport", "rdma devices", "node memory", "memlock", "/dev/shm",
              "cores", "addresses", "clocks", "run directory", "shared files", "all_reduce"}

    def report(self, *words: object, **environment: str) -> dict[str, list[dict]]:
        out = self.mpirun_call("doctor", "--json", *words, **environment).stdout
        found: dict[str, list[dict]] = {}
        for line in out.splitlines()[:-1]:
            found.setdefault(json.loads(line)["check"], []).append(json.loads(line))
        total = json.loads(out.splitlines()[-1])
        self.assertEqual(sum(total.values()), sum(map(len, found.values())))
        return found

    def test_finds_this_machine_fit_and_leaves_nothing(self) -> None:
        found = self.report(self.config)
        self.assertEqual(set(found), self.CHECKS)
        self.assertEqual({f["verdict"] for fs in found.values() for f in fs} - {"warn"}, {"ok"})
        self.assertEqual(found["mpi"][0]["ranks"], [0, 1])
        self.assertIn("MPI_THREAD_", found["mpi"][0]["text"])
        self.assertIn(str(self.root), found["run directory"][0]["text"])
        self.assertEqual(found["all_reduce"][0]["text"], "262144 sums over 2 ranks are right")
        self.assertEqual([path.name for path in self.root.iterdir()], ["small.yaml"])

    def test_in_words_a_line_a_check_with_a_hint_for_what_is_wrong(self) -> None:
        out = self.mpirun_call("doctor", arguments=("--bind-to", "none"), OMP_NUM_THREADS="999").stdout
        self.assertRegex(out, "(?m)^ok +all_reduce +262144 sums")
        self.assertRegex(out, "(?m)^warn +cores .*\n +hint: 2 ranks of 999 threads")
        self.assertRegex(out, r"(?m)^\d+ ok, \d+ warn, 0 fail$")

    def test_shows_the_transport_and_what_wins_over_the_settings(self) -> None:
        found = self.report(*UCX, UCX_TLS="tcp,posix,self")
        self.assertEqual([f["verdict"] for f in found["transport"]], ["ok", "warn"])
        self.assertIn("ucx; set OMPI_MCA_pml=ucx", found["transport"][0]["text"])
        self.assertIn("UCX_TLS=tcp,posix,self was set before", found["transport"][1]["text"])

    def test_a_run_directory_that_cannot_be_written_fails(self) -> None:
        done = self.mpirun_call("doctor", self.config, "run.dir=/proc/self/run", code=6)
        self.assertRegex(done.stdout, "(?m)^fail +run directory .*\n +hint: ")

    def test_by_hand_there_is_one_rank(self) -> None:
        self.assertIn("262144 sums over 1 rank are right", self.call("doctor").stdout)


if __name__ == "__main__":
    main()
