// Lists of addresses as people and SLURM write them.
//
//   10.0.0.1:3344,node7:3344       each by itself
//   node[01-04,7]:3344             node01 node02 node03 node04 node7, all at that port
//
// Linked into the probe, so nothing here throws and no name is looked up.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/address.h"

namespace probing::wire {

inline constexpr std::size_t kMaxAddresses = 16384;

// In the order they are written, each once. kUsage for what is none, and for more than kMaxAddresses.
Result<std::vector<Address>> ParseAddresses(std::string_view text);

}  // namespace probing::wire
