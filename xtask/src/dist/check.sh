#!/bin/sh
# Plays a release inside of a root file system, in name spaces of its own and without a network:
# check.sh ROOT. The release lies in ROOT/dist. As an ordinary user: install, the first hour, a
# node over ssh, an upgrade below a live run, remove.
set -eu
root=$1
# Its root is a mount, as that of every system is.
mount --bind "$root" "$root"
ip link set lo up
mount -t proc proc "$root/proc"
in_root() { chroot "$root" "$@"; }
in_root id ada >/dev/null 2>&1 || in_root useradd -m -p '*' -s /bin/sh ada
in_root sh -c "rm -rf /home/ada; cp -r /etc/skel /home/ada; chown -R ada: /home/ada; mkdir -p /run/sshd"
in_root /usr/sbin/sshd -p 2222 -o PidFile=none -o UsePAM=no
cat >"$root/dist/story.sh" <<'STORY'
set -eu
told() { printf '%s  %s\n' "$(cut -d' ' -f1 /proc/uptime)" "$*"; }
cd
told install
sh /dist/install.sh --from /dist >/dev/null
told installed
PATH=$HOME/.local/bin:$PATH
neroman --version
mkdir -p first
cat >first/neronet.yaml <<'YAML'
collection: curve
+fit:
  command: sh -c 'for n in 1 2 3 4 5; do echo loss $((n * {rate})); sleep 0.05; done; sleep {rate}'
  parameters: {rate: [0, 1, 60]}
  resources: {cpus: 0.1}
  rules:
    - abort: loss > 200
+sleeper: {command: sleep 5, resources: {cpus: 0.1}}
YAML
neroman add first
neroman start 1-3
neroman wait 1-3 || true
neroman status
neroman results all --best loss
neroman results all -o first/results.xlsx
neroman plot 1-3 -o first/curve.png
test "$(head -c 4 first/curve.png | tail -c 3)" = PNG
test "$(neroman status --json 1-3 | grep -o '"state":"[a-z]*"' | sort | uniq -c | tr -d ' \n')" \
    = '1"state":"aborted"2"state":"finished"'
told 'a node over ssh'
mkdir -p -m 700 .ssh
[ -f .ssh/id_ed25519 ] || ssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519
cp .ssh/id_ed25519.pub .ssh/authorized_keys
printf 'Host other\nHostName 127.0.0.1\nPort 2222\nStrictHostKeyChecking accept-new\n' >.ssh/config
neroman node add other other --root '~/elsewhere' --warden none
neroman restart 1 --node other
neroman wait 1
told 'an upgrade below a live run'
neroman start 4
sh /dist/install.sh --from /dist >/dev/null
neroman wait 4
neroman daemon stop
told remove
sh /dist/install.sh --remove
test ! -e .local/bin/neroman
test -f first/results.xlsx
STORY
in_root env -i /bin/su - ada -c 'sh /dist/story.sh'
