// What a rank takes of its host: cores, memory, and how it waits on them.
#pragma once

#include "comm/cluster.hpp"
#include "comm/wait.hpp"
#include "config/run_config.hpp"
#include "device/cpu/binding.hpp"

namespace pipefill {

/// A rank that sleeps or yields wakes later than one that spins, but with more ranks than cores a spinning one steals
/// the core from the rank it waits for.
WaitMethod wait_method(WaitChoice choice, const CoreShare& cores);

/// The ranks of this host with this rank's mask divide it; one whose launcher gave it cores of its own keeps them.
CoreShare claim_cores(const Cluster& cluster, bool bind);

/// device.memory, or the share of one rank in the memory of the host.
Bytes memory_limit(const RunConfig& config, const Cluster& cluster);

}  // namespace pipefill
