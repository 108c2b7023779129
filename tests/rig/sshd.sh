#!/bin/bash
# Real OpenSSH servers as separate "hosts" h1, h2, … on this machine, for tests.
#   sshd.sh hold DIR             bring them up, print a line that begins with `ready`, and take all of it
#                                down again when standard input ends: so they end with whoever started them
#   sshd.sh up DIR               the same by hand: they stay until `down`
#   sshd.sh down DIR             end all of it (the homes stay in DIR)
#   sshd.sh status DIR           what runs; exit 1 unless every host answers
#   sshd.sh isolates             exit 0 when MODE=ns is possible here
#   sshd.sh install              only install what is missing (Debian, root)
# Faults, each `sshd.sh FAULT DIR HOST …`:
#   kill                         crash: sshd and all processes of the host die at once
#   start                        start a killed host: same home, another boot id, another clock if asked for
#   restart                      kill and start
#   freeze, thaw                 SIGSTOP, SIGCONT to every process of the host
#   cut                          silence: connections hang, processes go on
#   hangup                       kill -9 of every sshd that serves a connection; the listening one stays
#   logout                       kill -9 of every process of the user there, sshd's listener stays
#   members                      its processes, as this machine numbers them
#   new-key                      another host key, as after a new installation
#   lossy PERCENT                (ns) lose so many of the packets, each way
#   slow RATE                    (ns) limit the way to the host, say 1mbit
#   mend                         undo cut, lossy and slow
#   fill [KEEP]                  (ns, HOME_SIZE) fill its home but for KEEP bytes (0)
#   free                         undo fill
#   clock SECONDS                (ns) from its next start on its uptime is so much more (a time name space)
#   enter CMD…                   (ns) run CMD there as root, past ssh
#   move                         (ns; HOST is any) this machine changes its address: old connections hang
# Then: ssh -F DIR/ssh_config h1 CMD; a second user: ssh -F DIR/ssh_config stranger@h1 CMD.
# DIR/common is seen by all hosts and by this machine at the same path, and all may write there.
# MODE=ns (default where it is possible): each host has its own network, host name, processes, users, /home, /tmp, /run,
#   boot id, /etc/hosts and host key. The hosts reach each other and this machine (NET.254), nothing else.
# MODE=user (no root needed): one sshd of the calling user per host on a port of 127.0.0.1; each has its
#   own HOME and TMPDIR, all else is shared.
# Environment of `up` and `hold`: HOSTS=2 MODE=ns|user
#   HOME_SIZE=64M   (ns) each home is a file system of this size
#   SHARED='h1 h2'  these hosts have one home, that of the first: login nodes of a cluster
#   SSHD_OPTIONS='' lines put first in sshd_config, where the first value wins. The password of both
#   users is `rig`, which counts only with 'PasswordAuthentication yes' in it.

set -euEo pipefail
trap 'echo "${0##*/}: failed at line $LINENO${DIR:+; see $DIR/log}" >&2' ERR
PATH=$PATH:/usr/sbin:/sbin
umask 022
. "$(dirname "$(readlink -f "$0")")/lib.sh"

usage() { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }

# --- configuration ----------------------------------------------------------------------------

hosts() { seq -f 'h%g' "$HOSTS"; }
number() { echo "${1#h}"; }
link() { echo "$BRIDGE.${1#h}"; }
# The folder that is the host's home, seen from here.
home_of() {
  case " $SHARED " in *" $1 "*) echo "$DIR/hosts/${SHARED%% *}/home" ;; *) echo "$DIR/hosts/$1/home" ;; esac
}

configure_users() {
  local d=$DIR/hosts/$1 user id hash=''
  mkdir -p "$d/etc"
  grep -v -e '^tester:' -e '^stranger:' /etc/passwd >"$d/etc/passwd"
  grep -v -e '^tester:' -e '^stranger:' /etc/group >"$d/etc/group"
  # SHA-512 crypt of `rig`.
  hash='$6$nerorig$cyf6i3pCEf2n0ipPy8ZxFa0fxfwSNgGiCj97HVcl.5NtSHYrzPhAC2azB3zHv.hfU8ZHLxFZLYrVWSzSUVJKz/'
  : >"$d/etc/shadow"
  chmod 600 "$d/etc/shadow"
  id=61001
  for user in tester stranger; do
    echo "$user:x:$id:$id::/home/$user:/bin/bash" >>"$d/etc/passwd"
    echo "$user:x:$id:" >>"$d/etc/group"
    echo "$user:$hash:19000:0:99999:7:::" >>"$d/etc/shadow"
    id=$((id + 1))
  done
  chmod 644 "$d/etc/passwd" "$d/etc/group"
}

