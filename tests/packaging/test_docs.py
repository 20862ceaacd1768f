#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of the documentation, and checks its links.

Every block fenced as ```sh is run by bash, in the order of the page, in one folder a page that
looks like the checkout with a finished build. A comment on the line before the block changes how:
    <!-- test: add WORD ... -->   each command gets these words at its end
    <!-- test: help -->           each command's program is called with --help alone
    <!-- test: code N -->         each command has to end with this exit code, instead of 0
What only fits a cluster, and output, is fenced as ```text and not run.
"""
import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

BLOCK = re.compile(r"(?:^<!-- test: (?P<directive>.*?) -->\n)?^```sh\n(?P<text>.*?)^```$",
                   re.M | re.S)
FENCE = re.compile(r"^```(.*)\n(?:.*\n)*?^```$", re.M)
LINK = re.compile(r"\[[^\]]*\]\(([^)#:\s]+)(?:#[^)]*)?\)")
LANGUAGES = {"sh", "text", "yaml", "cpp", "cmake", "python", "json"}


def pages(source: Path) -> list[Path]:
    return sorted([*source.glob("*.md"), *source.glob("framework/docs/*.md"),
                   *source.glob("third_party/*.md"), *source.glob("tests/**/*.md")])


def commands(text: str) -> list[str]:
    """The commands of a block: lines, with those that end in a backslash joined."""
    lines = text.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def as_tested(command: str, directive: str) -> str:
    if not directive:
        return command
    if directive == "help":
        return f"{shlex.split(command)[0]} --help"
    verb, _, words = directive.partition(" ")
    if verb == "code" and words.isdecimal():
        return f"code=0; {command} || code=$?; test $code = {words}"
    if verb != "add" or not words:
        raise ValueError(f"'<!-- test: {directive} -->' is none of 'help', 'add WORD ...', 'code N'")
    return f"{command} {words}"


def script_of(page: str) -> str:
    lines = []
    for block in BLOCK.finditer(page):
        for command in commands(block["text"]):
            line = as_tested(command, block["directive"] or "")
            lines += [f"echo {shlex.quote('+ ' + line)}", line]
    return "\n".join(lines)


def look_alike(folder: Path, source: Path, build: Path) -> None:
    """Links everything of the checkout but what runs and builds write."""
    for entry in source.iterdir():
        if entry.name not in {"build", "runs", ".git"}:
            (folder / entry.name).symlink_to(entry)
    (folder / "build").mkdir()
    (folder / "build" / "cpu-release").symlink_to(build)


def run_page(page: Path, source: Path, build: Path) -> list[str]:
    script = script_of(page.read_text())
    if not script:
        return []
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    if os.geteuid() == 0:
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    with tempfile.TemporaryDirectory() as folder:
        look_alike(Path(folder), source, build)
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=folder,
                              env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, check=False)
    print(f"=== {page}\n{done.stdout}")
    return [] if done.returncode == 0 else [
        f"{page}: the last command above ended with {done.returncode}; expected 0"]


def faults_of_text(page: Path) -> list[str]:
    text = page.read_text()
    faults = [f"{page}: a block is fenced as '{language}'; expected one of {sorted(LANGUAGES)}"
              for language in FENCE.findall(text) if language not in LANGUAGES]
    prose = FENCE.sub("", text)
    return faults + [f"{page}: the link to '{target}' leads nowhere"
                     for target in LINK.findall(prose) if not (page.parent / target).exists()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source-dir", type=Path, required=True)
    parser.add_argument("--build-dir", type=Path, required=True, help="a finished build")
    parser.add_argument("--links-only", action="store_true", help="run no commands")
    arguments = parser.parse_args()
    faults = []
    for page in pages(arguments.source_dir.resolve()):
        faults += faults_of_text(page)
        if not arguments.links_only:
            faults += run_page(page, arguments.source_dir.resolve(), arguments.build_dir.resolve())
    print("\n".join(faults), file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
