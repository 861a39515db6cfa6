// The transport cases over MPI: with MPI's own limit and with parts of 1000 bytes (BUGS A17).
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <limits>

#include "base/error.hpp"
#include "comm/mpi_transport.hpp"
#include "tests/comm/transport_cases.hpp"

namespace pipefill {
namespace {

class OverMpi : public testing::TestWithParam<std::tuple<TransportCase, std::int64_t>> {};

TEST_P(OverMpi, Holds) {
  MpiTransport transport({std::get<1>(GetParam())});
  std::get<0>(GetParam()).body(transport);
}

INSTANTIATE_TEST_SUITE_P(Transport, OverMpi,
                         testing::Combine(testing::ValuesIn(transport_cases().begin(), transport_cases().end()),
                                          testing::Values(MpiTransportOptions{}.largest_part, 1000)),
                         [](const auto& chosen) {
                           return std::string(std::get<0>(chosen.param).name) +
                                  (std::get<1>(chosen.param) == 1000 ? "InParts" : "Whole");
                         });

// A message is sent in parts that MPI can count; an all-gather is not.
TEST(MpiTransport, AnAllGatherOfMoreBytesThanMpiCountsIsRefused) {
  MpiTransport transport;
  const std::int64_t each = std::numeric_limits<int>::max() / transport.size() + 1;
  const auto size = static_cast<std::size_t>(each * transport.size());
  void* const memory = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const std::span<std::byte> all(static_cast<std::byte*>(memory), size);
  try {
    (void)transport.all_gather(all.first(static_cast<std::size_t>(each)), all,
                               std::vector<std::int64_t>(static_cast<std::size_t>(transport.size()), each));
    ADD_FAILURE() << "accepted";
  } catch (const TransportError& error) {
    EXPECT_NE(std::string(error.what()).find("at most 2147483647 in one call"), std::string::npos) << error.what();
  }
  munmap(memory, size);
}

}  // namespace
}  // namespace pipefill
