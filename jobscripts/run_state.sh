# shellcheck shell=bash
# Shared by the job scripts: the program, its run directory, how to ask it to stop, and how it ended.

# The program: $PIPEFILL, or the one built or installed with these scripts, or one on the PATH.
find_pipefill() {
  local home program
  home=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
  if [ -n "${PIPEFILL-}" ]; then echo "$PIPEFILL" && return; fi
  for program in "$home/build/release/app/pipefill" "$home/../../bin/pipefill"; do
    if [ -x "$program" ]; then echo "$program" && return; fi
  done
  if ! command -v pipefill; then
    echo "no pipefill here: build it (./bootstrap.sh run) or set PIPEFILL to the program" >&2
    return 69
  fi
}

# run_directory DECK [key.path=value ...]: where train will write: what the deck and the overrides say. The errors of a
# bad deck are told here, with train's exit code.
run_directory() {
  local program deck
  program=$(find_pipefill) || return
  deck=$("$program" check --resolved "$@") || return
  sed -n 's/^  directory: *//p' <<<"$deck" | sed 's/^"\(.*\)"$/\1/'
}

# status_stamp DIRECTORY: something that differs once status.json has been written anew.
status_stamp() { stat -c '%i %y' "$1/status.json" 2>/dev/null || true; }

# status_field DIRECTORY KEY: a string or number of status.json (one key a line).
status_field() { sed -n 's/^ *"'"$2"'": *"\{0,1\}\([^",]*\).*/\1/p' "$1/status.json" 2>/dev/null; }

# start_training DIRECTORY RANKS DECK [key.path=value ...]: mpirun in the background, with a process group of its own so
# that a terminal's Ctrl-C does not reach it (it would kill its ranks). Sets mpirun_pid and status_before.
start_training() {
  local directory=$1 ranks=$2 program
  program=$(find_pipefill) || exit
  status_before=$(status_stamp "$directory")
  set -m
  mpirun -n "$ranks" "$program" train "${@:3}" &
  mpirun_pid=$!
  set +m
}

# stop_training DIRECTORY: USR2 to mpirun, which passes it to all ranks: they write a checkpoint and stop with 75. (TERM
# would leave them two seconds.) A run that is still starting gets it once status.json says that its handlers are there.
stop_training() {
  while kill -0 "$mpirun_pid" 2>/dev/null && [ "$(status_stamp "$1")" = "$status_before" ]; do sleep 0.2; done
  kill -USR2 "$mpirun_pid" 2>/dev/null || true
}

# finish_training DIRECTORY: waits, however often a trap (which sets interrupted=yes) breaks into the waiting. Sets
# exit_code to the one in status.json if this run wrote it and ended, else to mpirun's (which is 137 after a lost rank
# and 1 after a TERM of its own, whatever the ranks say).
finish_training() {
  interrupted=yes
  while [ "$interrupted" = yes ]; do
    interrupted=no
    wait "$mpirun_pid"
    exit_code=$?
  done
  if [ "$(status_stamp "$1")" != "$status_before" ]; then
    case $(status_field "$1" state) in finished | stopped | failed) exit_code=$(status_field "$1" exit_code) ;; esac
  elif [ "$exit_code" != 0 ]; then  # 0: it was finished before
    echo "$(date -Is) $1: did not start, exit code $exit_code"
    return
  fi
  echo "$(date -Is) $1: $(status_field "$1" state) at step $(status_field "$1" step), exit code $exit_code"
}
