#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the batch scripts beside this file share; they source it. It passes signals on to a training,
# and has Slurm queue a job again whose training was stopped before its end, or lost a rank or node.

# Requests for the training that have not been passed on, and whether the job itself is to end.
pending=() cancelled='' interrupted=''
# The configuration as `--print-config` shows it, and the checkpoint that the run starts from.
resolved='' newest_before=''

remember() {
  pending+=("$1")
  interrupted=1
}

remember_end() {
  cancelled=1
  remember TERM
}

take_signals() {
  trap 'remember USR1' USR1
  trap 'remember USR2' USR2
  trap remember_end TERM
}

value_of() {  # SECTION KEY: of $resolved; nothing where it is not known
  awk -v section="$1:" -v key="$2:" '
    /^[a-z]/ {here = $1 == section}
    here && $1 == key {
      sub(/^ *[a-z_]+: /, ""); sub(/  # .*/, ""); gsub(/^"|"$/, ""); print
    }' <<<"$resolved"
}

# The name of the newest checkpoint of the run; nothing where there is none.
newest_checkpoint() {
  readlink "$(value_of run dir)/checkpoints/latest" || true
}

# Two ranks with a core each use little of a node. Slurm tells the job only of what it was given.
warn_of_idle_cores() {
  local ranks=${SLURM_TASKS_PER_NODE:-1} all
  ranks=${ranks%%[!0-9]*}  # "2(x4)": of the first node
  all=$(nproc --all)
  if ((${SLURM_CPUS_PER_TASK:-1} == 1 && all >= 4 * ranks)); then
    echo "job $SLURM_JOB_ID: warning: $ranks ranks on this node have one core each, and it has $all" \
      "processors: sbatch --cpus-per-task=N gives each rank N cores" >&2
  fi
}

# begin_job TRAINER ARGUMENT...: notes from where the run starts. Call it before run_training.
begin_job() {
  take_signals
  warn_of_idle_cores
  # What is wrong with the configuration the training says itself.
  resolved=$(trap '' USR1 USR2; exec "$@" --print-config 2>/dev/null) || resolved=''
  newest_before=$(newest_checkpoint)
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
  take_signals
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

# requeue_stopped CODE: queues the job again where CODE says that its training can go on, which it
# does from its newest checkpoint, with `--resume auto`: 75, stopped on request; or any code of a lost
# rank, node or link, if the run has saved a checkpoint since this start, so that what fails each time
# ends. At most TRIREME_MAX_RESTARTS times in all (default 1000); never where the job was cancelled,
# nor for errors of configuration, data, files, numbers and the program itself.
requeue_stopped() {
  local restarts=${SLURM_RESTART_COUNT:-0} most=${TRIREME_MAX_RESTARTS:-1000}
  local job="job $SLURM_JOB_ID" why='stopped before its end'
  case $1 in
    0 | 2 | 3 | 4 | 5 | 70) return 0 ;;
    75) ;;
    *) why="lost a rank, a node or a link (exit code $1)" ;;
  esac
  if [[ $cancelled ]]; then
    echo "$job: cancelled; submit it again to go on"
  elif (($1 != 75)) && [[ ! $resolved ]]; then
    echo "$job: $why, and --print-config did not say where its checkpoints lie: not queued again"
  elif (($1 != 75)) && [[ $(newest_checkpoint) == "$newest_before" ]]; then
    echo "$job: $why, and has saved no checkpoint since this start: not queued again"
  elif ((restarts >= most)); then
    echo "$job: $why, and restarted $restarts times already (TRIREME_MAX_RESTARTS);" \
      "submit it again to go on"
  elif (trap '' TERM; exec scontrol requeue "$SLURM_JOB_ID"); then  # Slurm ends the job meanwhile
    echo "$job: $why; requeued (restart $((restarts + 1)))"
  else
    echo "$job: $why, and scontrol could not queue it again; submit it again to go on" >&2
  fi
}
