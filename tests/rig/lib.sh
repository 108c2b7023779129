# shellcheck shell=bash
# What the hosts stand on: packages, processes by identity, waiting, and which network is whose. Sourced by
# sshd.sh, which sets DIR and MODE and defines `crash`.

die() { echo "${0##*/}: $*" >&2; exit 1; }

# --- what must be installed -------------------------------------------------------------------

missing() {
  local one
  for one in sshd:openssh-server ssh:openssh-client ssh-keygen:openssh-client flock:util-linux; do
    command -v "${one%%:*}" >/dev/null || echo "${one#*:}"
  done
  [ "${MODE:-ns}" = ns ] || return 0
  for one in ip:iproute2 tc:iproute2 nft:nftables unshare:util-linux nsenter:util-linux; do
    command -v "${one%%:*}" >/dev/null || echo "${one#*:}"
  done
}

install_missing() {
  local want rc=0 own_policy=''
  want=$(missing | sort -u | tr '\n' ' ')
  [ -n "$want" ] || return 0
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    die "missing: $want; install with: apt-get install $want"
  fi
  # Without systemd the installation would start a server of its own: denied for that long.
  if [ ! -e /usr/sbin/policy-rc.d ]; then
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod 755 /usr/sbin/policy-rc.d
    own_policy=1
  fi
  # shellcheck disable=SC2086 # package names
  { apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 install -y \
      --no-install-recommends $want; } >"$SLOTS/install.log" 2>&1 </dev/null || rc=$?
  [ -z "$own_policy" ] || rm -f /usr/sbin/policy-rc.d
  if [ $rc != 0 ]; then
    tail -n 20 "$SLOTS/install.log" >&2
    die "cannot install $want"
  fi
}

# --- processes --------------------------------------------------------------------------------
# A pid file holds "PID STARTTIME", so that a pid used again is never taken for it.

start_time() { local s; s=$(cat "/proc/$1/stat" 2>/dev/null) || return 1; s=${s##*) }; set -- $s; [ "$1" != Z ] && echo "${20}"; }
pid_of() { cut -d' ' -f1 "$RUN/$1.pid"; }
alive() { local p t; read -r p t 2>/dev/null <"$RUN/$1.pid" && [ -n "$t" ] && [ "$(start_time "$p")" = "$t" ]; }
record() { echo "$2 $(start_time "$2")" >"$RUN/$1.pid"; }

# spawn NAME CMD…: run CMD detached; it inherits no lock and no standard stream.
spawn() {
  local name=$1
  shift
  setsid "$@" </dev/null >>"$DIR/log/$name" 2>&1 7>&- 8>&- 9>&- &
  record "$name" $!
  disown $!
}

# wait_for SECONDS WHAT CMD…: try CMD until it succeeds.
wait_for() {
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || die "gave up waiting for $what; see $DIR/log"
    sleep 0.05
  done
}

# --- slots: which network or ports are whose ---------------------------------------------------
# A slot is a locked file that names its DIR; beside it lie the pid files. The lock goes with the
# process that holds it, so a slot whose lock is free belongs to nobody, whatever it still has.

slots() {
  SLOTS=/tmp/nero-rig-$(id -u)
  mkdir -p -m 700 "$SLOTS"
  [ -O "$SLOTS" ] && [ ! -L "$SLOTS" ] || die "$SLOTS belongs to somebody else"
}

in_slot() {
  SLOT=$1 RUN=$SLOTS/$1.run BRIDGE=nr$1 NET=10.204.$1 PORT=$((21000 + 20 * $1))
  mkdir -p "$RUN"
}

allot() {
  local n free=''
  exec 7>"$SLOTS/lock"
  flock 7
  install_missing
  for n in $(seq 0 199); do
    if [ -n "$free" ] && [ ! -s "$SLOTS/$n" ]; then continue; fi
    exec 9>>"$SLOTS/$n"
    flock -n 9 || continue
    in_slot "$n"
    if [ -s "$SLOTS/$n" ]; then
      ( DIR=$(cat "$SLOTS/$n"); remains ) || true
    fi
    if [ -z "$free" ] && slot_usable; then
      free=$n
      exec 8>>"$SLOTS/$n"
      exec 9>&-
      flock 8
      echo "$DIR" >"$SLOTS/$n"
    fi
  done
  exec 9>&- 7>&-
  [ -n "$free" ] || die 'no network is free'
  in_slot "$free"
}

slot_usable() {
  if [ "$MODE" = ns ]; then
    ! ip link show "$BRIDGE" >/dev/null 2>&1 && [ -z "$(ip route show "$NET.0/24")" ]
  else
    local p
    for p in $(seq $((PORT + 1)) $((PORT + 19))); do
      if (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null; then return 1; fi
    done
  fi
}

# Ends whatever the slot's owner left: hosts, links, mounts.
remains() {
  local f h p t
  for f in "$RUN"/h[0-9]*.pid; do
    [ -e "$f" ] || continue
    h=${f##*/}
    crash "${h%.pid}"
  done
  if command -v ip >/dev/null && ip link show "$BRIDGE" >/dev/null 2>&1; then
    for h in $(ip -o link show master "$BRIDGE" | sed 's/^[0-9]*: \([^@:]*\).*/\1/'); do
      ip link delete "$h" 2>/dev/null || true
    done
    ip link delete "$BRIDGE" 2>/dev/null || true
  fi
  while read -r _ p _ && [ -n "$p" ]; do
    case $p in "$DIR"/*) umount -l "$p" 2>/dev/null || true ;; esac
  done < <(grep -F " $DIR/" /proc/self/mounts || true)
  rm -rf "$RUN"
  : >"$SLOTS/$SLOT"
}
