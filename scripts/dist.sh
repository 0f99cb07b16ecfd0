#!/bin/bash
# dist.sh - dist/anybox_<version>_<arch>.deb and dist/anybox-<version>-linux-<arch>.tar.gz,
# both tried out from a temporary folder before they are called done.
set -eu
cd "$(dirname "$0")/.."
version=$(sed -n "s/^ *version : '\(.*\)',$/\1/p" meson.build | head -n 1)
arch=$(dpkg --print-architecture)
name=anybox-$version-linux-$(uname -m)
deb=dist/anybox_${version}_$arch.deb
tarball=dist/$name.tar.gz
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
chmod 755 "$tmp"

stage() { # stage DESTDIR PREFIX
    make --no-print-directory -s install DESTDIR="$1" PREFIX="$2"
    strip "$1$2/bin/anybox" "$1$2/libexec/anybox/boxinit"
}

# Which packages the program's libraries come from.
depends() {
    local lib path
    for lib in $(objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }'); do
        path=$(ldd "$1" | awk -v lib="$lib" '$1 == lib { print $3 }')
        # /lib is a link to /usr/lib; a package may have registered either.
        dpkg-query -S "$path" 2>/dev/null || dpkg-query -S "/usr$path" 2>/dev/null ||
            dpkg-query -S "${path#/usr}"
    done | cut -d: -f1 | sort -u | while read -r package; do
        # At least the version that it was built with, without Debian's revision.
        version=$(dpkg-query -W -f='${Version}' "$package:$arch")
        echo "$package (>= ${version%%[-+]*})"
    done | paste -sd, | sed 's/,/, /g'
}

works_from() { # works_from PREFIX
    local home
    home=$(mktemp -d -p "$tmp")
    ANYBOX_HOME=$home "$1/bin/anybox" --version >/dev/null
    [ "$(ANYBOX_HOME=$home "$1/bin/anybox" run echo works)" = works ] && return 0
    echo "dist.sh: anybox run does not work from $1" >&2
    return 1
}

mkdir -p dist
stage "$tmp/deb" /usr
mkdir "$tmp/deb/DEBIAN"
cat >"$tmp/deb/DEBIAN/control" <<EOF
Package: anybox
Version: $version
Section: devel
Priority: optional
Architecture: $arch
Maintainer: The anybox developers <anybox@localhost>
Installed-Size: $(du -sk "$tmp/deb/usr" | cut -f1)
Depends: $(depends build/anybox), bash
Recommends: python3, uidmap, slirp4netns, libmicrohttpd12, libssh-4, libcurl4, libnotify-bin
Suggests: debootstrap
Description: places for AI agents to run code in
 One small native program that an MCP client (Claude Code, Codex, Cursor, VS Code)
 starts to give its agent sandboxes: create boxes, run commands in them, move
 files. Its local boxes are Linux-namespace sandboxes and need no daemon, no image
 and no root.
EOF
# Only AppArmor 4 knows the profile, and only there it is needed: an older one would complain.
install -d "$tmp/deb/usr/share/anybox"
sed 's|@BOXINIT@|/usr/libexec/anybox/boxinit|' packaging/anybox-boxinit.apparmor \
    >"$tmp/deb/usr/share/anybox/anybox-boxinit.apparmor"
cat >"$tmp/deb/DEBIAN/postinst" <<'EOF'
#!/bin/sh
set -e
profile=/etc/apparmor.d/anybox-boxinit
if [ "$1" = configure ] && [ -e /etc/apparmor.d/abi/4.0 ]; then
    cp /usr/share/anybox/anybox-boxinit.apparmor $profile
    if [ -d /sys/kernel/security/apparmor ]; then
        apparmor_parser -r $profile || echo "$profile is not loaded; see anybox doctor" >&2
    fi
fi
EOF
cat >"$tmp/deb/DEBIAN/prerm" <<'EOF'
#!/bin/sh
set -e
profile=/etc/apparmor.d/anybox-boxinit
if [ "$1" = remove ] && [ -e $profile ]; then
    apparmor_parser -R $profile 2>/dev/null || :
    rm -f $profile
fi
EOF
chmod 755 "$tmp/deb/DEBIAN/postinst" "$tmp/deb/DEBIAN/prerm"
dpkg-deb --root-owner-group --build "$tmp/deb" "$deb" >/dev/null
mkdir "$tmp/tried-deb"
dpkg-deb -x "$deb" "$tmp/tried-deb"
works_from "$tmp/tried-deb/usr"

stage "$tmp/tar" "/$name"
tar -C "$tmp/tar" --owner=0 --group=0 -czf "$tarball" "$name"
mkdir "$tmp/tried-tar"
tar -C "$tmp/tried-tar" -xzf "$tarball"
works_from "$tmp/tried-tar/$name"

ls -l "$deb" "$tarball"
