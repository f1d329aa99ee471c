// How an object is reached from the root, in words: "module train", "dict 'cache'", "['step 3'] list of 8".
#pragma once

#include <string>
#include <vector>

#include "heap/graph.h"

namespace probing::heap {

// Not thread-safe. Lifetime: `graph` must outlive it.
class ChainWriter {
 public:
  ChainWriter(Graph& graph, const cpython::Location& location);

  // From a module, a thread… to the node itself. What a reader takes for granted is left out: the `__dict__`
  // of an instance, the tuple of a closure. Of a long one the middle is left out.
  std::vector<std::string> Write(std::uint32_t node);

  // "list of 12,345", "train.Model".
  std::string Describe(std::uint32_t node) const;

 private:
  std::string Step(std::uint32_t from, std::uint32_t to);
  std::string NameOfWay(const Node& from, const Reference& reference) const;
  std::string TextAt(std::uint64_t text) const;
  std::string ShortValue(std::uint64_t object) const;
  std::string FieldName(const Node& node, std::uint64_t offset) const;
  std::string LocalName(std::uint64_t code, std::uint64_t index) const;
  std::string FreeName(std::uint64_t code, std::uint64_t index) const;
  std::string FrameName(std::uint64_t frame) const;
  bool IsNamespace(std::uint32_t node) const;

  Graph& graph_;
  const cpython::Location& location_;
  cpython::ObjectLayout layout_;
  std::map<std::uint64_t, std::string> thread_names_;  // by the address of the state
  std::uint64_t closure_code_ = 0;                     // of the function that the chain has just come through
};

std::string WithCommas(std::uint64_t number);  // "12,345"

}  // namespace probing::heap
