#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the batch scripts beside this file share; they source it. It passes signals on to a training,
# and has Slurm queue a job again whose training was stopped before its end.

# Requests for the training that have not been passed on, and whether the job itself is to end.
pending=() cancelled='' interrupted=''

remember() {
  pending+=("$1")
  interrupted=1
}

remember_end() {
  cancelled=1
  remember TERM
}

# When the job's time is over, in seconds since 1970: the training stops run.time_margin before it.
# Slurm tells its jobs from version 23.02 on.
export_end_time() {
  local end
  if [[ ${SLURM_JOB_END_TIME:-} || ! ${SLURM_JOB_ID:-} ]]; then return; fi
  end=$(squeue --noheader --jobs "$SLURM_JOB_ID" --format %e) || return 0
  if end=$(date --date "$end" +%s 2>/dev/null); then export SLURM_JOB_END_TIME=$end; fi
}

# pass_on PID READY_FILE: TERM at once, requests as soon as all ranks take them.
pass_on() {
  local name waiting=()
  for name in "${pending[@]}"; do
    if [[ $name == TERM || -e $2 ]]; then
      kill -s "$name" "$1" 2>/dev/null || true  # it has just ended: nothing is left to ask for
    else
      waiting+=("$name")
    fi
  done
  pending=("${waiting[@]}")
}

# run_training COMMAND...: mpirun or srun with a training; returns its exit code. SIGUSR1 (stop and
# save), SIGUSR2 (save) and SIGTERM may come to this script at any moment. Until all ranks have
# started, the first two would kill them: they wait. After the end they are dropped.
run_training() {
  local folder ready pid code
  folder=$(mktemp -d)
  ready=$folder/ready  # rank 0 makes it; mpirun and srun start that one on this node
  export_end_time
  trap 'remember USR1' USR1
  trap 'remember USR2' USR2
  trap remember_end TERM
  # mpirun itself takes signals some time after its start, and until some time before its end.
  (
    trap '' USR1 USR2
    exec "$@" --ready-file "$ready"
  ) &
  pid=$!
  while true; do
    interrupted=''
    pass_on "$pid" "$ready"
    code=0
    if ((${#pending[@]} > 0)) && kill -0 "$pid" 2>/dev/null; then
      sleep 0.1
    else
      wait "$pid" || code=$?
      if [[ ! $interrupted ]]; then break; fi  # else the code is the signal's
    fi
  done
  rm -rf "$folder"
  return "$code"
}

# requeue_stopped CODE: queues the job again where CODE says that its training can go on, at most
# TRIREME_MAX_RESTARTS times (default 1000); not where the job was cancelled or the training failed.
# With `--resume auto` it then goes on as if nothing had happened.
requeue_stopped() {
  local restarts=${SLURM_RESTART_COUNT:-0} most=${TRIREME_MAX_RESTARTS:-1000}
  if (($1 != 75)); then return; fi
  if [[ $cancelled ]]; then
    echo "job $SLURM_JOB_ID: cancelled; submit it again to go on"
  elif ((restarts >= most)); then
    echo "job $SLURM_JOB_ID: stopped before its end, and restarted $restarts times already" \
      "(TRIREME_MAX_RESTARTS); submit it again to go on"
  else
    echo "job $SLURM_JOB_ID: stopped before its end; requeued (restart $((restarts + 1)))"
    scontrol requeue "$SLURM_JOB_ID"
  fi
}
