#!/bin/bash
# A real SLURM cluster in a network of its own: munge, slurmctld, slurmdbd on MariaDB, three nodes, whose
# names end in n1, n2, n3.
#   slurm.sh hold DIR      bring it up, print `ready`, and end all of it when standard input ends
#   slurm.sh start DIR NAME   start slurmctld or a node again, in the name spaces of the holder
#   slurm.sh install       only install what is missing (Debian, root)
#   slurm.sh torque DIR    put the qsub, qstat and qdel that SLURM brings along into DIR/bin
# Then, in its network: export SLURM_CONF=DIR/slurm.conf, and sbatch, squeue, sacct … work for every user.
# Partitions: `main` (default), `short` (30 minutes, 2 CPUs and 2000 MB a node), `shut` (takes jobs, starts none).
# Environment: CPUS=8 MEMORY=8000 (MB) GPUS=2 (of each node), ARRAY_SIZE=5001 JOBS_MAX=20000 JOB_AGE=300 (s), ACCOUNTING=1
# (0: no database, sacct does not work), PREEMPT=1 (partition `high` takes the places of jobs in `requeue` and `cancel`,
# which then are what their names tell), LATE="PROGRAM FILE" (each node mounts the file system of nero-late that FILE
# describes), and those of cluster.sh.

set -euEo pipefail
trap 'echo "${0##*/}: failed at line $LINENO${DIR:+; see $DIR/log}" >&2' ERR
. "$(dirname "$(readlink -f "$0")")/lib.sh"
. "$(dirname "$(readlink -f "$0")")/cluster.sh"
CPUS=${CPUS:-8} MEMORY=${MEMORY:-8000} GPUS=${GPUS:-2} ACCOUNTING=${ACCOUNTING:-1}
ADDRESS=127.0.0.1
NODES=3
PACKAGES='munge slurmctld slurmd slurm-client'
[ "$ACCOUNTING" = 0 ] || PACKAGES+=' slurmdbd mariadb-server'

nodes() { seq -f "$PREFIX%g" "$NODES"; }

# Memory limits that the kernel enforces; without them SLURM polls.
has_cgroups() { [ -w /sys/fs/cgroup/memory/cgroup.procs ] && [ -w /sys/fs/cgroup/freezer/cgroup.procs ]; }

