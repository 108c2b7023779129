# shellcheck shell=bash
# What the clusters of slurm.sh and gridengine.sh have in common. Sourced by them after lib.sh; they set DIR and
# PACKAGES and define bring_up. All daemons live in one process name space whose first process is the holder, so
# that they end with it, however it ends; and in one network, which has nothing but its loopback and, with HOSTS_DIR,
# a link to the hosts. Who uses the cluster enters the network: it is that of the holder.

PATH=$PATH:/usr/sbin:/sbin
PORT=26000
umask 022
usage() { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }

# lib.sh installs what this prints.
missing() {
  local one
  for one in $PACKAGES iproute2; do
    [ "$(dpkg-query -Wf '${db:Status-Status}' "$one" 2>/dev/null)" = installed ] || echo "$one"
  done
}

install() {
  slots
  exec 7>"$SLOTS/lock"
  flock 7
  install_missing
  exec 7>&-
}

# A number that no other cluster has: the kernel's groups of processes are named by it. The lock stays with the holder.
allot_number() {
  for SLOT in $(seq 0 199); do
    exec 8>>"$SLOTS/cluster.$SLOT"
    if flock -n 8; then return 0; fi
  done
  die 'there are 200 clusters'
}

# The network of the holder. File 4 is that of its caller.
network() {
  local one net bridge
  ip link set lo up
  # getaddrinfo refuses every address, AI_ADDRCONFIG given, where 127.0.0.1 is the only one.
  ip address add 127.0.0.2/8 dev lo
  # The name of this machine has to lead to the daemons in here, too.
  for one in $(getent ahosts "$(hostname)" | awk '{print $1}' | sort -u); do
    ip address add "$one" dev lo 2>/dev/null || true
  done
  if [ -n "${HOSTS_DIR:-}" ]; then
    net=$(sed -n 's/\.[0-9]* rig$//p' "$HOSTS_DIR/etc_hosts") bridge=nr${net##*.} ADDRESS=$net.200
    nsenter --net=/proc/self/fd/4 sh -ec "
      ip link add $bridge.c type veth peer name eth0 netns $$
      ip link set $bridge.c master $bridge up"
    ip address add "$ADDRESS/24" dev eth0
    ip link set eth0 up
  fi
  exec 4>&-
}

# HOSTS_DIR: the folder of hosts of sshd.sh, which are its login nodes: its nodes have their users and the home of h1.
# They reach it at ADDRESS.
mount_home() {
  [ -n "${HOSTS_DIR:-}" ] || return 0
  local f
  # Daemons find the hosts by name, and programs on the hosts find the controller.
  cat /etc/hosts "$HOSTS_DIR/etc_hosts" >"$DIR/etc_hosts"
  mount --bind "$DIR/etc_hosts" /etc/hosts
  echo "$ADDRESS $(hostname)" >>"$HOSTS_DIR/etc_hosts"
  for f in passwd group; do mount --bind "$HOSTS_DIR/hosts/h1/etc/$f" "/etc/$f"; done
  mount -t tmpfs -o mode=755 tmpfs /home
  mkdir /home/tester
  mount --bind "$HOSTS_DIR/hosts/h1/home" /home/tester
}

# Schedulers make a login for each job. What the start-up files of this machine's root do is no part of a test, and one
# of them may hold a lock when its job is killed.
hide_start_up_files() {
  local f
  for f in .bashrc .bash_profile .bash_login .profile; do
    [ ! -e "/root/$f" ] || mount --bind /dev/null "/root/$f"
  done
}

login_nodes() { [ -z "${HOSTS_DIR:-}" ] || ls "$HOSTS_DIR/hosts"; }

# Ends when standard input does; with USERS, when nothing has held a lock on that file for GRACE seconds. The lock on
# LOCK, in a folder that is removed at the end, keeps a test from joining in that moment.
hold() {
  [ "$(id -u)" = 0 ] || die "a cluster of its own needs root, and the packages $PACKAGES"
  if [ -z "${INSIDE:-}" ]; then
    install
    INSIDE=1 exec unshare --net --pid --mount-proc --fork --kill-child "$0" hold "$DIR" 4</proc/self/ns/net
  fi
  slots
  network
  hide_start_up_files
  mount_home
  allot_number
  RUN=$DIR/run
  mkdir -p "$RUN" "$DIR/log"
  # Daemons of other users reach their sockets through all of these.
  chmod 755 "$(dirname "$DIR")" "$DIR" "$RUN" "$DIR/log"
  bring_up
  echo 'ready'
  exec >/dev/null
  if [ -z "${USERS:-}" ]; then
    while read -r _; do :; done
  else
    until unused; do sleep "${GRACE:-5}"; done
  fi
  clean_up
  rm -rf "$DIR"
  [ -z "${LOCK:-}" ] || rm -rf "$(dirname "$LOCK")"
}

unused() {
  exec 5>>"$USERS" 6>>"$LOCK"
  flock -x 5 && flock -u 5
  sleep "${GRACE:-5}"
  flock -n 6 && flock -n 5 && return 0
  exec 5>&- 6>&-
  return 1
}