configure_sshd() {
  local h=$1 d=$DIR/hosts/$1 port=22 address=0.0.0.0 key=/etc/ssh/key keys=.ssh/authorized_keys
  [ -e "$d/ssh/key" ] || ssh-keygen -q -t ed25519 -N '' -C "$h" -f "$d/ssh/key"
  if [ "$MODE" = user ]; then
    port=$((PORT + $(number "$h"))) address=127.0.0.1 key=$d/ssh/key keys=$DIR/id.pub
  fi
  cat >"$d/ssh/sshd_config" <<CONF
$SSHD_OPTIONS
ListenAddress $address
Port $port
HostKey $key
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
AuthorizedKeysFile $keys
MaxStartups 500
MaxSessions 500
Subsystem sftp /usr/lib/openssh/sftp-server
CONF
  if [ "$MODE" = user ]; then
    # sshd knows only the home of the password file: the wrapper moves on.
    printf '%s\n' "SetEnv HOME=$d/home TMPDIR=$d/tmp" "ForceCommand $d/login" >>"$d/ssh/sshd_config"
    printf '%s\n' '#!/bin/sh' 'cd "$HOME" || exit 1' \
      '[ -z "$SSH_ORIGINAL_COMMAND" ] || exec "${SHELL:-/bin/sh}" -c "$SSH_ORIGINAL_COMMAND"' \
      'exec "${SHELL:-/bin/sh}" -l' >"$d/login"
    chmod 755 "$d/login"
  fi
}

