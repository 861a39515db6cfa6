// main of every gtest binary that needs no MPI. --update-golden lets golden tests rewrite their files (they see it as
// PIPEFILL_UPDATE_GOLDEN in the environment).
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--update-golden") setenv("PIPEFILL_UPDATE_GOLDEN", "1", 1);
  }
  return RUN_ALL_TESTS();
}
