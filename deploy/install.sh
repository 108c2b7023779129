#!/bin/sh
# Installs Neronet for one user, without root: install.sh [--from DIR-OR-URL] [--prefix DIR] [--remove]
# --from    where the release lies: a folder, or an address (default: the folder of this script)
# --prefix  where it goes (default: ~/.local): programs in lib/neronet, one link in bin
# --remove  takes the programs away; experiments and results stay
# The same line again upgrades. A version is whole before the link points to it.
set -eu
umask 022

fail() {
    printf 'install.sh: %s\n' "$1" >&2
    [ $# -lt 2 ] || printf 'hint: %s\n' "$2" >&2
    exit 1
}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
from=$here prefix=${HOME:+$HOME/.local} remove=
while [ $# -gt 0 ]; do
    case $1 in
        --from | --prefix)
            [ -n "${2:-}" ] || fail "$1 needs a value"
            if [ "$1" = --from ]; then from=$2; else prefix=$2; fi
            shift 2 ;;
        --remove) remove=yes; shift ;;
        -h | --help) sed -n '2,6s/^# //p' "$0"; exit 0 ;;
        *) fail "unknown word: $1" "install.sh --help tells what there is" ;;
    esac
done
[ -n "$prefix" ] || fail "HOME is not set" "say where with --prefix DIR"
case $prefix in /*) ;; *) prefix=$(pwd)/$prefix ;; esac
lib=$prefix/lib/neronet link=$prefix/bin/neroman

if [ -n "$remove" ]; then
    case $(readlink -- "$link" 2>/dev/null) in
        ../lib/neronet/*) rm -f -- "$link" ;;
    esac
    rm -rf -- "$lib"
    echo "removed $lib; experiments, results and settings stay where they are"
    exit 0
fi

[ "$(uname -s)" = Linux ] || fail "there are programs for Linux alone" "nodes are Linux, too"
case $(uname -m) in
    x86_64 | amd64) machine=x86_64 ;;
    aarch64 | arm64) machine=aarch64 ;;
    *) fail "there are no programs for $(uname -m)" "cargo xtask install builds them from source" ;;
esac

bring() { # bring NAME TO
    case $from in
        *://*)
            if command -v curl >/dev/null; then curl -fsSL -o "$2" "$from/$1"
            elif command -v wget >/dev/null; then wget -q -O "$2" "$from/$1"
            else fail "neither curl nor wget is here" "bring the files yourself; then --from DIR"
            fi || fail "$from/$1 cannot be had" "look at the network and at df -h '$lib', or bring the files: --from DIR" ;;
        *)
            [ -r "$from/$1" ] || fail "$from/$1 cannot be read" "--from DIR-OR-URL says where the release lies"
            cp -- "$from/$1" "$2" || fail "$from/$1 cannot be copied" "look for room: df -h '$lib'; nothing was changed" ;;
    esac
}
sum() { # of its input; nothing where no program computes it
    if command -v sha256sum >/dev/null; then sha256sum
    elif command -v shasum >/dev/null; then shasum -a 256
    elif command -v openssl >/dev/null; then openssl dgst -sha256 -r
    fi | cut -d' ' -f1
}

mkdir -p -- "$lib" "$prefix/bin" 2>/dev/null || fail "$prefix cannot be written" "--prefix DIR names another place"
for old in "$lib"/.new.*; do # what a killed attempt left
    if [ -d "$old" ] && ! kill -0 "${old##*.}" 2>/dev/null; then rm -rf -- "$old"; fi
done
new=$lib/.new.$$
trap 'rm -rf -- "$new"' EXIT
trap 'exit 1' HUP INT TERM
rm -rf -- "$new"
mkdir -- "$new" 2>/dev/null || fail "$lib cannot be written" "--prefix DIR names another place"
bring SHA256SUMS "$new/sums"
wanted=$(grep -E "^[0-9a-f]{64}  neronet-[^/ ]*-$machine-linux\.tar\.gz\$" "$new/sums" | head -n 1)
[ -n "$wanted" ] || fail "$from has no tarball for $machine"
hash=${wanted%% *} tarball=${wanted##* }
bring "$tarball" "$new/tarball"
found=$(sum <"$new/tarball")
[ -n "$found" ] || fail "nothing here computes SHA-256" "install coreutils, busybox or openssl"
[ "$found" = "$hash" ] || fail "$tarball is damaged or not whole: its SHA-256 is not that of SHA256SUMS" "bring it again; nothing was changed"
version=${tarball#neronet-} version=${version%-"$machine"-linux.tar.gz}
place=$lib/$version-$(printf %.8s "$hash")
mkdir -- "$new/root"
gzip -dc "$new/tarball" | tar -xf - -C "$new/root" || fail "$tarball cannot be unpacked below $lib" "look for room: df -h '$lib'; nothing was changed"
said=$("$new/root/neronet-$version/bin/neroman" --version 2>&1) ||
    fail "the programs do not run from $prefix: $said" "is it mounted noexec? then --prefix DIR; what was installed before still works"
# Its name has the content's sum: what is there already is the same, and whole.
[ -d "$place" ] || mv -- "$new/root/neronet-$version" "$place" 2>/dev/null || [ -d "$place" ] || fail "$place cannot be made"
[ ! -e "$link" ] || [ -L "$link" ] || fail "$link is there and is no link of ours" "move it away, then once more"
ln -s -- "../lib/neronet/${place##*/}/bin/neroman" "$new/link"
mv -f -- "$new/link" "$link" || fail "$link cannot be made" "what was installed before still works"
echo "$said is installed: $link"
case :${PATH:-}: in
    *:"$prefix/bin":*) ;;
    *) echo "it is not on your PATH yet; this line adds it: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
