// Contracts. PF_EXPECT (precondition) and PF_ENSURE (postcondition) state what a correct program always satisfies:
// checked in builds with PIPEFILL_CONTRACTS, free otherwise. Input from outside is never checked with these: it is
// validated and refused with an Error.
#pragma once

#include <source_location>

namespace pipefill {

/// Throws Error with ExitCode::bug, naming the broken condition and its place.
[[noreturn]] void contract_broken(const char* kind, const char* condition,
                                  std::source_location where = std::source_location::current());

}  // namespace pipefill

#if PIPEFILL_CONTRACTS
#define PF_EXPECT(condition) ((condition) ? void() : ::pipefill::contract_broken("precondition", #condition))
#define PF_ENSURE(condition) ((condition) ? void() : ::pipefill::contract_broken("postcondition", #condition))
#else
#define PF_EXPECT(condition) void(sizeof(!(condition)))
#define PF_ENSURE(condition) void(sizeof(!(condition)))
#endif
