#!/usr/bin/env bash
# From a fresh machine to a trained model, or to a tested program.
#
#   ./bootstrap.sh run [--no-install]    install what is missing, build, train inputs/tiny.yaml over two ranks
#   ./bootstrap.sh test [--no-install]   install what is missing, build, run the test suite
#
# For Debian 12, Debian 13 and Ubuntu 24.04, whose packages have the same names. Installing uses apt-get, with sudo when
# not root; when nothing is missing it is not called, and no network is needed. --no-install names what is missing and
# goes on without it.
set -euo pipefail
cd "$(dirname "$0")"

# One package an entry; a|b is satisfied by either, and a is what gets installed.
build_packages=(
  g++ cmake ninja-build 'pkg-config|pkgconf' python3
  openmpi-bin libopenmpi-dev 'libhdf5-dev|libhdf5-openmpi-dev'
  libyaml-cpp-dev libcli11-dev libfmt-dev libspdlog-dev nlohmann-json3-dev
  libdnnl-dev libopenblas-dev libxxhash-dev libhwloc-dev libgtest-dev
)
test_packages=(
  hdf5-tools python3-h5py python3-pandas  # the files we write, read by other programs
  slurmctld slurmd slurm-client munge     # a real one-node Slurm for the job script
)

usage() { sed -n '2,9s/^# \{0,1\}//p' "$0"; }

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# Prints those of the entries that are missing.
missing_of() {
  local entry name names found
  for entry in "$@"; do
    found=no
    IFS='|' read -ra names <<<"$entry"
    for name in "${names[@]}"; do
      if is_installed "$name"; then found=yes; fi
    done
    if [ "$found" = no ]; then echo "${names[0]}"; fi
  done
}

# as_root COMMAND...: the command with root's rights.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "bootstrap.sh: neither root nor sudo; ask your administrator to run: $*" >&2
    return 69
  fi
}

install_missing() {
  local missing
  mapfile -t missing < <(missing_of "$@")
  if [ "${#missing[@]}" = 0 ]; then return; fi
  if [ "$install" = no ]; then
    echo "bootstrap.sh: going on without these packages, which are missing or come from elsewhere: ${missing[*]}" >&2
    return
  fi
  if ! command -v apt-get >/dev/null; then
    echo "bootstrap.sh: no apt-get here. Install what stands for these packages of Debian, then use --no-install:" \
      "${missing[*]}" >&2
    exit 69
  fi
  echo "bootstrap.sh: installing ${missing[*]}"
  as_root apt-get -q -o DPkg::Lock::Timeout=300 update
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get -q -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${missing[@]}"
}

build() {
  if command -v ccache >/dev/null; then  # shared between clones: paths below this folder count as relative
    export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-ccache} CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
  fi
  cmake --preset release
  cmake --build --preset release "$@"
}

main() {
  local command=''
  install=yes
  while [ $# -gt 0 ]; do
    case $1 in
      run | test) command=$1 ;;
      --no-install) install=no ;;
      -h | --help) usage && exit ;;
      *) echo "bootstrap.sh: unknown argument '$1'" >&2 && usage >&2 && exit 64 ;;
    esac
    shift
  done
  . jobscripts/mpirun_settings.sh
  case $command in
    run)
      install_missing "${build_packages[@]}"
      build --target pipefill
      mpirun -n 2 build/release/app/pipefill train  # the embedded inputs/tiny.yaml
      ;;
    test)
      install_missing "${build_packages[@]}" "${test_packages[@]}"
      build
      ctest --preset release
      ;;
    *) usage >&2 && exit 64 ;;
  esac
}

main "$@"
