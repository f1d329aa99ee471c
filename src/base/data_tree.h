// Data that another program wrote, as a pickle or as JSON: numbers, texts, lists and dicts, nothing that
// acts.
//
// Both readers take untrusted bytes. They run no code: of pickle's opcodes only those that make plain data
// are known, and any other (GLOBAL, REDUCE, BUILD, …) is an error that names it. Work and memory are bounded
// by the size of the input and by `max_values`. A pickle may say that a list contains itself: walk to a fixed
// depth.
//
// Lifetime: texts of a pickle point into the bytes it was read from, which outlive the tree.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace probing {

class DataTree {
 public:
  enum class Kind : std::uint8_t { kNone, kBool, kInt, kDouble, kText, kList, kDict };
  using Id = std::uint32_t;

  // A value in its tree; also one that is not there, which is none and has nothing in it.
  class Value {
   public:
    Value() = default;
    Value(const DataTree* tree, Id id) : tree_(tree), id_(id) {}

    Kind kind() const { return tree_ == nullptr ? Kind::kNone : tree_->nodes_[id_].kind; }
    // Of lists, and of dicts twice the number of entries: key, value, key, …
    std::size_t size() const;
    Value at(std::size_t index) const;
    // Of a dict: the last value that was given this key.
    Value Get(std::string_view key) const;
    // Numbers also when they are written as text, as JSON dumps of torch have some.
    std::optional<std::int64_t> Int() const;
    std::optional<double> Double() const;
    std::string_view Text() const;  // "" for what is no text
    bool True() const { return kind() == Kind::kBool && tree_->nodes_[id_].bits != 0; }

   private:
    const DataTree* tree_ = nullptr;
    Id id_ = 0;
  };

  Value root() const { return nodes_.empty() ? Value() : Value(this, root_); }

  // Building one. Ids are those of this tree.
  Id Add(Kind kind, std::int64_t bits = 0);
  Id AddDouble(double number);
  Id AddText(std::string_view text);  // outlives the tree
  Id KeepText(std::string text);
  Id AddContainer(Kind kind);
  std::vector<Id>& items(Id container) { return lists_[static_cast<std::size_t>(nodes_[container].bits)]; }
  Kind kind(Id id) const { return nodes_[id].kind; }
  void SetRoot(Id id) { root_ = id; }
  std::size_t size() const { return nodes_.size(); }

 private:
  struct Node {
    Kind kind = Kind::kNone;
    std::int64_t bits = 0;  // the number; of containers the index in lists_
    std::string_view text;
  };
  std::vector<Node> nodes_;
  std::vector<std::vector<Id>> lists_;
  std::deque<std::string> kept_;  // never moves
  Id root_ = 0;
};

inline constexpr std::size_t kMaxDataValues = 4'000'000;

Result<DataTree> ReadPickle(std::string_view bytes, std::size_t max_values = kMaxDataValues);
Result<DataTree> ReadJson(std::string_view text, std::size_t max_values = kMaxDataValues);

}  // namespace probing
