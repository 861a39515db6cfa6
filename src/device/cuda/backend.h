/* What libpipefill_cuda.so offers the program that loads it: C types only, for no C++ object crosses a dlopen. The
 * program asks for the ABI number first and uses nothing else of a module with another one. */
#ifndef PIPEFILL_DEVICE_CUDA_BACKEND_H
#define PIPEFILL_DEVICE_CUDA_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#define PIPEFILL_CUDA_ABI 1

#ifdef __cplusplus
extern "C" {
#endif

/* One device as the driver describes it. */
typedef struct {
  char name[256];
  char uuid[48]; /* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", as nvidia-smi writes it */
  char pci[32];  /* "0000:65:00.0" */
  int32_t compute_major, compute_minor;
  int32_t multiprocessors;
  int64_t memory_bytes;
} pipefill_cuda_device;

typedef struct {
  int32_t abi; /* PIPEFILL_CUDA_ABI */
  /* Versions as 1000 * major + 10 * minor; 0: there is none. */
  int32_t (*driver_version)(void);
  int32_t (*runtime_version)(void);
  /* Fills at most `room` of the visible devices and returns how many there are; -1 when they cannot be asked for, with
   * the reason in `error` (always ended by a zero byte). No context is made on any device. */
  int32_t (*devices)(pipefill_cuda_device* out, int32_t room, char* error, size_t error_bytes);
} pipefill_cuda_backend;

typedef const pipefill_cuda_backend* pipefill_cuda_factory(void);
#define PIPEFILL_CUDA_FACTORY "pipefill_cuda_backend_of_this_module"

#ifdef __cplusplus
}
#endif
#endif
