# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What setup, quickstart and test share. Sourced by them, never run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
installed=$root/third_party/installed
self=scripts/$(basename "$0")
current_stage='the start' stage_start=0 ticker=''

# die MESSAGE HINT: what is wrong, and what to do.
die() {
  printf '%s: %s\n  %s\n' "$self" "$1" "$2" >&2
  trap - ERR
  exit 1
}

on_error() {
  trap - ERR
  printf "%s: '%s' failed; the lines above say why.\n" "$self" "$current_stage" >&2
  echo "  When that is mended, run the same command again: finished stages are kept." >&2
}

stop_ticker() {
  if [[ $ticker ]]; then kill "$ticker" 2>/dev/null || true; fi
  ticker=''
}

# Each script calls this once.
watch_for_errors() {
  set -E
  trap on_error ERR
  trap stop_ticker EXIT
}

stage() {
  current_stage=$1 stage_start=$SECONDS
  echo "==> $1"
}

stage_done() { echo "    $((SECONDS - stage_start)) s"; }

# A sign of life every 15 s. It holds no lock, and ends by itself when this script is gone.
tick() {
  trap - ERR EXIT
  if [[ ${lock:-} ]]; then exec {lock}>&-; fi
  while sleep 15 >/dev/null && kill -0 $$; do echo "    ... $((SECONDS - $1)) s"; done
}

# run_logged LOG COMMAND...: keeps the output in LOG and shows the end of it on failure. The command
# stays in the foreground, so that an interrupt reaches it.
run_logged() {
  local log=$1 start=$SECONDS code=0
  shift
  mkdir -p "$(dirname "$log")"
  tick "$start" 2>/dev/null &
  ticker=$!
  "$@" >"$log" 2>&1 || code=$?
  stop_ticker
  if ((code != 0)); then
    tail -n 40 "$log" >&2
    echo "(exit code $code; all of the output: $log)" >&2
  fi
  return "$code"
}

# Compile jobs: one a core, at most one for each 2 GB of free memory.
build_jobs() {
  local cores by_memory
  cores=$(nproc)
  by_memory=$(awk '/^MemAvailable:/ {print int($2 / 2e6)}' /proc/meminfo)
  if ((by_memory < 1)); then by_memory=1; fi
  echo $((by_memory < cores ? by_memory : cores))
}

# Which LibTorch: the options go on to scripts/setup, torch_dir is where it lies afterwards.
setup_options=()
torch_dir=$installed/libtorch/torch

take_cuda() {
  setup_options+=(--cuda)
  torch_dir=$installed/libtorch-cuda/torch
}

take_torch() {
  [[ $1 ]] || die "--torch wants a folder" \
    "It holds include/ and lib/, like the torch folder of a PyTorch wheel."
  torch_dir=$(realpath -m -- "$1")
  setup_options+=(--torch "$torch_dir")
}

# configure PRESET [CMAKE_OPTION...]
configure() {
  local preset=$1
  shift
  run_logged "$root/build/log/configure-$preset.txt" cmake -S "$root" --preset "$preset" "$@"
}

# build PRESET [TARGET...]
build() {
  local preset=$1 targets=()
  shift
  if (($# > 0)); then targets=(--target "$@"); fi
  # Without this ccache, where there is one, does not cache what uses precompiled headers.
  local sloppiness=pch_defines,time_macros,include_file_mtime,include_file_ctime
  export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-$sloppiness}
  run_logged "$root/build/log/build-$preset.txt" \
    cmake --build "$root/build/$preset" --parallel "$(build_jobs)" "${targets[@]}"
}

# Open MPI starts as root only when both are set.
allow_mpirun_as_root() {
  if ((EUID == 0)); then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
}
