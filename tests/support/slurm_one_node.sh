#!/usr/bin/env bash
# A real Slurm of one node for tests, without systemd, all of its state below one directory and on two ports of its own.
#   tests/support/slurm_one_node.sh up DIRECTORY     starts it and waits until the node is idle
#   tests/support/slurm_one_node.sh down DIRECTORY   stops it
# A requeued job starts again after five seconds, the life time of its credential; usually Slurm waits two minutes.
# Commands find it with SLURM_CONF=DIRECTORY/slurm.conf.
# Needs root, and the packages slurmctld, slurmd, slurm-client and munge. A node of at least two CPUs is claimed.
set -euo pipefail
command=${1:?up or down}
state=$(realpath -m "${2:?a directory}")
host=$(hostname -s)
export SLURM_CONF=$state/slurm.conf

free_ports() {
  python3 -c 'import socket
s = [socket.socket() for _ in range(2)]
[x.bind(("", 0)) for x in s]  # as slurmctld does: a port that any other address uses is no good either
print(*[x.getsockname()[1] for x in s])'
}

write_configuration() {
  local control_port node_port cpus memory
  read -r control_port node_port < <(free_ports)
  cpus=$(nproc)
  memory=$(awk '/MemTotal/ {print int($2 / 1024 * 0.9)}' /proc/meminfo)
  cat >"$SLURM_CONF" <<CONF
ClusterName=pipefill
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$control_port
SlurmdPort=$node_port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$state/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation=$state/control
SlurmdSpoolDir=$state/node
SlurmctldPidFile=$state/slurmctld.pid
SlurmdPidFile=$state/slurmd.pid
SlurmctldLogFile=$state/slurmctld.log
SlurmdLogFile=$state/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
KillWait=5
NodeName=$host NodeAddr=127.0.0.1 CPUs=$((cpus < 2 ? 2 : cpus)) RealMemory=$memory State=UNKNOWN
PartitionName=main Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
  # Newer ones do not start where they find no cgroups that they may use, as in a container; older ones need none here
  # and do not know the word.
  if [ "$(/usr/sbin/slurmd -V | sed 's/[^0-9]*\([0-9]*\).*/\1/')" -ge 24 ]; then
    echo CgroupPlugin=disabled >"$state/cgroup.conf"
  fi
}

up() {
  mkdir -p "$state"/{control,node,munge}
  chmod 0700 "$state/munge"
  chmod 0755 "$state"
  (umask 077 && head -c 1024 /dev/urandom >"$state/munge/key")
  write_configuration
  /usr/sbin/munged --force --key-file="$state/munge/key" --socket="$state/munge.socket" \
    --pid-file="$state/munged.pid" --log-file="$state/munge/munged.log" --seed-file="$state/munge/seed"
  /usr/sbin/slurmctld -f "$SLURM_CONF"
  /usr/sbin/slurmd -f "$SLURM_CONF" -N "$host"
  for _ in $(seq 120); do
    if [ "$(sinfo -h -o %T 2>/dev/null)" = idle ]; then return; fi
    sleep 0.5
  done
  echo "the node did not become idle in 60 s: $(sinfo -h -R 2>&1)" >&2
  tail -n 20 "$state/slurmctld.log" "$state/slurmd.log" >&2
  return 1
}

down() {
  local file pid
  for file in slurmd slurmctld munged; do
    if ! pid=$(cat "$state/$file.pid" 2>/dev/null); then continue; fi
    for _ in $(seq 100); do
      if ! kill "$pid" 2>/dev/null; then break; fi
      sleep 0.1
    done
  done
}

"$command"
