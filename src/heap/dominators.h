// Retained sizes: how much would be free if an object were gone.
//
// That is what it dominates: the objects to which every way from the root leads through it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace probing::heap {

struct Dominators {
  std::vector<std::uint32_t> parent;  // the immediate dominator of each node; the root's is itself
  std::vector<std::uint32_t> order;   // all nodes that are reached, every one after its dominator
};

using TargetsOf = std::function<std::span<const std::uint32_t>(std::uint32_t node)>;

// Of nodes 0, the root, to count - 1. Those that are not reached from it are their own parents. Almost
// linear: Semi-NCA (Georgiadis, "Linear-Time Algorithms for Dominators and Related Problems").
Dominators FindDominators(std::size_t count, const TargetsOf& targets);

// Of each node, with what it takes itself.
std::vector<std::uint64_t> RetainedBytes(const Dominators& dominators, std::vector<std::uint64_t> own_bytes);

}  // namespace probing::heap
