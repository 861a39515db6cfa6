#!/usr/bin/env bash
# Trains on this machine, in the foreground. Start it again and it goes on from the last checkpoint.
#
#   jobscripts/workstation.sh DECK [RANKS] [key.path=value ...]
#
# RANKS: the number of cores if not given.
# Ctrl-C, or TERM to this script, lets the run write a checkpoint and stop. The exit code is the run's own (75: stopped
# early, start again), read from status.json, since mpirun does not always pass it on.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=jobscripts/mpirun_settings.sh
. "$here/mpirun_settings.sh"
# shellcheck source=jobscripts/run_state.sh
. "$here/run_state.sh"

deck=${1:?usage: jobscripts/workstation.sh DECK [RANKS] [key.path=value ...]}
shift
ranks=$(nproc)
if [[ ${1-} =~ ^[0-9]+$ ]]; then ranks=$1 && shift; fi

directory=$(run_directory "$deck" "$@") || exit
trap 'interrupted=yes; stop_training "$directory"' INT TERM HUP
start_training "$directory" "$ranks" "$deck" "$@"
finish_training "$directory"
exit "$exit_code"
