#!/bin/sh
# Builds a local image with redis-server from the distribution's own packages, for machines that
# have a Docker engine but cannot reach an image registry.
set -eu

image=redlock-redis:local

usage() {
    cat <<USAGE
usage: tools/build-image.sh [--force]
Builds the image $image from this distribution's redis-server package (Debian, Ubuntu), in about
half a minute. Does nothing if the image exists, unless --force is given. Needs root and a running
Docker engine. Use it with: REDLOCK_IMAGE=$image docker compose up -d
Exit 0: the image is there. 64: usage. 69: it cannot be built here; the reason is said.
USAGE
}

force=
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage; exit 0 ;;
    --force) force=1 ;;
    *) usage >&2; exit 64 ;;
    esac
    shift
done
fail() {
    echo "build-image: $*" >&2
    exit 69
}

docker info >/dev/null 2>&1 || fail "no Docker engine answers; start it, or use: tools/primaries start --runtime process"
if [ -z "$force" ] && docker image inspect "$image" >/dev/null 2>&1; then
    echo "The image $image is already there."
    exit 0
fi
[ "$(id -u)" -eq 0 ] || fail "debootstrap needs root; run: sudo tools/build-image.sh"
command -v apt-get >/dev/null || fail "this needs Debian or Ubuntu; use an image you can pull: REDLOCK_IMAGE=... docker compose up -d"

"$(dirname "$0")/install-deps.sh" --for image
# shellcheck disable=SC1091
. /etc/os-release
suite=${VERSION_CODENAME:?}
# shellcheck disable=SC2016 # the dollars are apt-get's
mirror=$(apt-get indextargets --format '$(CODENAME) $(SITE)' 'Created-By: Packages' |
    awk -v suite="$suite" '$1 == suite { print $2; exit }')
[ -n "$mirror" ] || fail "apt knows no mirror for $suite; run: apt-get update"
components=main
[ "${ID-}" != ubuntu ] || components=main,universe

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
echo "Building $image from $suite's packages (about half a minute)..."
if ! debootstrap --variant=minbase --components="$components" --include=redis-server \
    "$suite" "$work/root" "$mirror" >"$work/log" 2>&1 </dev/null; then
    tail -n 20 "$work/log" >&2
    fail "debootstrap failed"
fi
rm -rf "$work"/root/var/cache/apt/* "$work"/root/var/lib/apt/lists/* "$work/root/usr/share/doc"
mkdir "$work/root/data"
chown "$(stat -c %u:%g "$work/root/var/lib/redis")" "$work/root/data"

# As the official image: data in /data, server as user redis, the command is the whole command line.
tar -C "$work/root" --numeric-owner -c . | docker import \
    --change 'USER redis' --change 'WORKDIR /data' --change 'VOLUME /data' \
    --change 'EXPOSE 6379' --change 'CMD ["redis-server", "--protected-mode", "no"]' - "$image" >/dev/null
echo "Built $image."