configure() {
  local g
  mkdir -p "$DIR"/{ctld,munge,dev,spool}
  [ -z "${LATE:-}" ] || echo "$LATE" >"$DIR/late"
  chmod 700 "$DIR/munge"
  (umask 077 && head -c 1024 /dev/urandom >"$DIR/munge/key")
  # cred_expire is also how long a requeued job waits (120 s otherwise). sched_interval: a waiting job starts
  # within a second (60 s otherwise).
  cat >"$SLURM_CONF" <<CONF
ClusterName=rig
SlurmctldHost=localhost($ADDRESS)
SlurmctldPort=$PORT
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$RUN/munge.sock,cred_expire=5
StateSaveLocation=$DIR/ctld
SlurmctldPidFile=$RUN/slurmctld.own
SlurmctldLogFile=$DIR/log/slurmctld.log
SlurmdSpoolDir=$DIR/spool/%n
SlurmdPidFile=$RUN/%n.own
SlurmdLogFile=$DIR/log/%n.log
SlurmdParameters=config_overrides
SlurmdTimeout=5
ReturnToService=2
KillWait=3
MailProg=/bin/true
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0
MaxArraySize=${ARRAY_SIZE:-5001}
MaxJobCount=${JOBS_MAX:-20000}
MinJobAge=${JOB_AGE:-300}
JobAcctGatherFrequency=task=1
GresTypes=gpu
CONF
  # Always named: autodetection ends slurmd where cgroups are missing or not systemd's.
  echo CgroupPlugin=cgroup/v1 >"$DIR/cgroup.conf"
  if has_cgroups; then
    printf '%s\n' ProctrackType=proctrack/cgroup TaskPlugin=task/cgroup \
      JobAcctGatherType=jobacct_gather/linux >>"$SLURM_CONF"
    printf '%s\n' CgroupMountpoint=/sys/fs/cgroup ConstrainRAMSpace=yes >>"$DIR/cgroup.conf"
  else
    printf '%s\n' ProctrackType=proctrack/linuxproc TaskPlugin=task/none \
      JobAcctGatherType=jobacct_gather/linux JobAcctGatherParams=OverMemoryKill >>"$SLURM_CONF"
  fi
  if [ "$ACCOUNTING" != 0 ]; then
    cat >>"$SLURM_CONF" <<CONF
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=$ADDRESS
AccountingStoragePort=$((PORT + 1))
AccountingStoragePass=$RUN/munge.sock
CONF
    (umask 077 && cat >"$DIR/slurmdbd.conf") <<CONF
AuthType=auth/munge
AuthInfo=socket=$RUN/munge.sock
DbdHost=localhost
DbdAddr=$ADDRESS
DbdPort=$((PORT + 1))
SlurmUser=root
PidFile=$RUN/slurmdbd.own
LogFile=$DIR/log/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageLoc=slurm
StorageUser=slurm
StoragePass=slurm
CONF
  fi
  # A device whose name ends in a digit counts as a GPU; a link to one does.
  for ((g = 0; g < GPUS; g++)); do ln -sfn /dev/null "$DIR/dev/gpu$g"; done
  echo 'AutoDetect=off' >"$DIR/gres.conf"
  [ "$GPUS" = 0 ] || echo "NodeName=${PREFIX}[1-$NODES] Name=gpu File=$DIR/dev/gpu[0-$((GPUS - 1))]" >>"$DIR/gres.conf"
  cat >>"$SLURM_CONF" <<CONF
NodeName=${PREFIX}[1-$NODES] NodeHostname=localhost NodeAddr=$ADDRESS Port=[$((PORT + 2))-$((PORT + 1 + NODES))] CPUs=$CPUS RealMemory=$MEMORY Gres=gpu:$GPUS Features=fast
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=short Nodes=${PREFIX}[1-2] MaxTime=30 MaxCPUsPerNode=2 MaxMemPerNode=2000 State=UP
PartitionName=shut Nodes=${PREFIX}3 State=DOWN
CONF
  if [ -n "${PREEMPT:-}" ]; then
    cat >>"$SLURM_CONF" <<CONF
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=high Nodes=ALL PriorityTier=9 PreemptMode=OFF State=UP
PartitionName=requeue Nodes=ALL PriorityTier=1 PreemptMode=REQUEUE State=UP
PartitionName=cancel Nodes=ALL PriorityTier=1 PreemptMode=CANCEL State=UP
CONF
  fi
}

database() {
  # Temporary tables are named by their process, whose number is the same in the name spaces of other clusters.
  mkdir -p "$DIR/tmp"
  TMPDIR=$DIR/tmp mariadb-install-db --no-defaults --user=root --datadir="$DIR/db" --skip-test-db \
    --auth-root-authentication-method=normal --innodb-log-file-size=16M \
    >"$DIR/log/db-install.out" 2>&1 || die "mariadb-install-db failed: $(head -n 20 "$DIR/log/db-install.out")"
  cat >"$DIR/db-init.sql" <<'SQL'
CREATE DATABASE IF NOT EXISTS slurm;
CREATE USER IF NOT EXISTS 'slurm'@'localhost' IDENTIFIED BY 'slurm';
GRANT ALL ON slurm.* TO 'slurm'@'localhost';
SQL
  spawn mariadbd env TMPDIR="$DIR/tmp" mariadbd --no-defaults --user=root --datadir="$DIR/db" --socket="$RUN/db.sock" \
    --pid-file="$RUN/mariadbd.own" --skip-networking --skip-log-bin --init-file="$DIR/db-init.sql" \
    --innodb-log-file-size=16M --innodb-flush-log-at-trx-commit=0 --innodb-lock-wait-timeout=900
  wait_for 60 MariaDB mariadb --no-defaults -S "$RUN/db.sock" -uslurm -pslurm -e 'use slurm'
  # The client library finds its socket by this variable, so that no TCP port is needed.
  spawn slurmdbd env MYSQL_UNIX_PORT="$RUN/db.sock" slurmdbd -D
  wait_for 60 slurmdbd sacctmgr -n show cluster
  # Before slurmctld's first start, or it has no cluster to register.
  sacctmgr -i add cluster rig >/dev/null
}

