# How a folder becomes a target, the same way everywhere.
#
#   pipefill_folder(name LINKS a b c)      the *.cpp of this folder as the static library pipefill_<name>
#   pipefill_tests(folder LINKS a b c)     the test_*.cpp of this folder as one gtest binary, label unit
#   pipefill_mpi_tests(folder RANKS 2 4 LINKS a b c)   its mpi_test_*.cpp as one gtest binary, once per rank count, label mpi
#   pipefill_bench(name LINKS a b c)       bench_<name>.cpp as a program that is built but not run by default

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()
# No debug information: it would double the time of a build. The dev preset has it. kernels/ asks for -O3 itself.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -DNDEBUG")

add_library(pipefill_options INTERFACE)
target_include_directories(pipefill_options INTERFACE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}"
                                                     "${PROJECT_SOURCE_DIR}/include")
# -fno-math-errno and -fno-trapping-math change no result; -ffast-math would, and is never used.
target_compile_options(pipefill_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -fno-math-errno -fno-trapping-math)
target_link_libraries(pipefill_options INTERFACE Threads::Threads)
# Another compiler's new warnings, also about headers of libraries that it inlines, must keep nobody from building.
string(FIND "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}" "GNU 12." PIPEFILL_AT_GCC_12)
if((PIPEFILL_WERROR STREQUAL "AUTO" AND PIPEFILL_AT_GCC_12 EQUAL 0) OR PIPEFILL_WERROR STREQUAL "ON")
  target_compile_options(pipefill_options INTERFACE -Werror)
endif()
if(PIPEFILL_NATIVE)
  target_compile_options(pipefill_options INTERFACE -march=native)
endif()
if(PIPEFILL_CONTRACTS)
  target_compile_definitions(pipefill_options INTERFACE PIPEFILL_CONTRACTS=1 _GLIBCXX_ASSERTIONS=1)
endif()
if(PIPEFILL_SANITIZE)
  target_compile_options(pipefill_options INTERFACE -fsanitize=${PIPEFILL_SANITIZE} -fno-sanitize-recover=all
                                                    -fno-omit-frame-pointer)
  target_link_options(pipefill_options INTERFACE -fsanitize=${PIPEFILL_SANITIZE})
endif()

add_library(pipefill_test_options INTERFACE)
target_link_libraries(pipefill_test_options INTERFACE pipefill_options)
if(PIPEFILL_SANITIZE)
  # Optimising gtest's macros with a check in each took most of the build; what is looked at is the project's code. The
  # tests are sanitized all the same: inline functions of the project's headers may be linked from their objects.
  target_compile_options(pipefill_test_options INTERFACE -O0 -g1)
  set(PIPEFILL_UNIT_TEST_SECONDS 600)  # most take several times as long, a search over packings ten times
else()
  set(PIPEFILL_UNIT_TEST_SECONDS 120)
endif()

function(pipefill_folder name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LINKS")
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp" "${CMAKE_CURRENT_SOURCE_DIR}/*/*.cpp")
  add_library(pipefill_${name} STATIC ${sources})
  target_link_libraries(pipefill_${name} PRIVATE pipefill_options ${arg_LINKS})
endfunction()

function(pipefill_tests folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LINKS;SOURCES")
  if(NOT arg_SOURCES)
    file(GLOB arg_SOURCES CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/test_*.cpp")
  endif()
  add_executable(test_${folder} ${arg_SOURCES})
  if(PIPEFILL_SANITIZE)
    target_sources(test_${folder} PRIVATE "${PROJECT_SOURCE_DIR}/tests/support/sanitizer_defaults.cpp")
  endif()
  target_link_libraries(test_${folder} PRIVATE pipefill_test_options pipefill_test_main ${arg_LINKS} GTest::gtest)
  target_compile_definitions(test_${folder} PRIVATE PIPEFILL_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  gtest_discover_tests(test_${folder} DISCOVERY_MODE PRE_TEST TEST_PREFIX ${folder}.
                       PROPERTIES LABELS unit TIMEOUT ${PIPEFILL_UNIT_TEST_SECONDS})
endfunction()

# How mpirun is called by tests: also as root, also with more ranks than cores, never bound, never for ever. The launcher
# of Open MPI 5 reads PRTE_* instead, as in jobscripts/mpirun_settings.sh.
set(PIPEFILL_MPIRUN ${MPIEXEC_EXECUTABLE} --timeout 60)
set(PIPEFILL_MPI_ENVIRONMENT
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
    OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
    PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
    PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none
    OMPI_MCA_btl_tcp_if_include=lo  # all ranks are here; Open MPI 5 may find no way between two of them otherwise
    ASAN_OPTIONS=detect_leaks=0)  # Open MPI's own start-up leaks would drown ours

function(pipefill_mpi_tests folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "RANKS;LINKS;SOURCES")
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/mpi_test_*.cpp")
  add_executable(test_${folder}_mpi ${sources} ${arg_SOURCES})
  target_link_libraries(test_${folder}_mpi PRIVATE pipefill_test_options pipefill_mpi_test_main ${arg_LINKS} GTest::gtest)
  target_compile_definitions(test_${folder}_mpi PRIVATE PIPEFILL_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  foreach(ranks IN LISTS arg_RANKS)
    add_test(NAME ${folder}.mpi${ranks} COMMAND ${PIPEFILL_MPIRUN} -n ${ranks} $<TARGET_FILE:test_${folder}_mpi>)
    set_tests_properties(${folder}.mpi${ranks} PROPERTIES LABELS mpi TIMEOUT 90 PROCESSORS ${ranks}
                                                          ENVIRONMENT "${PIPEFILL_MPI_ENVIRONMENT}")
  endforeach()
endfunction()

function(pipefill_bench name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LINKS")
  if(PIPEFILL_SANITIZE)
    return()  # nothing to measure
  endif()
  add_executable(bench_${name} "${CMAKE_CURRENT_SOURCE_DIR}/bench_${name}.cpp")
  target_link_libraries(bench_${name} PRIVATE pipefill_options ${arg_LINKS})
endfunction()
