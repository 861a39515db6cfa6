// Writing beside, then renaming.
#include "fill_jobs/output.hpp"

#include <array>
#include <filesystem>
#include <vector>

#include "kernels/matmul/matmul.hpp"
#include "storage/atomic_file.hpp"

namespace pipefill {

void write_h5(const std::string& directory, const std::string& name, const std::function<void(H5File&)>& write) {
  const std::string path = directory + "/" + name, beside = directory + "/." + name + ".tmp";
  std::filesystem::remove(beside);  // what a killed save left
  try {
    H5File file = H5File::create(beside);
    write(file);
    file.close();
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(beside, ignored);
    throw;
  }
  rename_path(beside, path);
  sync_directory(directory);
}

void warm_up(const KernelContext& kernels) {
  constexpr std::int64_t kSize = 64;
  const std::vector<float> a(kSize * kSize, 0.0F), b(kSize * kSize, 0.0F);
  std::vector<float> c(kSize * kSize, 0.0F);
  constexpr std::array<Transpose, 2> kEither{Transpose::no, Transpose::yes};
  for (const Transpose ta : kEither)
    for (const Transpose tb : kEither)
      for (const Accumulate accumulate : {Accumulate::no, Accumulate::yes})
        matmul(kernels, c.data(), a.data(), b.data(),
               {.m = kSize, .n = kSize, .k = kSize, .a = ta, .b = tb, .accumulate = accumulate});
}

}  // namespace pipefill