# Each node has process and host name spaces of its own: one kill ends it whole, as a crash would.
start_node() {
  spawn "$1" unshare --pid --uts --mount-proc --fork --kill-child bash -c '
    hostname "$1"
    if [ -n "$2" ]; then
      exec 3< <(exec $2)
      read -r _ <&3 || exit 1
    fi
    exec slurmd -D -N "$1"' bash "$1" "$(cat "$DIR/late" 2>/dev/null || true)"
}

ready() { [ "$(sinfo -h -N -p main -o '%N %t' | grep -Ecx '[^ ]+ (idle|mix|alloc)')" = "$NODES" ]; }

bring_up() {
  PREFIX=c${SLOT}n # the kernel's groups of a node's jobs have its name
  export SLURM_CONF=$DIR/slurm.conf
  thaw
  configure
  # --force: the folder that login nodes see, too, belongs to everyone.
  spawn munged munged --force --foreground --key-file="$DIR/munge/key" --socket="$RUN/munge.sock" \
    --pid-file="$RUN/munged.own" --log-file="$DIR/log/munged.log" --seed-file="$DIR/munge/seed" --num-threads=4
  wait_for 20 munged munge -n -S "$RUN/munge.sock"
  if [ "$ACCOUNTING" != 0 ]; then database; fi
  spawn slurmctld slurmctld -D
  wait_for 30 slurmctld scontrol ping
  local n
  for n in $(nodes); do start_node "$n"; done
  wait_for 60 'all nodes' ready
}

# A group that an earlier cluster of this name left frozen would freeze the jobs that get its number.
thaw() {
  local state
  for state in /sys/fs/cgroup/freezer/slurm_"$PREFIX"[1-3]/{,*/,*/*/,*/*/*/}freezer.state; do
    [ ! -e "$state" ] || echo THAWED >"$state" || true
  done
}

clean_up() {
  local n
  thaw
  for n in $(nodes); do
    kill -KILL "$(pid_of "$n")" 2>/dev/null || true
  done
  for n in /sys/fs/cgroup/*/slurm_"$PREFIX"[1-3]; do
    [ ! -d "$n" ] || find "$n" -depth -type d -exec rmdir {} + 2>/dev/null || true
  done
}

# Their package conflicts with Grid Engine's commands, so it is unpacked and not installed.
TORQUE='slurm-wlm-torque libslurm-perl libslurmdb-perl libswitch-perl libslurm38'

fetch_torque() {
  slots
  exec 7>"$SLOTS/lock"
  flock 7
  if [ ! -e "$SLOTS/torque/whole" ]; then
    mkdir -p "$SLOTS/torque"
    # shellcheck disable=SC2086 # package names
    ( cd "$SLOTS/torque" && { apt-get -qq download $TORQUE || { apt-get -qq update && apt-get -qq download $TORQUE; }; } &&
      touch whole ) >"$SLOTS/torque.log" 2>&1 || die "cannot download $TORQUE; see $SLOTS/torque.log"
  fi
  exec 7>&-
}

torque() {
  local one in=$DIR/package
  fetch_torque
  for one in "$SLOTS"/torque/*.deb; do dpkg-deb -x "$one" "$in"; done
  # qsub looks for sbatch beside itself.
  ln -s "$(command -v sbatch)" "$in/usr/bin/sbatch"
  mkdir -p "$DIR/bin"
  for one in qsub qstat qdel; do
    cat >"$DIR/bin/$one" <<SH
#!/bin/sh
export PERL5LIB=$(echo "$in"/usr/lib/*/perl5/*):$in/usr/share/perl5
export LD_LIBRARY_PATH=$(dirname "$in"/usr/lib/*/libslurm.so.*.*.*)
exec perl $in/usr/bin/$one "\$@"
SH
    chmod 755 "$DIR/bin/$one"
  done
}

start_again() {
  export SLURM_CONF=$DIR/slurm.conf
  case $1 in
    slurmctld) spawn slurmctld slurmctld -D; wait_for 30 slurmctld scontrol ping ;;
    *) start_node "$1" ;;
  esac
}

case ${1:-} in
  install) install && fetch_torque ;;
  torque) [ $# = 2 ] || usage; DIR=$(readlink -m "$2"); mkdir -p "$DIR"; torque ;;
  start) [ $# = 3 ] || usage; DIR=$(readlink -m "$2") RUN=$DIR/run; start_again "$3" ;;
  hold) [ $# = 2 ] || usage; DIR=$(readlink -m "$2"); mkdir -p "$DIR"; hold ;;
  *) usage ;;
esac
