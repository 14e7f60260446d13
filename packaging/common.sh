# shellcheck shell=bash disable=SC2034
# What all scripts here share; read with `.`, from the root of the checkout.
set -euo pipefail
umask 022

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
out=${OUT:-target/packages}
tree=$out/tree

# The time in all packages: that of the commit, so that building again gives equal bytes.
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null) || SOURCE_DATE_EPOCH=315532800
fi
export SOURCE_DATE_EPOCH

die() { echo "${0##*/}: $*" >&2; exit 1; }

# need PROGRAM PACKAGE...: stops with the line that installs what is missing.
need() {
  local missing=()
  while [ $# -gt 1 ]; do
    command -v "$1" >/dev/null || missing+=("$2")
    shift 2
  done
  [ ${#missing[@]} = 0 ] || die "install first: sudo apt-get install ${missing[*]}"
}

# One time and one set of permissions for all that is packed.
settle() {
  chmod -R u=rwX,go=rX "$@"
  find "$@" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
}
