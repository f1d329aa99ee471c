// Lists of addresses as people and SLURM write them.
//
//   10.0.0.1:3344,node7:3344       each by itself
//   node[01-04,7]:3344             node01 node02 node03 node04 node7, all at that port
//   rack[1-2]n[1-9]:3344           every one of each
//
// Linked into the probe, so nothing here throws and no name is looked up.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/address.h"

namespace probing::wire {

inline constexpr std::size_t kMaxAddresses = 16384;

// In the order they are written, each once. kUsage for what is none, and for more than kMaxAddresses.
Result<std::vector<Address>> ParseAddresses(std::string_view text);

// The same without ports, as in SLURM_JOB_NODELIST. kUsage also when there is none.
Result<std::vector<std::string>> ParseHosts(std::string_view text);

// Takes off what stands before the next comma that is not in brackets, and the comma.
std::string_view TakeItem(std::string_view& rest);

}  // namespace probing::wire
