# Shared by the batch scripts of this folder, which set `max_requeues` and source it.
#
#   step COMMAND [ARGUMENT ...]   runs a command and comes back when it has succeeded
#
# A signal of the cluster (SIGUSR1 ahead of the time limit or of a pre-emption, or SIGTERM) goes on to the command. When
# it then stops with exit code 75, or by the signal itself, the job queues itself again, at most `max_requeues` times,
# and goes on where it was. Any other exit code but 0 ends the job for good.

readonly resume_me=75
signalled=
child=

say() { printf 'slurm: %s\n' "$*" >&2; }

on_signal() {
  [[ -z $signalled ]] || return 0
  signalled=yes
  say "a signal of the cluster: stopping after the step in progress"
  [[ -z $child ]] || kill -USR1 "$child" 2>/dev/null || true
}

# Wait for the child to end, also when a trap interrupts the waiting. Returns the child's exit code.
await_child() {
  local alive status last=
  while true; do
    alive=
    kill -0 "$child" 2>/dev/null && alive=yes
    wait "$child"
    status=$?
    if [[ -n $alive && $status -gt 128 ]]; then  # perhaps a trap's doing: look again
      last=$status
    elif [[ $status -eq 127 && -n $last ]]; then  # the shell told its exit code the last time already
      return "$last"
    else
      return "$status"
    fi
  done
}

step() {
  local status=0
  [[ -z $signalled ]] || queue_again
  "$@" &
  child=$!
  [[ -z $signalled ]] || kill -USR1 "$child" 2>/dev/null || true
  await_child || status=$?
  child=
  if [[ $status -eq 0 ]]; then
    return
  fi
  if [[ $status -eq $resume_me || ( -n $signalled && $status -gt 128 ) ]]; then
    queue_again
  fi
  say "exit code $status of: $*"
  say "not queued again; once the cause is gone, submit the same run and it goes on"
  exit "$status"
}

queue_again() {
  local count=${SLURM_RESTART_COUNT:-0} state
  trap '' USR1 TERM
  state=$(squeue --noheader --format=%T --job="$SLURM_JOB_ID" 2>/dev/null)
  if [[ ${state:-RUNNING} != RUNNING ]]; then
    say "stopped by scancel, or by Slurm, which queues it again itself; when it does not: submit the same run to go on"
  elif [[ $count -ge $max_requeues ]]; then
    say "stopped, and queued again $count times already, the most allowed; submit the same run to go on"
  else
    say "stopped; queued again ($((count + 1)) of at most $max_requeues)"
    scontrol requeue "$SLURM_JOB_ID" || say "scontrol could not queue it again; submit the same run to go on"
  fi
  exit "$resume_me"
}

trap on_signal USR1 TERM

if [[ ${SLURM_RESTART_COUNT:-0} -gt $max_requeues ]]; then
  say "queued again $SLURM_RESTART_COUNT times, $max_requeues are allowed: nodes may be failing; submit the run to go on"
  exit 1
fi
# Since Slurm 22.05 a job step does not get the job's CPUs per task by itself.
export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}
export PYTHONUNBUFFERED=1
