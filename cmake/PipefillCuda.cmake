# PIPEFILL_CUDA: AUTO builds the CUDA module where there is a toolkit, ON demands one, OFF does without. The module is
# loaded when a run asks for it, so that the program itself starts on nodes without toolkit or driver
# (docs/decisions/0024-cuda-is-a-module.md).
set(PIPEFILL_CUDA AUTO CACHE STRING "Build the CUDA module: AUTO, ON or OFF")
set_property(CACHE PIPEFILL_CUDA PROPERTY STRINGS AUTO ON OFF)
set(PIPEFILL_HAS_CUDA OFF)
include(GNUInstallDirs)
# Beside the program in the build tree as in an install: <bin>/../<this>.
set(PIPEFILL_MODULE_DIR "${CMAKE_INSTALL_LIBDIR}/pipefill")
if(NOT PIPEFILL_CUDA)
  return()
endif()

if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 90-virtual)  # the last one is PTX, for newer devices
endif()
if(CMAKE_VERSION VERSION_LESS 3.25.2)  # knows C++20 for nvcc only from then on
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)  # where it is without being on the PATH
  set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
endif()
include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  enable_language(CUDA)
  find_package(CUDAToolkit)
endif()
if(CMAKE_CUDA_COMPILER AND CUDAToolkit_FOUND)
  set(PIPEFILL_HAS_CUDA ON)
  message(STATUS "CUDA module: toolkit ${CUDAToolkit_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
elseif(PIPEFILL_CUDA STREQUAL "AUTO")
  message(STATUS "CUDA module: no toolkit found, built without")
else()
  message(FATAL_ERROR "PIPEFILL_CUDA=${PIPEFILL_CUDA}, but there is no CUDA toolkit: install one, name its compiler with "
                      "-DCMAKE_CUDA_COMPILER=/path/to/nvcc, or set PIPEFILL_CUDA=OFF")
endif()
