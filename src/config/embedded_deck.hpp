// The deck that is built into the program, so that `pipefill train` works anywhere without a file.
#pragma once

#include <string_view>

namespace pipefill {

/// inputs/tiny.yaml as it was when the program was built.
std::string_view embedded_deck();

}  // namespace pipefill
