#!/bin/bash
# A real Grid Engine in a network of its own: qmaster and one execd, with the queue all.q.
#   gridengine.sh hold DIR   bring it up, print `ready`, and end all of it when standard input ends
#   gridengine.sh start DIR NAME   start qmaster or execd again, in the name spaces of the holder
#   gridengine.sh install    only install what is missing (Debian, root)
# Then, in its network: . DIR/env, and qsub, qstat, qacct … work for every user whose group has a name.
#   Parallel environment: -pe smp N. Resource: -l gpu=1 (counted; nothing sets CUDA_VISIBLE_DEVICES).
#   With HOSTS=2 a second host beside it, in a network of its own, and -pe mpi N, which gives slots of both in turn.
# Environment: SLOTS_EACH=8 GPUS=2 HOSTS=1, and those of cluster.sh.

set -euEo pipefail
trap 'echo "${0##*/}: failed at line $LINENO${DIR:+; see $DIR/log}" >&2' ERR
. "$(dirname "$(readlink -f "$0")")/lib.sh"
. "$(dirname "$(readlink -f "$0")")/cluster.sh"
SLOTS_EACH=${SLOTS_EACH:-8} GPUS=${GPUS:-2} HOSTS=${HOSTS:-1}
HOST=$(hostname) SECOND=second NET=10.199.0 LIB=/usr/lib/gridengine
PACKAGES='gridengine-master gridengine-exec gridengine-client'

# The spool, before qmaster starts.
configure() {
  local arch d
  arch=$(/usr/share/gridengine/util/arch)
  mkdir -p "$DIR"/{bin,lib,utilbin,default/common,spool/db,spool/execd,spool/qmaster/job_scripts}
  for d in bin lib utilbin; do ln -sfn $LIB "$DIR/$d/$arch"; done
  ln -sfn /usr/share/gridengine/util "$DIR/util"
  printf '%s\n' "SGE_ROOT=$DIR" SGE_CELL=default "SGE_ARCH=$arch" \
    "SGE_QMASTER_PORT=$PORT" "SGE_EXECD_PORT=$((PORT + 1))" >"$DIR/settings"
  sed 's/^/export /' "$DIR/settings" >"$DIR/env"
  . "$DIR/env"
  # Grid Engine refuses a client whose address has another name than its host: the loopback address has the name
  # localhost, so both names are made one host.
  getent hosts "$HOST" >/dev/null || echo "127.0.0.1 $HOST" >>/etc/hosts
  echo "$HOST localhost" >"$DIR/default/common/host_aliases"
  echo "$HOST" >"$DIR/default/common/act_qmaster"
  cat >"$DIR/default/common/bootstrap" <<CONF
admin_user root
default_domain none
ignore_fqdn true
spooling_method berkeleydb
spooling_lib libspoolb
spooling_params $DIR/spool/db
binary_path /usr/sbin
qmaster_spool_dir $DIR/spool/qmaster
security_mode none
listener_threads 2
worker_threads 2
scheduler_threads 1
CONF
  # Quick reports and accounting, a lost node noticed after 10 s, root allowed, no mail.
  sed -e "s|^execd_spool_dir.*|execd_spool_dir $DIR/spool/execd|" \
    -e 's|^mailer.*|mailer /bin/true|' \
    -e 's|^min_uid.*|min_uid 0|; s|^min_gid.*|min_gid 0|' \
    -e 's|^load_report_time.*|load_report_time 00:00:01|' \
    -e 's|^max_unheard.*|max_unheard 00:00:10|' \
    -e 's|^reschedule_unknown.*|reschedule_unknown 00:00:05|' \
    -e 's|flush_time=[0-9:]*|flush_time=00:00:01 accounting_flush_time=00:00:00|' \
    /usr/share/gridengine/default-configuration >"$DIR/spool/configuration"
  $LIB/spoolinit berkeleydb libspoolb "$DIR/spool/db" init
  $LIB/spooldefaults configuration "$DIR/spool/configuration"
  $LIB/spooldefaults complexes /usr/share/gridengine/util/resources/centry
  $LIB/spooldefaults usersets /usr/share/gridengine/util/resources/usersets
  $LIB/spooldefaults managers root
}

# Hosts, resources, scheduler and queue, with qmaster running.
objects() {
  local h t=$DIR/spool/objects
  mkdir -p "$t"
  qconf -ah "$HOST" || true
  for h in "$HOST" $(login_nodes); do qconf -as "$h" || true; done
  { qconf -sc; echo 'gpu gpu INT <= YES YES 0 0'; } >"$t/complexes"
  qconf -Mc "$t/complexes"
  printf '%s\n' "hostname $HOST" 'load_scaling NONE' "complex_values slots=$SLOTS_EACH,gpu=$GPUS" \
    'user_lists NONE' 'xuser_lists NONE' 'projects NONE' 'xprojects NONE' \
    'usage_scaling NONE' 'report_variables NONE' >"$t/host"
  qconf -Ae "$t/host" || qconf -Me "$t/host"
  qconf -ssconf | sed -e 's/^schedule_interval.*/schedule_interval 0:0:1/' \
    -e 's/^flush_submit_sec.*/flush_submit_sec 1/; s/^flush_finish_sec.*/flush_finish_sec 1/' \
    -e 's/^job_load_adjustments.*/job_load_adjustments NONE/' >"$t/scheduler"
  qconf -Msconf "$t/scheduler"
  # Each job of a host needs a group of its own; the default has 101.
  qconf -sconf | sed -e 's/^gid_range .*/gid_range 65000-65500/' >"$t/global"
  qconf -Mconf "$t/global"
  printf '%s\n' 'pe_name smp' 'slots 9999' 'user_lists NONE' 'xuser_lists NONE' \
    'start_proc_args NONE' 'stop_proc_args NONE' 'allocation_rule $pe_slots' 'control_slaves FALSE' \
    'job_is_first_task TRUE' 'urgency_slots min' 'accounting_summary FALSE' 'qsort_args NONE' >"$t/pe"
  qconf -Ap "$t/pe"
  # load_thresholds NONE, or a busy test machine closes the queue.
  qconf -sq | sed -e "s/^qname.*/qname all.q/; s/^hostlist.*/hostlist $HOST/; s/^slots .*/slots $SLOTS_EACH/" \
    -e 's/^load_thresholds.*/load_thresholds NONE/; s/^pe_list.*/pe_list smp/; s/^h_rt .*/h_rt 48:00:00/' \
    -e 's|^shell .*|shell /bin/bash|; s/^rerun.*/rerun TRUE/; s/^notify .*/notify 00:00:05/' >"$t/queue"
  qconf -Aq "$t/queue"
}

