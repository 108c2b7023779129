# shellcheck shell=bash
# What the clusters of slurm.sh and gridengine.sh have in common. Sourced by them after lib.sh; they set DIR and
# PACKAGES and define bring_up. All daemons live in one process name space whose first process is the holder, so
# that they end with it, however it ends.

PATH=$PATH:/usr/sbin:/sbin
umask 022
usage() { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }

# lib.sh installs what this prints.
missing() {
  local one
  for one in $PACKAGES; do
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

# A number that no other cluster has, SLOT, and twenty ports of 127.0.0.1 from PORT on. The lock stays with the holder.
allot_ports() {
  local n
  for n in $(seq 0 199); do
    exec 8>>"$SLOTS/ports.$n"
    SLOT=$n PORT=$((26000 + 20 * n))
    if flock -n 8 && free_ports; then return 0; fi
  done
  die 'no ports are free'
}

free_ports() {
  local p
  for p in $(seq "$PORT" $((PORT + 19))); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null; then return 1; fi
  done
}

# HOSTS_DIR: the folder of hosts of sshd.sh, which are its login nodes: its nodes have their users and the home of h1.
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

login_nodes() { [ -z "${HOSTS_DIR:-}" ] || ls "$HOSTS_DIR/hosts"; }

# Ends when standard input does; with USERS, when nothing has held a lock on that file for GRACE seconds. The lock on
# LOCK, in a folder that is removed at the end, keeps a test from joining in that moment.
hold() {
  [ "$(id -u)" = 0 ] || die "a cluster of its own needs root, and the packages $PACKAGES"
  if [ -z "${INSIDE:-}" ]; then
    install
    INSIDE=1 exec unshare --pid --mount-proc --fork --kill-child "$0" hold "$DIR"
  fi
  slots
  mount_home
  allot_ports
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
