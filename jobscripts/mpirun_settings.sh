# shellcheck shell=sh
# Sourced by whatever starts mpirun on one machine: more ranks than cores are allowed and then yield to each other,
# pipefill binds its ranks itself (device.bind), and root may start them, as in a container. Open MPI 4 reads OMPI_*,
# Open MPI 5 (Debian 13) reads PRTE_* for what its launcher does.
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
export OMPI_MCA_mpi_yield_when_idle=1
if [ "$(id -u)" = 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
