// The transport cases over MPI: with MPI's own limit and with parts of 1000 bytes (BUGS A17).
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace pipefill
