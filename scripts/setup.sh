# Sourced by the scripts here: finds the repository, installs missing packages, builds.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# What the program needs to be built.
build_packages="g++ cmake ninja-build pkg-config python3 libfuse3-dev fuse3 libfmt-dev libcli11-dev libtomlplusplus-dev
nlohmann-json3-dev libdrm-dev libhsa-runtime-dev libhsakmt-dev"
# The unmodified ROCm programs that run on it.
rocm_packages="rocminfo rocm-smi kmod libdrm-amdgpu1 libdrm-common"
# What only tests and benchmarks need.
test_packages="libgtest-dev libgmock-dev libbenchmark-dev python3-pytest libdrm-tests"

say() { printf '\n== %s\n' "$*"; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 2
}

# install_missing PACKAGE...: by apt-get, as root or through sudo; nothing when all are there.
install_missing() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  say "Installing: ${missing[*]}"
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "these packages are missing and need root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" \
    >/dev/null || die "apt-get could not install ${missing[*]}"
}

# build DIRECTORY [CMAKE-OPTION...]: configures and builds everything.
build() {
  local directory=$1
  shift
  say "Building in ${directory#"$root"/}"
  cmake -S "$root" -B "$directory" -G Ninja -DCMAKE_BUILD_TYPE=Release "$@" >"$directory.configure.log" 2>&1 ||
    { cat "$directory.configure.log"; die "cmake failed"; }
  ninja -C "$directory" || die "the build failed"
}
