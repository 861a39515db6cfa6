#!/usr/bin/env bash
#SBATCH --job-name=pipefill
#SBATCH --nodes=1
#SBATCH --ntasks=2
#SBATCH --time=01:00:00
#SBATCH --signal=B:USR2@180
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=slurm-%j.log
# Trains on one node under Slurm, for longer than one time limit allows. Before the limit Slurm sends USR2 to this
# script, the run writes a checkpoint and stops (75), and the job puts itself back into the queue and goes on from there.
#
#   sbatch [--ntasks=P*R] [--time=...] jobscripts/slurm_one_node.sh DECK [key.path=value ...]
#
# Submit it from the folder that holds jobscripts/, or set PIPEFILL_HOME to that folder. The warning comes up to 60
# seconds early: --signal must leave the time of a checkpoint, --time at least two minutes more than that.
limit_is_near=no
trap 'limit_is_near=yes' USR2  # first of all: the default of USR2 is death, and it may come at once
set -uo pipefail
cd "$SLURM_SUBMIT_DIR" || exit 73
home=${PIPEFILL_HOME:-$SLURM_SUBMIT_DIR}  # not $0: Slurm runs a copy of this file from its spool
# shellcheck source=jobscripts/mpirun_settings.sh
. "$home/jobscripts/mpirun_settings.sh" || exit 66
# shellcheck source=jobscripts/run_state.sh
. "$home/jobscripts/run_state.sh" || exit 66

# again REASON: back into the queue. Slurm ends this script while it does so.
again() {
  echo "$(date -Is) job $SLURM_JOB_ID: $1; requeued"
  scontrol requeue "$SLURM_JOB_ID" && sleep 60
}

deck=${1:?usage: sbatch jobscripts/slurm_one_node.sh DECK [key.path=value ...]}
shift
directory=$(run_directory "$deck" "$@") || exit
step_before=$(status_field "$directory" step)
echo "$(date -Is) job $SLURM_JOB_ID, restart ${SLURM_RESTART_COUNT:-0}: $deck on $(hostname), time left" \
  "$(squeue -h -j "$SLURM_JOB_ID" -o %L)"

if [ "$limit_is_near" = yes ]; then
  again "the warning before the time limit came before the run could start"
  exit 75
fi
trap 'interrupted=yes; stop_training "$directory"' USR2
start_training "$directory" "$SLURM_NTASKS" "$deck" "$@"
if [ "$limit_is_near" = yes ]; then stop_training "$directory"; fi
finish_training "$directory"

if [ "$exit_code" = 75 ]; then
  step=$(status_field "$directory" step)
  if [ "$(status_field "$directory" reason)" = halt ]; then
    echo "stopped by 'pipefill halt': not requeued"
  elif [ "${step:-0}" -le "${step_before:-0}" ]; then
    echo "no step was done since step ${step_before:-0}, the next try would fare no better: not requeued"
  else
    again "stopped early at step $step"
  fi
fi
exit "$exit_code"
