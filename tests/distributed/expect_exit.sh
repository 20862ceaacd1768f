#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a command and demands how it ends: its exit code, a text in its output, all within a bound.
set -euo pipefail

usage() {
  echo "usage: expect_exit.sh CODE REGEX SECONDS COMMAND [ARGUMENT ...]"
}

if [[ "${1:-}" == "--help" ]]; then
  usage
  exit 0
fi
if (($# < 4)); then
  usage >&2
  exit 2
fi
expected=$1 regex=$2 seconds=$3
shift 3

code=0
output=$(timeout --kill-after=5 "$seconds" "$@" 2>&1) || code=$?
printf '%s\n' "$output"
if ((code == 124)); then
  echo "FAILED: did not end within $seconds s" >&2
  exit 1
fi
if ((code != expected)); then
  echo "FAILED: exit code $code, expected $expected" >&2
  exit 1
fi
if ! grep -Eq -- "$regex" <<<"$output"; then
  echo "FAILED: the output has no line that matches: $regex" >&2
  exit 1
fi