ready() { [ "$(qstat -f -q all.q | awk '/^all.q@/ {print NF, $5}')" = "5 $SGE_ARCH" ]; }

both_ready() { [ "$(qstat -f -q all.q | awk '/^all.q@/ {print NF, $5}' | sort | uniq -c | xargs)" = "2 5 $SGE_ARCH" ]; }

# What each of the two hosts calls the other. Only processes of this cluster see it.
name_hosts() {
  { cat /etc/hosts; echo "$NET.2 $SECOND"; } >"$DIR/hosts.first"
  printf '%s\n' '127.0.0.1 localhost' "$NET.1 $HOST" "$NET.2 $SECOND" >"$DIR/hosts.second"
  mount --bind "$DIR/hosts.first" /etc/hosts
}

# The second host, and a parallel environment over both.
two_hosts() {
  local t=$DIR/spool/objects
  qconf -ah "$SECOND"
  printf '%s\n' "hostname $SECOND" 'load_scaling NONE' "complex_values slots=$SLOTS_EACH,gpu=$GPUS" \
    'user_lists NONE' 'xuser_lists NONE' 'projects NONE' 'xprojects NONE' \
    'usage_scaling NONE' 'report_variables NONE' >"$t/second"
  qconf -Ae "$t/second" || qconf -Me "$t/second"
  sed -e 's/^pe_name.*/pe_name mpi/' -e 's/^allocation_rule.*/allocation_rule $round_robin/' \
    -e 's/^control_slaves.*/control_slaves TRUE/' -e 's/^job_is_first_task.*/job_is_first_task FALSE/' "$t/pe" >"$t/mpi"
  qconf -Ap "$t/mpi"
  sed -e "s/^hostlist.*/hostlist $HOST $SECOND/" -e 's/^pe_list.*/pe_list smp mpi/' "$t/queue" >"$t/both"
  qconf -Mq "$t/both"
}

start_daemon() {
  local settings clean
  mapfile -t settings <"$DIR/settings"
  # Jobs inherit the environment of execd. SGE_ND: stay in the foreground.
  clean=(env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "${settings[@]}" SGE_ND=1)
  case $1 in
    qmaster)
      spawn qmaster "${clean[@]}" sge_qmaster
      wait_for 60 qmaster qconf -sh
      ;;
    # A process name space of its own: one kill ends execd, its shepherds and their jobs, as a crash would.
    execd)
      spawn execd "${clean[@]}" unshare --pid --mount-proc --fork --kill-child sge_execd
      wait_for 60 'the queue' ready
      ;;
    # All execds of a cluster have one port, so the second has a network of its own.
    second)
      # shellcheck disable=SC2016 # it expands them
      spawn second "${clean[@]}" unshare --net --uts --pid --mount-proc --fork --kill-child sh -c \
        'hostname "$1" && mount --bind "$2" /etc/hosts && touch "$3" && ip link set lo up &&
         until ip address add "$4.2/24" dev eth0 2>/dev/null; do sleep 0.05; done &&
         ip link set eth0 up && exec sge_execd' \
        sh "$SECOND" "$DIR/hosts.second" "$RUN/second.up" "$NET"
      wait_for 20 'the second host' test -e "$RUN/second.up"
      ip link add to-second type veth peer name eth0 netns "$(pid_of second)"
      ip address add "$NET.1/24" dev to-second
      ip link set to-second up
      wait_for 60 'the queue on both hosts' both_ready
      ;;
    *) usage ;;
  esac
}

bring_up() {
  configure >"$DIR/log/configure.out" 2>&1
  [ "$HOSTS" = 1 ] || name_hosts
  start_daemon qmaster
  objects >"$DIR/log/objects.out" 2>&1
  start_daemon execd
  [ "$HOSTS" = 1 ] || {
    two_hosts >>"$DIR/log/objects.out" 2>&1
    start_daemon second
  }
}

clean_up() { :; }

case ${1:-} in
  install) install ;;
  start) [ $# = 3 ] || usage; DIR=$(readlink -m "$2") RUN=$DIR/run; . "$DIR/env"; start_daemon "$3" ;;
  hold) [ $# = 2 ] || usage; DIR=$(readlink -m "$2"); mkdir -p "$DIR"; hold ;;
  *) usage ;;
esac
