#!/bin/bash
# Real runtimes of containers for tests: a Docker daemon and a podman of their own, and images.
#   containers.sh hold DIR       bring them up, print `ready`, and take all of it down again when standard
#                                input ends: so they end with whoever started them
#   containers.sh image FILE     make an image: a root file system of static busybox, as an archive
#   containers.sh install        only install what is missing (Debian, root)
#   containers.sh docker-kill DIR, docker-start DIR [OPTION]
#                                the daemon dies, its containers go on; it is started again
# The tests get DIR/bin first on PATH, CONTAINERS_CONF, CONTAINERS_STORAGE_CONF and DOCKER_HOST as DIR/env
# has them. Cgroups are mounted anew in a mount name space: hybrid ones are refused by crun.

set -euEo pipefail
PATH=$PATH:/usr/sbin:/sbin
umask 022

die() { echo "${0##*/}: $*" >&2; exit 1; }

install_missing() {
  local want='' one
  for one in podman:podman crun:crun catatonit:catatonit dockerd:docker.io docker-init:docker.io \
    ch-run:charliecloud newuidmap:uidmap unshare:util-linux nsenter:util-linux; do
    command -v "${one%%:*}" >/dev/null || want="$want ${one#*:}"
  done
  [ -x /bin/busybox ] && /bin/busybox true 2>/dev/null || want="$want busybox-static"
  [ -n "$want" ] || return 0
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    die "missing:$want; install with: apt-get install$want"
  fi
  local own_policy=''
  if [ ! -e /usr/sbin/policy-rc.d ]; then
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod 755 /usr/sbin/policy-rc.d
    own_policy=1
  fi
  local rc=0
  # shellcheck disable=SC2086 # package names
  { apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 install -y \
      --no-install-recommends $want; } >/dev/null 2>&1 </dev/null || rc=$?
  [ -z "$own_policy" ] || rm -f /usr/sbin/policy-rc.d
  [ $rc = 0 ] || die "cannot install$want"
}

image() {
  local folder applet
  folder=$(mktemp -d)
  chmod 755 "$folder"
  mkdir -p "$folder"/{bin,dev,etc,home,mnt,proc,root,run,sys,tmp,var/tmp}
  cp "$(command -v busybox)" "$folder/bin/busybox"
  for applet in cat chmod chpst echo env false head id kill ls mkdir printf sh sleep touch trap true wc yes; do
    ln -s busybox "$folder/bin/$applet"
  done
  echo 'root:x:0:0::/root:/bin/sh' >"$folder/etc/passwd"
  echo 'root:x:0:' >"$folder/etc/group"
  : >"$folder/etc/hosts"
  : >"$folder/etc/resolv.conf"
  tar -C "$folder" --sort=name --mtime=@0 --owner=0 --group=0 -cf "$1" .
  rm -rf "$folder"
}

configure() {
  mkdir -p "$DIR/bin"
  cat >"$DIR/containers.conf" <<'CONF'
[containers]
cgroups = "disabled"
netns = "host"
default_ulimits = ["nofile=1024:1024", "nproc=4000:4000"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
CONF
  cat >"$DIR/storage.conf" <<CONF
[storage]
driver = "vfs"
graphroot = "$DIR/podman"
runroot = "$DIR/podman-run"
CONF
  # The client, and all that it starts, is in the name space with the right cgroups.
  cat >"$DIR/bin/podman" <<SCRIPT
#!/bin/sh
exec nsenter --mount=/proc/$1/ns/mnt --wd="\$PWD" $(command -v podman) "\$@"
SCRIPT
  chmod 755 "$DIR/bin/podman"
  # The real one where it is.
  command -v apptainer >/dev/null || ln -sf "$(dirname "$(readlink -f "$0")")/apptainer.py" "$DIR/bin/apptainer"
  cat >"$DIR/env" <<CONF
CONTAINERS_CONF=$DIR/containers.conf
CONTAINERS_STORAGE_CONF=$DIR/storage.conf
DOCKER_HOST=unix://$DIR/docker.sock
CONF
}

# Waits until the daemon answers, at most half a minute.
docker_answers() {
  local tries=0
  until docker -H "unix://$DIR/docker.sock" version >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || { tail -n 5 "$DIR/dockerd.log" >&2; die "dockerd does not answer"; }
    sleep 0.1
  done
}

docker_start() {
  # The containerd of a killed daemon dies with it, and may take a moment: the next one would wait in vain.
  local old
  old=$(cat "$DIR/docker-run/containerd/containerd.pid" 2>/dev/null || true)
  [ -z "$old" ] || kill -9 "$old" 2>/dev/null || true
  while [ -n "$old" ] && kill -0 "$old" 2>/dev/null; do sleep 0.05; done
  rm -f "$DIR/docker.pid" "$DIR/docker-run/containerd/containerd.pid" "$DIR/docker-run/containerd/"*.sock
  setsid nsenter --mount="/proc/$(cat "$DIR/space.pid")/ns/mnt" dockerd --iptables=false --ip6tables=false \
    --bridge=none --storage-driver vfs --data-root "$DIR/docker" --exec-root "$DIR/docker-run" \
    -p "$DIR/docker.pid" -H "unix://$DIR/docker.sock" "$@" </dev/null >>"$DIR/dockerd.log" 2>&1 &
  docker_answers
}

docker_kill() { kill -9 "$(cat "$DIR/docker.pid")"; }

down() {
  local name space
  space=$(cat "$DIR/space.pid")
  for name in $(docker -H "unix://$DIR/docker.sock" ps -aq 2>/dev/null); do
    docker -H "unix://$DIR/docker.sock" rm -f "$name" >/dev/null 2>&1 || true
  done
  env CONTAINERS_CONF="$DIR/containers.conf" CONTAINERS_STORAGE_CONF="$DIR/storage.conf" \
    "$DIR/bin/podman" rm -f -a -t 0 >/dev/null 2>&1 || true
  [ ! -e "$DIR/docker.pid" ] || kill "$(cat "$DIR/docker.pid")" 2>/dev/null || true
  # containerd and its shims hold the folder; they end with the daemon.
  local tries=0
  while pgrep -f -- "$DIR/docker" >/dev/null && [ $tries -lt 100 ]; do
    tries=$((tries + 1))
    sleep 0.1
  done
  pkill -9 -f -- "$DIR/docker" || true
  kill "$space" 2>/dev/null || true
}

hold() {
  mkdir -p "$DIR"
  # Of a daemon before a reboot: its numbers belong to other processes now.
  rm -f "$DIR/space" "$DIR/docker.pid" "$DIR/docker-run/containerd/containerd.pid"
  # A process that keeps the name space; it ends when it is told to.
  setsid unshare --mount sh -c '
    umount -l /sys/fs/cgroup 2>/dev/null
    mount -t cgroup2 none /sys/fs/cgroup && mount --make-rshared / && : >"$0/space"
    exec sleep infinity' "$DIR" </dev/null >"$DIR/space.log" 2>&1 &
  local space=$! tries=0
  echo "$space" >"$DIR/space.pid"
  trap down EXIT
  until [ -e "$DIR/space" ]; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || { cat "$DIR/space.log" >&2; die "no name space"; }
    sleep 0.05
  done
  configure "$space"
  docker_start
  echo ready
  cat >/dev/null
}

VERB=${1:-}
DIR=${2:-}
case $VERB in
  hold) hold ;;
  image) image "$2" ;;
  install) install_missing ;;
  docker-kill) docker_kill ;;
  docker-start) docker_start "${@:3}" ;;
  *) sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
