# Every package the project uses, found once. All come from the distribution's package manager (bootstrap.sh).
set(MPI_CXX_SKIP_MPICXX TRUE)
find_package(MPI 3.1 REQUIRED COMPONENTS C)
# Only the C interface is used, from C++: without this <mpi.h> pulls in the removed C++ bindings and their library.
target_compile_definitions(MPI::MPI_C INTERFACE OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Threads REQUIRED)
find_package(HDF5 1.10 REQUIRED COMPONENTS C)
find_package(yaml-cpp REQUIRED)
if(NOT TARGET yaml-cpp::yaml-cpp)  # the namespaced name exists only from 0.8 on
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)
endif()
find_package(CLI11 REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)

# Debian's dnnl-config.cmake asks for OpenCL's headers, which the CPU build of oneDNN does not use: found by hand.
find_path(DNNL_INCLUDE_DIR dnnl.h REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(pipefill_dnnl INTERFACE)
target_include_directories(pipefill_dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(pipefill_dnnl INTERFACE ${DNNL_LIBRARY})

set(BLA_VENDOR OpenBLAS)
find_package(BLAS REQUIRED)

find_package(PkgConfig REQUIRED)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc)

# A serial and a parallel HDF5 serve alike: only the serial API is used. The parallel one's headers include <mpi.h>.
add_library(pipefill_hdf5 INTERFACE)
target_include_directories(pipefill_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
target_link_libraries(pipefill_hdf5 INTERFACE ${HDF5_C_LIBRARIES})
if(HDF5_IS_PARALLEL)
  target_link_libraries(pipefill_hdf5 INTERFACE MPI::MPI_C)
endif()

if(PIPEFILL_TESTS)
  find_package(GTest REQUIRED)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
endif()
