// What every Transport must do, written once: each case runs on all ranks at the same time, over threads and over MPI.
#pragma once

#include <span>
#include <string>

#include "comm/transport.hpp"

namespace pipefill {

struct TransportCase {
  const char* name;
  void (*body)(Transport& transport);  ///< any number of ranks from 2 on; gtest expectations inside
};

std::span<const TransportCase> transport_cases();

}  // namespace pipefill
