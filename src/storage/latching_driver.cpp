// The driver's callbacks: a plain POSIX file whose failures are remembered instead of returned; see
// latching_driver.hpp. The class structure is filled by member name, so that it compiles against HDF5 1.10 to 1.14,
// which differ in order.
#include "storage/latching_driver.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "storage/h5_handle.hpp"
#if __has_include(<H5FDdevelop.h>)
#include <H5FDdevelop.h>
#endif

namespace pipefill {
namespace {

/// Travels in the access list; HDF5 copies it bytewise.
struct DriverInfo {
  WriteReport* report;
  SyncOnClose sync;
  HashOnClose hash;
};

/// HDF5 hands its first member around; the rest is ours.
struct LatchedFile {
  H5FD_t base;
  DriverInfo info;
  int descriptor;
  haddr_t end_of_allocation;
  haddr_t end_of_file;
  haddr_t written_back;  ///< everything below is on its way to the disk
};

constexpr haddr_t kWriteBackBlock = 8u << 20;

LatchedFile* self(H5FD_t* file) { return reinterpret_cast<LatchedFile*>(file); }
const LatchedFile* self(const H5FD_t* file) { return reinterpret_cast<const LatchedFile*>(file); }

void latch(LatchedFile* file, const char* call, int error_number) {
  if (file->info.report->error != 0) return;
  file->info.report->error = error_number;
  file->info.report->call = call;
}

bool injected(const DriverInfo& info, const char* call) {
  if (!info.report->inject) return false;
  errno = info.report->inject(call);
  return errno != 0;
}

H5FD_t* open_file(const char* name, unsigned flags, hid_t access_list, haddr_t) {
  const auto* info = static_cast<const DriverInfo*>(H5Pget_driver_info(access_list));
  if (info == nullptr || (flags & H5F_ACC_EXCL) == 0) return nullptr;
  auto* file = new (std::nothrow) LatchedFile{};
  if (file == nullptr) return nullptr;
  file->info = *info;
  file->descriptor = -1;
  if (!injected(*info, "open")) {
    file->descriptor = ::open(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  }
  if (file->descriptor < 0) {  // nothing is open yet: this failure HDF5 may see
    latch(file, "open", errno);
    delete file;
    return nullptr;
  }
  return &file->base;
}

herr_t close_file(H5FD_t* base) {
  LatchedFile* file = self(base);
  WriteReport& report = *file->info.report;
  report.digest.bytes = static_cast<std::int64_t>(file->end_of_file);
  if (report.error == 0 && file->info.sync == SyncOnClose::fsync) {
    ::sync_file_range(file->descriptor, 0, 0, SYNC_FILE_RANGE_WRITE);  // the disk works while we hash
  }
  if (report.error == 0 && file->info.hash == HashOnClose::xxh3) {
    try {
      report.digest = digest_range(file->descriptor, 0, report.digest.bytes, "");
    } catch (const std::bad_alloc&) {
      latch(file, "pread", ENOMEM);
    } catch (...) {
      latch(file, "pread", EIO);
    }
  }
  // After a failed write the file is lost anyway; a second fsync after a failed one would lie.
  if (report.error == 0 && file->info.sync == SyncOnClose::fsync &&
      (injected(file->info, "fsync") || ::fsync(file->descriptor) != 0)) {
    latch(file, "fsync", errno);
  }
  const bool close_injected = injected(file->info, "close");
  if (close_injected) latch(file, "close", errno);
  if (::close(file->descriptor) != 0) latch(file, "close", errno);
  delete file;
  return 0;
}

herr_t query(const H5FD_t*, unsigned long* features) {
  *features = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
              H5FD_FEAT_AGGREGATE_SMALLDATA;
  return 0;
}

haddr_t get_eoa(const H5FD_t* base, H5FD_mem_t) { return self(base)->end_of_allocation; }
haddr_t get_eof(const H5FD_t* base, H5FD_mem_t) { return self(base)->end_of_file; }
herr_t set_eoa(H5FD_t* base, H5FD_mem_t, haddr_t address) {
  self(base)->end_of_allocation = address;
  return 0;
}

herr_t read_file_at(H5FD_t* base, H5FD_mem_t, hid_t, haddr_t address, size_t size, void* buffer) {
  LatchedFile* file = self(base);
  auto* to = static_cast<char*>(buffer);
  while (size > 0) {
    const ssize_t got = ::pread(file->descriptor, to, std::min<size_t>(size, 1u << 30), static_cast<off_t>(address));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) latch(file, "pread", errno);
    if (got <= 0) break;
    to += got;
    address += static_cast<haddr_t>(got);
    size -= static_cast<size_t>(got);
  }
  std::memset(to, 0, size);  // beyond the end, as HDF5's own driver does
  return 0;
}

herr_t write_file_at(H5FD_t* base, H5FD_mem_t, hid_t, haddr_t address, size_t size, const void* buffer) {
  LatchedFile* file = self(base);
  file->end_of_file = std::max(file->end_of_file, address + size);
  const auto* from = static_cast<const char*>(buffer);
  while (size > 0 && file->info.report->error == 0) {
    if (injected(file->info, "pwrite")) {
      latch(file, "pwrite", errno);
      break;
    }
    const ssize_t done =
        ::pwrite(file->descriptor, from, std::min<size_t>(size, kWriteBackBlock), static_cast<off_t>(address));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) {
      latch(file, "pwrite", done < 0 ? errno : ENOSPC);
      break;
    }
    from += done;
    address += static_cast<haddr_t>(done);
    size -= static_cast<size_t>(done);
    if (file->info.sync == SyncOnClose::fsync && address >= file->written_back + kWriteBackBlock) {
      ::sync_file_range(file->descriptor, static_cast<off_t>(file->written_back),
                        static_cast<off_t>(address - file->written_back), SYNC_FILE_RANGE_WRITE);
      file->written_back = address;
    }
  }
  return 0;
}

herr_t truncate_file(H5FD_t* base, hid_t, hbool_t) {
  LatchedFile* file = self(base);
  if (file->end_of_allocation == file->end_of_file) return 0;
  if (file->info.report->error == 0 &&
      (injected(file->info, "ftruncate") ||
       ::ftruncate(file->descriptor, static_cast<off_t>(file->end_of_allocation)) != 0)) {
    latch(file, "ftruncate", errno);
  }
  file->end_of_file = file->end_of_allocation;
  return 0;
}

H5FD_class_t driver_class() {
  H5FD_class_t driver{};
#ifdef H5FD_CLASS_VERSION
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(385);  // 256..511: for local use, not registered anywhere
#endif
  driver.name = "pipefill_latching";
  driver.maxaddr = static_cast<haddr_t>(INT64_MAX);
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.fapl_size = sizeof(DriverInfo);
  driver.open = open_file;
  driver.close = close_file;
  driver.query = query;
  driver.get_eoa = get_eoa;
  driver.set_eoa = set_eoa;
  driver.get_eof = get_eof;
  driver.read = read_file_at;
  driver.write = write_file_at;
  driver.truncate = truncate_file;
  const H5FD_mem_t map[H5FD_MEM_NTYPES] = H5FD_FLMAP_DICHOTOMY;
  std::copy(std::begin(map), std::end(map), driver.fl_map);
  return driver;
}

}  // namespace

void use_latching_driver(hid_t access_list, WriteReport& report, SyncOnClose sync, HashOnClose hash) {
  const H5FD_class_t driver = driver_class();
  // The access list and each open file keep a reference of their own: ours ends here.
  const H5Handle id(H5FDregister(&driver), H5FDunregister, "H5FDregister");
  const DriverInfo info{&report, sync, hash};
  check_h5(H5Pset_driver(access_list, id.get(), &info), "H5Pset_driver");
}

}  // namespace pipefill
