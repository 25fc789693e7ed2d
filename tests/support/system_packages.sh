#!/usr/bin/env bash
# Installs the Debian packages that tests need (and a compiler and make, for `make dev`), if apt-get is there and we are root.
# Otherwise it says what is missing and succeeds: tests that need a missing package are skipped by name (tests/support/packages.py).
set -euo pipefail

wanted=()
is_wanted() { [[ ",${SCALENE_TEST_WITHOUT:-}," != *",$1,"* ]]; }
is_wanted jemalloc && wanted+=(libjemalloc2)
is_wanted tcmalloc && wanted+=(libtcmalloc-minimal4)
is_wanted musl && wanted+=(musl-tools)
is_wanted libc32 && wanted+=(libc6-i386)
is_wanted btrfs && wanted+=(btrfs-progs)
is_wanted valgrind && wanted+=(valgrind)
# A browser that is not Debian's serves as well.
is_wanted chromium && ! command -v chromium-browser google-chrome >/dev/null && wanted+=(chromium)
command -v make >/dev/null || wanted+=(make)
command -v cc >/dev/null || wanted+=(gcc libc6-dev)

missing=()
for package in ${wanted[@]+"${wanted[@]}"}; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

if ! command -v apt-get >/dev/null || [[ $(id -u) -ne 0 ]]; then
  echo "cannot install ${missing[*]} (apt-get is missing, or we are not root); tests that need them are skipped" >&2
  exit 0
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "installing ${missing[*]}"
{ apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"; } \
  >"$log" 2>&1 || { tail -n 5 "$log" >&2; echo "apt-get could not install ${missing[*]}; tests that need them are skipped" >&2; }
