// A virtual file driver for HDF5 that never lets the library see a failed write. HDF5 cannot cope with one: on a full
// disk H5Dclose fails late, the file stays open, and the library's shutdown crashes. This driver remembers the first
// failure, tells HDF5 that all is well, and the owner of the file asks the WriteReport after H5Fclose.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <functional>
#include <string>

#include "storage/hash.hpp"

namespace pipefill {

enum class SyncOnClose { fsync, none };
enum class HashOnClose { xxh3, none };

/// What the system calls on one file said. Filled by the driver; complete after H5Fclose.
struct WriteReport {
  int error = 0;          ///< errno of the first call that failed; 0: none did
  const char* call = "";  ///< that call: open, pwrite, pread, ftruncate, fsync, close
  FileDigest digest;      ///< size, and with HashOnClose::xxh3 the hash, of the finished file
  /// Tests only: asked before every call ("pwrite", ...), a non-zero errno makes that call fail.
  std::function<int(const char* call)> inject;
};

/// Makes files created with this access list go through the driver. `report` must outlive the file. Only new files:
/// H5Fcreate with H5F_ACC_EXCL. Call on the HDF5 thread.
void use_latching_driver(hid_t access_list, WriteReport& report, SyncOnClose sync, HashOnClose hash);

}  // namespace pipefill
