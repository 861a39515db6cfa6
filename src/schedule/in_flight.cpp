#include "schedule/in_flight.hpp"

#include <algorithm>

namespace pipefill {

InFlight peak_in_flight(const Program& program, ModelChunkId chunk) {
  InFlight now, peak;
  for (const Instruction& instruction : program) {
    std::visit(Overloaded{[&](const Forward& f) { now.activations += f.chunk == chunk ? 1 : 0; },
                          [&](const Backward& b) { now.activations -= b.chunk == chunk ? 1 : 0; },
                          [&](const BackwardInput& i) { now.deferred_weights += i.chunk == chunk ? 1 : 0; },
                          [&](const BackwardWeight& w) {
                            now.activations -= w.chunk == chunk ? 1 : 0;
                            now.deferred_weights -= w.chunk == chunk ? 1 : 0;
                          },
                          [](const auto& /* holds nothing */) {}},
               instruction);
    peak.activations = std::max(peak.activations, now.activations);
    peak.deferred_weights = std::max(peak.deferred_weights, now.deferred_weights);
  }
  return peak;
}

}  // namespace pipefill
