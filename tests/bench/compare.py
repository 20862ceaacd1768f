#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Trireme with its peers, in alternating pairs; prints a JSON line for each pair and one for each result.

  compare.py [options] CASE ...        compare.py --list

Ratios are the peer's time (or memory) over ours: more than 1 is in our favour. The last line of a case holds the median of the
pairwise ratios with its spread. Each peer has its best setting: DistributedDataParallel the best bucket size of 1, 5, 25 and
100 MB, tried first; and glibc keeps its large blocks (MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_), as Trireme does.
Cases of two and four hosts want root and a script that makes network namespaces (--cluster).
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEEP = {"MALLOC_TRIM_THRESHOLD_": "17179869184", "MALLOC_MMAP_THRESHOLD_": "17179869184"}
MPI_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
WARM_UP = 5  # steps of a run that do not count


class Bench:
    def __init__(self, options):
        self.o = options
        self.build = pathlib.Path(options.build).resolve()
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="trireme-bench-"))
        self.runs = 0
        self.best_bucket = {}

    # What is run.

    def run(self, command, env=None, checked=True):
        result = subprocess.run(command, env={**os.environ, **MPI_ROOT, "OMP_NUM_THREADS": "1", **(env or {})},
                                capture_output=True, text=True, cwd=ROOT, timeout=900)
        if result.returncode != 0 and (checked or not result.stdout):
            raise SystemExit(f"{shlex.join(map(str, command))}\nended with {result.returncode}:\n{result.stderr[-2000:]}")
        return result.stdout

    def launcher(self, ranks, hosts):
        if hosts:
            return [self.o.cluster, "mpirun", str(ranks)]
        return ["mpirun", "--oversubscribe", "-np", str(ranks)]

    def torchrun(self, ranks):
        return [self.o.python, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]

    def peer(self, name):
        return str(pathlib.Path(self.o.peers) / name)

    # Ours and theirs.

    def trainer(self, workload, *overrides, ranks=2, hosts=0):
        self.runs += 1
        where = self.work / f"run{self.runs}"
        config = ROOT / "tests/bench/configs" / (workload + ".yaml")
        steps = f"train.max_steps={WARM_UP + self.o.steps}"
        command = [self.build / "trainer", config, f"run.dir={where}", steps, *overrides]
        if workload == "gpt":
            command.append(f"data.path={self.o.text}")
        return where, [*self.launcher(ranks, hosts), *map(str, command)]

    def steps(self, where):
        events = [json.loads(line) for line in open(where / "metrics.jsonl")]
        return [event for event in events if event["event"] == "step"][WARM_UP:]

    def step_ms(self, where):
        steps = self.steps(where)
        return {"ms": statistics.median(step["step_ms"] for step in steps),
                "exposed_ms": statistics.median(step["comm_exposed_ms"] for step in steps)}

    def our_step(self, workload, *overrides, **kind):
        where, command = self.trainer(workload, *overrides, **kind)
        self.run(command)
        result = self.step_ms(where)
        result["bucket_mb"] = float(re.search(r"^  bucket_mb: (\S+)", (where / "config.yaml").read_text(), re.MULTILINE).group(1))
        self.run(["rm", "-r", where])
        return result

    def ddp_step(self, workload, *flags):
        out = self.run([*self.torchrun(2), self.peer("step.py"), workload, "--steps", str(self.o.steps), *flags], KEEP)
        return json.loads(out.splitlines()[-1])["step_ms"]["median"]

    def best_ddp_flags(self, workload):
        if workload not in self.best_bucket:
            times = {mb: self.ddp_step(workload, "--bucket-mb", mb, "--steps", "10") for mb in ("1", "5", "25", "100")}
            self.best_bucket[workload] = min(times, key=times.get)
            self.line({"case": f"step {workload}", "peer_ms_by_bucket_mb": times})
        return ["--bucket-mb", self.best_bucket[workload]]

    def our_all_reduce(self, size, *flags, ranks=2, hosts=0):
        out = self.run([*self.launcher(ranks, hosts), str(self.build / "tests/bench/bench_all_reduce"), *flags, str(size)])
        return json.loads(out.splitlines()[-1])["us"]

    def mpi_all_reduce(self, size, *flags):
        program = self.work / "allreduce_mpi"
        if not program.exists():
            self.run(["mpicxx", "-O3", self.peer("allreduce_mpi.cpp"), "-o", str(program)])
        out = self.run(["mpirun", *flags, "-np", "2", str(program), str(size)])
        return json.loads(out.splitlines()[-1])["us"]

    def gloo_all_reduce(self, size):
        # gloo may abort while its processes end, when all is measured.
        out = self.run([*self.torchrun(2), self.peer("allreduce.py"), str(size)], checked=False)
        return json.loads(out.splitlines()[-1])["us"]

    def saving_run(self, workload, overrides, every, saves):
        """Trains with this many checkpoints; where, and its events."""
        where, command = self.trainer(workload, *overrides, f"train.max_steps={every * saves if every else saves}",
                                      f"checkpoint.every_steps={every}", "checkpoint.keep=1",
                                      "data.samples=128")  # the evaluation at the end is short
        self.run(command)
        return where, [json.loads(line) for line in open(where / "metrics.jsonl")]

    # Sampled while it runs.

    def peak_pss_mb(self, command, env=None, is_over=lambda: False):
        """is_over: whether what follows does not count."""
        process = subprocess.Popen(list(map(str, command)), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, **MPI_ROOT, "OMP_NUM_THREADS": "1", **(env or {})})
        peak = 0
        while process.poll() is None:
            now = sum(map(pss_kb, descendants(process.pid)))
            peak = peak if is_over() else max(peak, now)
            time.sleep(0.1)
        if process.returncode != 0:
            raise SystemExit(process.stderr.read()[-2000:])
        return peak / 1e3

    def seconds_to_first_step(self, workload):
        where, command = self.trainer(workload, "train.max_steps=1")
        start = time.monotonic()
        process = subprocess.Popen(list(map(str, command)), cwd=ROOT, stdout=subprocess.DEVNULL,
                                   env={**os.environ, **MPI_ROOT, "OMP_NUM_THREADS": "1"})
        metrics, seconds = where / "metrics.jsonl", None
        while process.poll() is None and seconds is None:
            if metrics.exists() and '"event":"step"' in metrics.read_text():
                seconds = time.monotonic() - start
            time.sleep(0.01)
        process.wait()
        self.run(["rm", "-r", where])
        return seconds

    # Results.

    def say_what_runs(self):
        """What the lines that follow were measured with."""
        git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
        commit = subprocess.run(git, capture_output=True, text=True).stdout.strip()
        cpus = re.findall(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        self.line({"commit": commit, "cpu": cpus[0] if cpus else "", "cores": os.cpu_count(), "started": time.strftime("%Y-%m-%d %H:%M"),
                   "cases": self.o.cases, "pairs": self.o.pairs, "steps": self.o.steps})

    def line(self, record):
        print(json.dumps(record), flush=True)

    def compare(self, case, ours, theirs):
        pairs = []
        for pair in range(self.o.pairs):
            a, b = (ours, theirs) if pair % 2 == 0 else (theirs, ours)
            first, second = a(), b()
            mine, peer = (first, second) if pair % 2 == 0 else (second, first)
            pairs.append((mine, peer))
            self.line({"case": case, "pair": pair, "ours": round(mine, 3), "peer": round(peer, 3), "ratio": round(peer / mine, 3)})
        ratios = sorted(peer / mine for mine, peer in pairs)
        self.line({"case": case, "pairs": len(pairs), "ours_median": round(statistics.median(m for m, _ in pairs), 3),
                   "peer_median": round(statistics.median(p for _, p in pairs), 3), "ratio_median": round(statistics.median(ratios), 3),
                   "ratio_min": round(ratios[0], 3), "ratio_max": round(ratios[-1], 3)})


def descendants(pid):
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = pathlib.Path(f"/proc/{entry}/stat").read_text()
            except OSError:
                continue
            parents[int(entry)] = int(stat.rsplit(")", 1)[1].split()[1])
    found = {pid}
    while True:
        more = {child for child, parent in parents.items() if parent in found} - found
        if not more:
            return found
        found |= more


def pss_kb(pid):
    try:
        match = re.search(r"^Pss:\s+(\d+)", pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(match.group(1)) if match else 0


SIZES = [4096, 16384, 65536, 1 << 20, 4 << 20, 16 << 20, 64 << 20]
BEST_MPI = ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm"]


def all_reduce_gloo(b):
    for size in b.o.sizes:
        b.compare(f"all_reduce {size} against gloo", lambda s=size: b.our_all_reduce(s), lambda s=size: b.gloo_all_reduce(s))


def all_reduce_mpi(b):
    for size in b.o.sizes:
        times = {"default": b.mpi_all_reduce(size), **{a: b.mpi_all_reduce(size, *BEST_MPI, a) for a in ("3", "4", "5")}}
        best = min(times, key=times.get)  # recursive doubling, ring, segmented ring
        b.line({"case": f"all_reduce {size} against MPI_Allreduce", "us_by_algorithm": times})
        flags = [] if best == "default" else [*BEST_MPI, best]
        b.compare(f"all_reduce {size} against MPI_Allreduce", lambda s=size: b.our_all_reduce(s),
                  lambda s=size, f=flags: b.mpi_all_reduce(s, *f))


def step(workload):
    def case(b):
        flags = b.best_ddp_flags(workload)
        b.compare(f"step {workload}", lambda: b.our_step(workload)["ms"], lambda: b.ddp_step(workload, *flags))
    return case


def memory(b):
    def ours(with_checkpoint):
        where, command = b.trainer("mlp", "train.max_steps=12")
        metrics = where / "metrics.jsonl"
        trained = lambda: not with_checkpoint and metrics.exists() and '"event":"step","step":12' in metrics.read_text()
        peak = b.peak_pss_mb(command, is_over=trained)
        b.run(["rm", "-r", where])
        return peak
    def peer():
        return b.peak_pss_mb([*b.torchrun(2), b.peer("step.py"), "mlp", "--steps", "10", "--warmup", "2"], KEEP)
    b.compare("memory mlp (MB, PSS of the node at its peak)", lambda: ours(False), peer)
    b.compare("memory mlp with a checkpoint at the end, which the peer does not write", lambda: ours(True), peer)


def start_up(b):
    def peer():
        start = time.monotonic()
        b.run([*b.torchrun(2), b.peer("step.py"), "mlp", "--steps", "1", "--warmup", "0"], KEEP)
        return time.monotonic() - start
    b.compare("start to first step mlp (s)", lambda: b.seconds_to_first_step("mlp"), peer)


SAVED = {"resnet18": ("with AdamW", ["optimizer.name=adamw", "optimizer.momentum=0"]),
         "mlp": ("of 50 million parameters", ["model.hidden=[5376,6144]"])}


def checkpoint(b):
    """For how long training stands still (peer: torch.save of the same state, while all wait)."""
    for workload in b.o.models:
        what, overrides = SAVED[workload]
        name = f"{workload} {what}"
        def ours(workload=workload, overrides=overrides, name=name):
            where, events = b.saving_run(workload, overrides, max(1, b.o.steps // 3), 4)
            saved = [event for event in events if event["event"] == "checkpoint"]
            b.line({"case": f"checkpoint of {name}", "stall_ms": [e["stall_ms"] for e in saved], "seconds": [e["seconds"] for e in saved],
                    "bytes": saved[0]["size_bytes"]})
            if not weights.exists():
                b.run([str(b.build / "trainer"), "export", str(where), str(weights)])
            b.run(["rm", "-r", where])
            return statistics.median(event["stall_ms"] - event["waited_ms"] for event in saved)

        def theirs():
            out = b.run([b.o.python, str(ROOT / "tests/bench/torch_save.py"), str(weights), str(b.work)], KEEP)
            return json.loads(out.splitlines()[-1])["ms"]

        weights = b.work / f"{workload}.safetensors"
        ours()  # for the weights' shapes
        b.compare(f"checkpoint of {name}: stall on 2 ranks (ms; peer: torch.save)", ours, theirs)


def checkpoint_overhead(b):
    """What a checkpoint costs in all, in the background, too: a run with some against the same run with one at its end."""
    every, saves = max(2, b.o.steps), 4
    for workload in b.o.models:
        what, overrides = SAVED[workload]
        name, extra = f"{workload} {what}", []
        def seconds(every, steps, workload=workload, overrides=overrides):
            where, events = b.saving_run(workload, overrides, every, steps)
            b.run(["rm", "-r", where])
            return events[-1]["seconds"]

        def ours():
            extra.append(seconds(every, saves))
            return extra[-1]

        def theirs():
            extra.append(-seconds(0, every * saves))
            return -extra[-1]

        b.compare(f"run of {name} with {saves} checkpoints (s; peer: with one, at its end)", ours, theirs)
        each = sum(extra) / b.o.pairs / (saves - 1)
        b.line({"case": f"checkpoint of {name}", "seconds_each": round(each, 3), "percent_at_one_every_30_s": round(each / 30 * 100, 2)})


def in_cluster(hosts, rate, body):
    def case(b):
        b.run([b.o.cluster, "up", str(hosts), rate])
        try:
            body(b)
        finally:
            b.run([b.o.cluster, "down"])
    return case


def half_width(b):
    for size in (1 << 20, 4 << 20):
        b.compare(f"half-width sum of {size} over 100 Mbit/s (peer: our own fp32)",
                  lambda s=size: b.our_all_reduce(s, "--wire", "fp16", hosts=2), lambda s=size: b.our_all_reduce(s, "--wire", "fp32", hosts=2))


def host_all_reduce(hosts, rate, sizes):
    """A transfer sends its bytes each way between two hosts; a sum over N hosts moves 2 (N - 1) / N of its own over each link."""
    def transfer(b, size):
        folder = tempfile.mkdtemp(dir=b.work)
        out = b.run([*b.launcher(hosts, hosts), sys.executable, str(ROOT / "tests/bench/plain_transfer.py"), folder, str(size)])
        return json.loads(out.splitlines()[-1])["us"]

    def body(b):
        for size in sizes:
            moved = round(size * 2 * (hosts - 1) / hosts)
            b.compare(f"all_reduce {size} over {hosts} hosts at {rate} (peer: the same bytes in a plain two-way transfer)",
                      lambda s=size: b.our_all_reduce(s, ranks=hosts, hosts=hosts),
                      lambda s=moved: transfer(b, s))
    return in_cluster(hosts, rate, body)


def host_compression(b):
    def step(*overrides):
        return b.our_step("resnet18", "train.global_batch=32", *overrides, hosts=2)["ms"]
    for kind, overrides in {"fp16": ["parallel.compression=fp16"],
                            "powersgd": ["parallel.compression=powersgd", "parallel.powersgd_start=0"]}.items():
        b.compare(f"step resnet18 on two hosts at 100 Mbit/s with {kind} (peer: our own fp32)",
                  lambda o=overrides: step(*o), step)


def alone(b, of_both=statistics.mean):
    """A step of compute alone: the same ranks, each on its own host, none talking to the other."""
    runs = [b.trainer("resnet18", "train.global_batch=32", ranks=1) for _ in range(2)]
    processes = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL,
                                  env={**os.environ, **MPI_ROOT, "OMP_NUM_THREADS": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"})
                 for _, command in runs]
    for process in processes:
        process.wait()
    times = [[step["step_ms"] for step in b.steps(where)] for where, _ in runs]
    for where, _ in runs:
        b.run(["rm", "-r", where])
    return statistics.median(map(of_both, zip(*times)))


def host_step(b):
    case = "step resnet18 on two hosts at 1 Gbit/s (peer: compute alone; 1 / ratio is the share over it)"
    def ours():
        step = b.our_step("resnet18", hosts=2)
        b.line({"case": case, "exposed_ms": step["exposed_ms"]})
        return step["ms"]
    b.compare(case, ours, lambda: alone(b))


def host_step_floor(b):
    """What a step takes whose sums take no time: the slower of the two at each step, beside a transfer of as many bytes a step, which
    takes its share of the same cores."""
    period_ms, gradient_bytes = round(1.1 * alone(b)), 44_700_000
    def beside_transfers():
        command = [*b.launcher(2, 2), b.build / "tests/bench/bench_all_reduce", "--transfer", "--period", period_ms, gradient_bytes]
        transfers = subprocess.Popen(list(map(str, command)), cwd=ROOT, stdout=subprocess.DEVNULL, env={**os.environ, **MPI_ROOT})
        step = alone(b, max)
        if transfers.poll() is not None:
            raise SystemExit("the transfers ended before the steps: fewer --steps")
        transfers.wait()
        return step
    b.compare("resnet18 alone, the slower of two at each step, beside transfers of its gradients at 1 Gbit/s (peer: compute alone; "
              "1 / ratio is the share over it)", beside_transfers, lambda: alone(b))


def buckets(link, workloads, hosts=0):
    """The size that a run chooses (0) against five that are given, in turn: medians of five runs each."""
    def body(b):
        for workload in workloads:
            case = f"buckets {workload} over {link}"
            times = {size: [] for size in ("0", "0.25", "1", "4", "16", "64")}
            for _ in range(5):
                for size in times:
                    times[size].append(b.our_step(workload, f"parallel.bucket_mb={size}", hosts=hosts))
            medians = {size: statistics.median(result["ms"] for result in results) for size, results in times.items()}
            for size, results in times.items():
                b.line({"case": case, "bucket_mb": size, "used_mb": results[0]["bucket_mb"], "ms": [r["ms"] for r in results],
                        "exposed_ms": [r["exposed_ms"] for r in results]})
            chosen = medians.pop("0")
            b.line({"case": case, "chosen_over_best": round(chosen / min(medians.values()), 3)})
    return body


CASES = {
    "all_reduce_gloo": all_reduce_gloo,
    "all_reduce_mpi": all_reduce_mpi,
    "step_mlp": step("mlp"),
    "step_gpt": step("gpt"),
    "step_resnet18": step("resnet18"),
    "memory": memory,
    "start_up": start_up,
    "checkpoint": checkpoint,
    "checkpoint_overhead": checkpoint_overhead,
    "hosts_all_reduce": host_all_reduce(2, "1gbit", [1 << 20, 4 << 20, 16 << 20]),
    "hosts4_all_reduce": host_all_reduce(4, "1gbit", [4 << 20, 16 << 20]),
    "hosts4_all_reduce_100mbit": host_all_reduce(4, "100mbit", [4 << 20]),
    "hosts_compression": in_cluster(2, "100mbit", host_compression),
    "hosts_step": in_cluster(2, "1gbit", host_step),
    "hosts_step_floor": in_cluster(2, "1gbit", host_step_floor),
    "hosts_half_width": in_cluster(2, "100mbit", half_width),
    "buckets_node": buckets("a node's memory", ["deep"]),
    "buckets_1gbit": in_cluster(2, "1gbit", buckets("1 Gbit/s", ["deep"], hosts=2)),
    "buckets_100mbit": in_cluster(2, "100mbit", buckets("100 Mbit/s", ["deep"], hosts=2)),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--list", action="store_true", help="print the cases and exit")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--steps", type=int, default=25, help="counted steps of a training, after %d to warm up" % WARM_UP)
    parser.add_argument("--models", nargs="+", choices=SAVED, default=list(SAVED), help="of checkpoint and checkpoint_overhead")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="BYTES", help="of all_reduce")
    parser.add_argument("--build", default=str(ROOT / "build/cpu-release"))
    parser.add_argument("--python", default="python3", help="a Python with PyTorch, for the peers")
    parser.add_argument("--peers", help="the folder of step.py, allreduce.py and allreduce_mpi.cpp")
    parser.add_argument("--cluster", help="the script that makes hosts: `up N RATE`, `mpirun N COMMAND`, `down`")
    parser.add_argument("--text", default=str(ROOT / "data/tinyshakespeare.txt"), help="what gpt learns")
    options = parser.parse_args()
    if options.list or not options.cases:
        print("\n".join(CASES))
        return
    for case in options.cases:
        if case not in CASES:
            parser.error(f"no case '{case}'; --list prints them")
    bench = Bench(options)
    try:
        bench.say_what_runs()
        for case in options.cases:
            CASES[case](bench)
    finally:
        subprocess.run(["rm", "-rf", str(bench.work)], check=True)


if __name__ == "__main__":
    sys.exit(main())