configure_home() {
  local user home
  for user in tester stranger; do
    home=$1
    [ $user = tester ] || home=$2
    mkdir -p "$home/.ssh"
    cp "$DIR/id.pub" "$home/.ssh/authorized_keys"
    if [ "$MODE" = ns ]; then
      chmod 700 "$home" "$home/.ssh"
      if [ $user = tester ]; then chown 61001:61001 "$home" "$home"/.ssh{,/*}; else chown 61002:61002 "$home" "$home"/.ssh{,/*}; fi
    fi
  done
}

configure() {
  local h d at home
  mkdir -p "$DIR"/{hosts,log,common}
  chmod 755 "$DIR" "$DIR/hosts"
  chmod 777 "$DIR/common"
  printf '%s\n' "SLOT=$SLOT" "HOSTS=$HOSTS" "MODE=$MODE" "HOME_SIZE=$HOME_SIZE" "SHARED='$SHARED'" >"$DIR/settings"
  [ -e "$DIR/id" ] || ssh-keygen -q -t ed25519 -N '' -C rig -f "$DIR/id"
  printf '127.0.0.1 localhost\n%s.254 rig\n' "$NET" >"$DIR/etc_hosts"
  : >"$DIR/known_hosts"
  : >"$DIR/ssh_config"
  for h in $(hosts); do
    d=$DIR/hosts/$h
    mkdir -p "$d"/{home,stranger,tmp,ssh}
    chmod 755 "$d"
    chmod 1777 "$d/tmp"
    home=$(home_of "$h")
    if [ -n "$HOME_SIZE" ] && [ "$home" = "$d/home" ] && ! mountpoint -q "$home"; then
      mount -t tmpfs -o "size=$HOME_SIZE" tmpfs "$home"
    fi
    configure_home "$home" "$d/stranger"
    configure_sshd "$h"
    [ "$MODE" = user ] || configure_users "$h"
    echo "$h $(cut -d' ' -f1,2 "$d/ssh/key.pub")" >>"$DIR/known_hosts"
    echo "$NET.$(number "$h") $h" >>"$DIR/etc_hosts"
    at="$NET.$(number "$h") 22 tester"
    [ "$MODE" = ns ] || at="127.0.0.1 $((PORT + $(number "$h"))) $(id -un)"
    # shellcheck disable=SC2086 # three words
    printf 'Host %s\n  HostKeyAlias %s\n  HostName %s\n  Port %s\n  User %s\n' "$h" "$h" $at >>"$DIR/ssh_config"
  done
  cat >>"$DIR/ssh_config" <<CONF
Host *
  IdentityFile $DIR/id
  IdentitiesOnly yes
  UserKnownHostsFile $DIR/known_hosts
  GlobalKnownHostsFile /dev/null
CONF
}

# --- hosts ------------------------------------------------------------------------------------

inner() { local p; p=$(pid_of "$1"); cut -d' ' -f1 "/proc/$p/task/$p/children"; } # its process 1, seen from here
enter() { nsenter -t "$(inner "$1")" -a "${@:2}"; }

start_host() {
  local h=$1 d=$DIR/hosts/$1
  ! alive "$h" || return 0
  cat /proc/sys/kernel/random/uuid >"$d/boot_id"
  if [ "$MODE" = user ]; then
    # A root that may make no name spaces: its sshd wants this folder.
    [ "$(id -u)" != 0 ] || mkdir -p /run/sshd
    spawn "$h" "$(command -v sshd)" -D -e -f "$d/ssh/sshd_config"
    return
  fi
  local clock=() seconds=0
  if [ -e "$d/clock" ]; then
    seconds=$(cat "$d/clock")
    clock=(--time --monotonic "$seconds" --boottime "$seconds")
  fi
  wait_for 60 "$(link "$h") to go" no_link "$h"
  # Where DIR lies below /tmp, the host's own /tmp would hide the common folder.
  mkdir -p "$d/tmp/${DIR#/tmp/}/common"
  spawn "$h" unshare --net --uts --pid --mount --ipc --mount-proc "${clock[@]}" --fork --kill-child sh -euc '
    hostname "$1"
    d=$2/hosts/$1
    mount --bind "$d/boot_id" /proc/sys/kernel/random/boot_id
    mount --bind "$2/etc_hosts" /etc/hosts
    for f in passwd group shadow; do mount --bind "$d/etc/$f" "/etc/$f"; done
    mount --bind "$d/ssh" /etc/ssh
    mount -t tmpfs -o mode=755 tmpfs /run
    mkdir /run/sshd
    mount -t tmpfs -o mode=1777 tmpfs /dev/shm
    mount -t tmpfs -o mode=1777 tmpfs /var/tmp
    mount -t tmpfs -o mode=755 tmpfs /home
    mkdir /home/tester /home/stranger
    mount --bind "$3" /home/tester
    mount --bind "$d/stranger" /home/stranger
    case $2 in /tmp/*) mount --bind "$2/common" "$d/tmp/${2#/tmp/}/common" ;; esac
    mount --rbind "$d/tmp" /tmp
    ip link set lo up
    cd /
    until ip link show eth0 >/dev/null 2>&1; do sleep 0.02; done
    exec "$4" -D -e -f /etc/ssh/sshd_config' sh "$h" "$DIR" "$(home_of "$h")" "$(command -v sshd)"
  wait_for 60 "the name spaces of $h" own_net "$h"
  ip link add "$(link "$h")" type veth peer name eth0 address "02:00:00:00:00:$(printf %02x "$(number "$h")")" netns "$(pid_of "$h")"
  nsenter -n -t "$(pid_of "$h")" sh -ec "ip address add $NET.$(number "$h")/24 dev eth0; ip link set eth0 up"
  ip link set "$(link "$h")" master "$BRIDGE" up
}
no_link() { ! ip link show "$(link "$1")" >/dev/null 2>&1; }
own_net() { alive "$1" && [ "$(readlink "/proc/$(pid_of "$1")/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }
# A refusal is an answer, too: options of a test may leave the key no way in.
answers() {
  local said
  said=$(timeout 20 ssh -F "$DIR/ssh_config" -o BatchMode=yes "$1" true </dev/null 2>&1) ||
    case $said in *'Permission denied'*) ;; *) return 1 ;; esac
}

# Every process of the host, as this machine numbers them; process 1 comes first.
members() {
  local p one
  if [ "$MODE" = ns ]; then
    one=$(inner "$1")
    [ -n "$one" ] || return 0
    echo "$one"
    for p in /proc/[0-9]*; do
      if [ "$p/ns/pid" -ef "/proc/$one/ns/pid" ] && [ "${p#/proc/}" != "$one" ]; then echo "${p#/proc/}"; fi
    done
  else
    # What ssh started is in sessions of its own: found by its HOME; sshd's own are its descendants.
    pid_of "$1"
    for p in /proc/[0-9]*; do
      if [ "${p#/proc/}" = $$ ] || [ "${p#/proc/}" = "$BASHPID" ]; then continue; fi
      if grep -qzFx "HOME=$DIR/hosts/$1/home" "$p/environ" 2>/dev/null || below "${p#/proc/}" "$(pid_of "$1")"; then
        echo "${p#/proc/}"
      fi
    done
  fi
}
below() {
  local s p=$1
  while [ "$p" -gt 1 ]; do
    s=$(cat "/proc/$p/stat" 2>/dev/null) || return 1
    s=${s##*) }
    set -- "$p" "$2" $s
    p=$4
    [ "$p" != "$2" ] || return 0
  done
  return 1
}

# signal_all HOST SIGNAL: until a look finds nobody new, as processes may be forking.
signal_all() {
  local seen='' now p
  while now=$(members "$1") && [ "$now" != "$seen" ]; do
    for p in $now; do kill "-$2" "$p" 2>/dev/null || true; done
    seen=$now
  done
}

crash() {
  alive "$1" || return 0
  local p=''
  if [ "$MODE" = ns ]; then p=$(inner "$1" || true); else signal_all "$1" KILL; fi
  # With its process 1 all others of a name space end; who made it ends after the last of them.
  kill -KILL "${p:-$(pid_of "$1")}" 2>/dev/null || true
  wait_for 60 "$1 to die" not_alive "$1"
  rm -f "$RUN/$1.pid"
  # It goes with the name space, but only after a while.
  [ "$MODE" = user ] || ip link delete "$(link "$1")" 2>/dev/null || true
}
not_alive() { ! alive "$1"; }

# sshd processes of the host but for the listening one; later versions name them for what they do.
sessions() {
  local p
  for p in $(members "$1" | tail -n +2); do
    case $(cat "/proc/$p/comm" 2>/dev/null) in sshd | sshd-*) echo "$p" ;; esac
  done
}

new_key() {
  rm -f "$DIR/hosts/$1/ssh/key" "$DIR/hosts/$1/ssh/key.pub"
  ssh-keygen -q -t ed25519 -N '' -C "$1" -f "$DIR/hosts/$1/ssh/key"
  local p
  p=$(pid_of "$1")
  [ "$MODE" = user ] || p=$(inner "$1")
  kill -HUP "$p"
}

fill() {
  local home free
  home=$(home_of "$1")
  mountpoint -q "$home" || die "the home of $1 has no size of its own: HOME_SIZE"
  # Others may write meanwhile.
  for _ in $(seq 20); do
    free=$(df --output=avail -B1 "$home" | tail -n 1)
    if [ "$free" -le "$2" ] || fallocate -l "$((free - $2))" "$home/.fill" 2>/dev/null; then return 0; fi
  done
  die "the home of $1 cannot be filled"
}

move() {
  local old=254 new=253
  if ip address show dev "$BRIDGE" | grep -F "$NET.253/" >/dev/null; then old=253 new=254; fi
  ip address delete "$NET.$old/24" dev "$BRIDGE"
  ip address add "$NET.$new/24" dev "$BRIDGE"
}

# --- all of it --------------------------------------------------------------------------------

bring_up() {
  local h
  configure
  if [ "$MODE" = ns ]; then
    ip link add "$BRIDGE" type bridge
    ip address add "$NET.254/24" dev "$BRIDGE"
    ip link set "$BRIDGE" up
  fi
  for h in $(hosts); do start_host "$h"; done
  for h in $(hosts); do wait_for 90 "$h" answers "$h"; done
}

# Whether hosts can be kept apart here: many containers let their root make no name spaces.
isolates() { [ "$(id -u)" = 0 ] && unshare --net --uts --pid --mount --ipc --fork true 2>/dev/null; }

hold() {
  if [ "$MODE" = ns ]; then
    [ "$(id -u)" = 0 ] || die 'MODE=ns needs root'
    isolates || die 'this machine allows no name spaces: MODE=user does without'
  fi
  allot
  trap remains EXIT
  trap 'exit 0' TERM INT HUP
  record holder $$
  bring_up
  echo "ready: ssh -F $DIR/ssh_config h1"
  exec >/dev/null
  while read -r _; do :; done
}

by_hand() {
  local line
  mkdir -p "$DIR/log"
  rm -f "$DIR/said" "$DIR/lifeline"
  mkfifo "$DIR/said" "$DIR/lifeline"
  setsid "$0" hold "$DIR" <>"$DIR/lifeline" >"$DIR/said" 2>"$DIR/log/hold" &
  read -r line <"$DIR/said" || { cat "$DIR/log/hold" >&2; die 'the hosts did not come up'; }
  echo "$line"
}

down() {
  if alive holder; then
    kill -TERM "$(pid_of holder)"
    wait_for 60 'the hosts to end' not_alive holder
  elif [ "$(cat "$SLOTS/$SLOT" 2>/dev/null)" = "$DIR" ]; then
    remains
  fi
}

status() {
  local h rc=0
  for h in $(hosts); do
    if ! alive "$h"; then echo "$h does not run"; rc=1
    elif answers "$h" 2>/dev/null; then echo "$h answers"
    else echo "$h does not answer"; rc=1; fi
  done
  return $rc
}

[ $# -ge 1 ] || usage
CMD=$1
if [ "$CMD" = isolates ]; then
  if isolates; then exit 0; else exit 1; fi
fi
MODE=${MODE:-$(isolates && echo ns || echo user)}
if [ "$CMD" = install ]; then
  slots
  exec 7>"$SLOTS/lock"
  flock 7
  install_missing
  exit 0
fi
[ $# -ge 2 ] || usage
DIR=$(readlink -m "$2") HOST=${3:-}
HOSTS=${HOSTS:-2} HOME_SIZE=${HOME_SIZE:-} SHARED=${SHARED:-} SSHD_OPTIONS=${SSHD_OPTIONS:-}
slots
case $CMD in
  hold) hold; exit 0 ;;
  up) by_hand; exit 0 ;;
esac
[ -e "$DIR/settings" ] || die "nothing was set up in $DIR"
. "$DIR/settings"
in_slot "$SLOT"
case $CMD in
  down) down; exit 0 ;;
  status) status || exit 1; exit 0 ;;
esac
alive holder || die "the hosts of $DIR were taken down"
case " $(hosts | tr '\n' ' ') " in *" $HOST "*) ;; *) die "no such host: $HOST" ;; esac
case $CMD in start | restart | clock | free | move) ;; *) alive "$HOST" || die "$HOST does not run" ;; esac
case $MODE.$CMD in
  *.kill) crash "$HOST" ;;
  *.start) start_host "$HOST"; wait_for 90 "$HOST" answers "$HOST" ;;
  *.restart) crash "$HOST"; start_host "$HOST"; wait_for 90 "$HOST" answers "$HOST" ;;
  *.freeze) signal_all "$HOST" STOP ;;
  *.thaw) signal_all "$HOST" CONT ;;
  *.hangup) for p in $(sessions "$HOST"); do kill -KILL "$p" 2>/dev/null || true; done ;;
  *.logout) for p in $(members "$HOST" | tail -n +2); do kill -KILL "$p" 2>/dev/null || true; done ;;
  *.new-key) new_key "$HOST" ;;
  *.members) members "$HOST" ;;
  ns.cut) ip link set "$(link "$HOST")" down ;;
  ns.mend)
    ip link set "$(link "$HOST")" up
    tc qdisc delete dev "$(link "$HOST")" root 2>/dev/null || true
    enter "$HOST" nft flush ruleset
    ;;
  ns.lossy)
    enter "$HOST" nft "flush ruleset; add table ip loss
      add chain ip loss in { type filter hook input priority 0; }
      add chain ip loss out { type filter hook output priority 0; }
      add rule ip loss in numgen random mod 100 < $4 drop
      add rule ip loss out numgen random mod 100 < $4 drop"
    ;;
  ns.slow) tc qdisc replace dev "$(link "$HOST")" root tbf rate "$4" burst 32kbit latency 400ms ;;
  ns.fill) fill "$HOST" "${4:-0}" ;;
  ns.free) rm -f "$(home_of "$HOST")/.fill" ;;
  ns.clock) echo "$4" >"$DIR/hosts/$HOST/clock" ;;
  ns.enter) enter "$HOST" "${@:4}" ;;
  ns.move) move ;;
  user.cut) for p in $(pid_of "$HOST") $(sessions "$HOST"); do kill -STOP "$p"; done ;;
  user.mend) signal_all "$HOST" CONT ;;
  *) die "$CMD is not possible with MODE=$MODE" ;;
esac
