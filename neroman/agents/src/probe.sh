# Says what this machine is, one NAME=VALUE each, and whether the folder $root
# can be used. The lines before this one set root (empty: it cannot be told,
# and a fault was said) and builds,
# and dry where nothing may be made. Plain sh: dash, busybox, bash.
os=$(uname -s 2>/dev/null)
say os "$os"
say arch "$(uname -m 2>/dev/null)"
say kernel "$(uname -r 2>/dev/null)"
say host "$(uname -n 2>/dev/null)"
say user "$(id -un 2>/dev/null)"
say shell "${SHELL-}"
say clock "$(date +%s.%3N 2>/dev/null)"
if [ "$os" = Linux ]; then
    say boot "$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)"
    libc=$(getconf GNU_LIBC_VERSION 2>/dev/null)
    if [ -z "$libc" ] && command -v ldd >/dev/null 2>&1; then
        # musl's says it on standard error, and fails.
        libc=$(ldd --version 2>&1 | sed -n 1p)
    fi
    case $libc in
        *[Gg][Ll][Ii][Bb][Cc]* | *GNU* | *musl*) ;;
        *) for loader in /lib/ld-musl-*; do [ -e "$loader" ] && libc=musl; done ;;
    esac
    say libc "$libc"
    gzip=$(command -v gzip 2>/dev/null) && say gzip "$gzip"

    # Makes root usable, or says the first thing that is in the way.
    usable() {
        if [ -h "$root" ]; then
            fault link "$(ls -ld "$root" 2>/dev/null | sed 's/.* -> //')"
        elif [ -e "$root" ] && [ ! -d "$root" ]; then
            fault file ''
        elif [ -d "$root" ] && [ ! -O "$root" ]; then
            fault owner "$(ls -ld "$root" 2>/dev/null | awk '{ print $3 }')"
        elif [ -n "$(find "$root" -prune -perm -0002 ! -perm -1000 2>/dev/null)" ]; then
            fault open ''
        elif [ -n "$dry" ]; then
            nearest
            [ -w "$near" ] || fault make "nothing may be made in $near"
        elif ! why=$(mkdir -p "$root/bin" 2>&1); then
            fault make "$why"
        elif [ -h "$root/bin" ] || [ ! -O "$root/bin" ]; then
            fault bin ''
        elif ! why=$(chmod 700 "$root/bin" 2>&1); then
            fault write "$why"
        else
            try=$root/bin/.try-$$
            if ! why=$({ printf '#!/bin/sh\nexit 0\n' >"$try"; } 2>&1) || ! why=$(chmod 700 "$try" 2>&1); then
                # Some shells call it an input/output error.
                [ "$(df -Pk "$root" 2>/dev/null | awk 'END { print ($(NF-2) < 16) }')" != 1 ] || why='No space left on device'
                fault write "$why"
            elif ! why=$("$try" 2>&1); then
                fault exec "$why"
            fi
            rm -f "$try"
        fi
    }
    # The nearest folder above that exists: what space and kind are asked of.
    nearest() {
        near=$root
        while [ ! -d "$near" ] && [ "$near" != / ]; do near=$(dirname "$near"); done
    }
    if [ -n "$root" ]; then
        say root "$root"
        usable
        nearest
        say free_kb "$(df -Pk "$near" 2>/dev/null | awk 'END { print $(NF-2) }')"
        kind=$(stat -f -c %T "$near" 2>/dev/null)
        case $kind in
            '' | UNKNOWN*) kind=$(df -PT "$near" 2>/dev/null | awk 'END { print $2 }') ;;
        esac
        say fs "$kind"
        for other in $(ls -1t "$root/bin" 2>/dev/null | head -n 8); do say other "$other"; done
        for build in $builds; do
            [ -d "$root/bin/$build" ] || continue
            [ "$("$root/bin/$build/neromum" verify "$root/bin/$build" 2>/dev/null)" = "$build" ] && say build "$build"
        done
    fi
fi
say end yes
exit 0
