# shellcheck shell=bash
# Sourced by ./binade and .ci/run: installs Debian packages that are missing.

# ensure_packages PACKAGE...: returns at once when all are there; exits 2 where they cannot be had.
ensure_packages() {
  # Elsewhere than on Debian the tools may come from any place: the build finds out.
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    missing_tools_or_return "$@"
    return
  fi
  local package missing=()
  for package in "$@"; do
    if [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) != installed ]]; then
      missing+=("$package")
    fi
  done
  ((${#missing[@]})) || return 0

  local as_root=()
  if [[ $(id -u) != 0 ]]; then
    command -v sudo >/dev/null || cannot_install "you are not root and there is no sudo" "${missing[@]}"
    as_root=(sudo)
  fi
  echo "binade: installing ${missing[*]}" >&2
  local log
  log=$(mktemp)
  if ! { "${as_root[@]}" apt-get update &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install --yes --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    rm -f "$log"
    cannot_install "apt-get failed (its output is above)" "${missing[@]}"
  fi
  rm -f "$log"
}

missing_tools_or_return() {
  local tool
  for tool in cmake ninja c++; do
    command -v "$tool" >/dev/null || cannot_install "this is not Debian and '$tool' is not on the PATH" "$@"
  done
}

# cannot_install REASON PACKAGE...
cannot_install() {
  echo "binade: cannot install what the build needs: $1. Install these (Debian names), then try again:" >&2
  echo "  ${*:2}" >&2
  exit 2
}
