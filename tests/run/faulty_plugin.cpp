// The counting kind as a user's plug-in: a fill job that misbehaves on demand in a real run.
#include "counting_kind.hpp"

extern "C" const pipefill_fill_kind* pipefill_fill_kind_v1(void) noexcept { return pipefill::testing::counting_kind(); }
