#!/usr/bin/env bash
# Question: P=2 on two cores, M=8: do the measured step time and bubble fraction agree with what `price` gives for the
# costs measured in the same run, for GPipe and 1F1B?
#   tests/bench/bubbles_of_two_stages.sh [build/release/app/pipefill] [steps]
# Needs two quiet cores: with anything else running, stages wait for each other's lost time.
set -euo pipefail
program=${1:-build/release/app/pipefill}
steps=${2:-40}
# shellcheck source=jobscripts/mpirun_settings.sh
. "$(dirname "$0")/../../jobscripts/mpirun_settings.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for schedule in gpipe 1f1b; do
  mpirun -n 2 "$program" train "$(dirname "$0")/../../inputs/tiny.yaml" run.directory="$scratch/$schedule" \
    run.steps="$steps" data.validation_tokens=0 schedule.name="$schedule" device.threads=1 log.progress=none >/dev/null
  python3 - "$schedule" "$scratch/$schedule/metrics.jsonl" <<'PY'
import json, sys
line = next(l for l in map(json.loads, open(sys.argv[2])) if "priced_step_time_ns" in l)
step, priced = line["measured_step_time_ns"] / 1e6, line["priced_step_time_ns"] / 1e6
bubble, priced_bubble = line["measured_bubble_fraction"], line["priced_bubble_fraction"]
print(f"{sys.argv[1]:6} P=2 M=8: step {step:.1f} ms, priced {priced:.1f} ms ({100 * (step / priced - 1):+.1f}%); "
      f"bubble fraction {bubble:.4f}, priced {priced_bubble:.4f} ({100 * (bubble / priced_bubble - 1):+.1f}%)")
PY
done
