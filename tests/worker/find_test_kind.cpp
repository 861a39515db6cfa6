// Apart from the counting kind itself, which a plug-in takes without the program's own kinds.
#include "counting_kind.hpp"
#include "fill_jobs/kind.hpp"

namespace pipefill::testing {

const pipefill_fill_kind* find_test_kind(std::string_view name) {
  return name == "counting" ? counting_kind() : find_kind(name);
}

}  // namespace pipefill::testing
