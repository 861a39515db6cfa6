#include "base/contract.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace pipefill {

void contract_broken(const char* kind, const char* condition, std::source_location where) {
  throw Error(ExitCode::bug,
              fmt::format("broken {} `{}` in {} ({}:{}); this is a bug in pipefill, please report it", kind, condition,
                          where.function_name(), where.file_name(), where.line()),
              where);
}

}  // namespace pipefill
