// Finds and loads libpipefill_cuda.so, only when somebody asks for CUDA: a rank without it is 200 MB smaller, and the
// program starts on nodes without toolkit or driver.
#pragma once

#include <string>
#include <vector>

#include "device/cuda/backend.h"

namespace pipefill {

/// What there is of CUDA here. Never throws: a reason is for people, in `doctor` and in errors.
struct CudaState {
  bool built = false;                           ///< this program was built with CUDA
  std::string module;                           ///< the loaded file; empty: none
  std::string trouble;                          ///< why there is no module or no device; empty: there are devices
  int driver_version = 0, runtime_version = 0;  ///< 1000 * major + 10 * minor; 0: none
  std::vector<pipefill_cuda_device> devices;
};

CudaState look_for_cuda();

/// "13.0" of 13000
std::string cuda_version_text(int version);

}  // namespace pipefill
