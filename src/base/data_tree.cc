#include "base/data_tree.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "base/text.h"

namespace probing {

using Kind = DataTree::Kind;
using Id = DataTree::Id;

std::size_t DataTree::Value::size() const {
  if (kind() != Kind::kList && kind() != Kind::kDict) return 0;
  return tree_->lists_[static_cast<std::size_t>(tree_->nodes_[id_].bits)].size();
}

DataTree::Value DataTree::Value::at(std::size_t index) const {
  if (index >= size()) return {};
  return {tree_, tree_->lists_[static_cast<std::size_t>(tree_->nodes_[id_].bits)][index]};
}

DataTree::Value DataTree::Value::Get(std::string_view key) const {
  if (kind() != Kind::kDict) return {};
  for (std::size_t i = size(); i >= 2; i -= 2) {
    const Value name = at(i - 2);
    if (name.kind() == Kind::kText && name.Text() == key) return at(i - 1);
  }
  return {};
}

std::optional<std::int64_t> DataTree::Value::Int() const {
  if (kind() == Kind::kInt) return tree_->nodes_[id_].bits;
  std::int64_t number = 0;
  if (kind() == Kind::kText && ParseNumber(Text(), number)) return number;
  return std::nullopt;
}

std::optional<double> DataTree::Value::Double() const {
  if (kind() == Kind::kDouble) return std::bit_cast<double>(tree_->nodes_[id_].bits);
  if (const std::optional<std::int64_t> number = Int()) return static_cast<double>(*number);
  return std::nullopt;
}

std::string_view DataTree::Value::Text() const {
  return kind() == Kind::kText ? tree_->nodes_[id_].text : std::string_view();
}

Id DataTree::Add(Kind kind, std::int64_t bits) {
  nodes_.push_back({kind, bits, {}});
  return static_cast<Id>(nodes_.size() - 1);
}

Id DataTree::AddDouble(double number) { return Add(Kind::kDouble, std::bit_cast<std::int64_t>(number)); }

Id DataTree::AddText(std::string_view text) {
  nodes_.push_back({Kind::kText, 0, text});
  return static_cast<Id>(nodes_.size() - 1);
}

Id DataTree::KeepText(std::string text) { return AddText(kept_.emplace_back(std::move(text))); }

Id DataTree::AddContainer(Kind kind) {
  lists_.emplace_back();
  return Add(kind, static_cast<std::int64_t>(lists_.size() - 1));
}

namespace {

// ── pickle ──

class PickleReader {
 public:
  PickleReader(std::string_view bytes, std::size_t max_values) : bytes_(bytes), max_values_(max_values) {}

  Result<DataTree> Read() {
    while (!stopped_) {
      if (at_ >= bytes_.size()) return Bad("it ends in the middle");
      if (tree_.size() + stack_.size() + memo_.size() > max_values_) return Bad("it has too many values");
      const auto opcode = static_cast<unsigned char>(bytes_[at_++]);
      if (!Step(opcode)) return Bad(problem_.empty() ? Unknown(opcode) : problem_);
    }
    return std::move(tree_);
  }

 private:
  Error Bad(const std::string& why) const {
    return {Code::kFailed, "this is no pickle of plain data: " + why + " (byte " + std::to_string(at_) + ")",
            "only data is read; pickles that would run code are refused"};
  }

  static std::string Unknown(unsigned char opcode) {
    const bool prints = opcode > ' ' && opcode < 0x7f;
    return "opcode " +
           (prints ? "'" + std::string(1, static_cast<char>(opcode)) + "'" : std::to_string(opcode)) +
           " is not one of data";
  }

  bool Fail(const char* why) {
    problem_ = why;
    return false;
  }

  // `count` bytes, little-endian. False at the end of the input.
  bool TakeNumber(std::size_t count, std::uint64_t& number) {
    if (bytes_.size() - at_ < count) return Fail("it ends in the middle");
    number = 0;
    for (std::size_t i = 0; i < count; ++i)
      number |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes_[at_ + i])) << (8 * i);
    at_ += count;
    return true;
  }

  bool PushText(std::size_t length_bytes) {
    std::uint64_t length = 0;
    if (!TakeNumber(length_bytes, length)) return false;
    if (length > bytes_.size() - at_) return Fail("it ends in the middle");
    stack_.push_back(tree_.AddText(bytes_.substr(at_, length)));
    at_ += length;
    return true;
  }

  bool Push(Id id) {
    stack_.push_back(id);
    return true;
  }

  // LONG1: as many bytes as it says, two's complement. What is longer than 64 bits becomes none.
  bool PushLong() {
    std::uint64_t count = 0;
    if (!TakeNumber(1, count)) return false;
    if (count > bytes_.size() - at_) return Fail("it ends in the middle");
    if (count > 8) {
      at_ += count;
      return Push(tree_.Add(Kind::kNone));
    }
    std::uint64_t number = 0;
    if (!TakeNumber(count, number)) return false;
    if (count > 0 && count < 8 && (number >> (8 * count - 1) & 1) != 0)
      number |= ~std::uint64_t{0} << (8 * count);
    return Push(tree_.Add(Kind::kInt, static_cast<std::int64_t>(number)));
  }

  bool PushDouble() {
    std::uint64_t number = 0;
    if (!TakeNumber(8, number)) return false;
    return Push(tree_.AddDouble(std::bit_cast<double>(__builtin_bswap64(number))));
  }

  // Moves what is above `bottom` into a container.
  bool MoveInto(Id container, Kind kind, std::size_t bottom) {
    if (tree_.kind(container) != kind) return Fail("it adds to what is no container");
    if (kind == Kind::kDict && (stack_.size() - bottom) % 2 != 0) return Fail("a key has no value");
    std::vector<Id>& items = tree_.items(container);
    if (items.size() + stack_.size() > max_values_) return Fail("it has too many values");
    items.insert(items.end(), stack_.begin() + static_cast<std::ptrdiff_t>(bottom), stack_.end());
    added_ += stack_.size() - bottom;
    if (added_ > max_values_) return Fail("it has too many values");
    stack_.resize(bottom);
    return true;
  }

  bool TakeMark(std::size_t& bottom) {
    if (marks_.empty()) return Fail("there is no mark");
    bottom = marks_.back();
    marks_.pop_back();
    return bottom <= stack_.size() || Fail("there is nothing above the mark");
  }

  bool AddMarked(Kind kind) {
    std::size_t bottom = 0;
    if (!TakeMark(bottom)) return false;
    if (bottom == 0) return Fail("there is nothing to add to");
    return MoveInto(stack_[bottom - 1], kind, bottom);
  }

  bool AddTop(Kind kind, std::size_t count) {
    if (stack_.size() < count + 1) return Fail("there is too little to add");
    return MoveInto(stack_[stack_.size() - count - 1], kind, stack_.size() - count);
  }

  bool MakeTuple(std::size_t bottom) {
    const Id tuple = tree_.AddContainer(Kind::kList);
    return MoveInto(tuple, Kind::kList, bottom) && Push(tuple);
  }

  bool MakeMarkedTuple() {
    std::size_t bottom = 0;
    return TakeMark(bottom) && MakeTuple(bottom);
  }

  bool MakeSmallTuple(std::size_t count) {
    if (stack_.size() < count) return Fail("there is too little for a tuple");
    return MakeTuple(stack_.size() - count);
  }

  bool Memoize(std::size_t index) {
    if (stack_.empty()) return Fail("there is nothing to remember");
    if (index > memo_.size() + 65'536 || index > max_values_) return Fail("it numbers wildly");
    if (index >= memo_.size()) memo_.resize(index + 1, kNothing);
    memo_[index] = stack_.back();
    ++remembered_;
    return true;
  }

  bool Recall(std::size_t index) {
    if (index >= memo_.size() || memo_[index] == kNothing) return Fail("it recalls what it did not remember");
    return Push(memo_[index]);
  }

  bool Step(unsigned char opcode) {
    std::uint64_t number = 0;
    switch (opcode) {
      case 0x80:  // PROTO
        return TakeNumber(1, number) && (number <= 5 || Fail("its protocol is unknown"));
      case 0x95:  // FRAME: a hint
        return TakeNumber(8, number);
      case '.':  // STOP
        if (stack_.empty()) return Fail("it is empty");
        tree_.SetRoot(stack_.back());
        stopped_ = true;
        return true;
      case '(':
        marks_.push_back(stack_.size());
        return marks_.size() <= max_values_ || Fail("it has too many marks");
      case 'N':
        return Push(tree_.Add(Kind::kNone));
      case 0x88:
        return Push(tree_.Add(Kind::kBool, 1));
      case 0x89:
        return Push(tree_.Add(Kind::kBool, 0));
      case 'J':  // BININT is signed
        return TakeNumber(4, number) && Push(tree_.Add(Kind::kInt, static_cast<std::int32_t>(number)));
      case 'K':
        return TakeNumber(1, number) && Push(tree_.Add(Kind::kInt, static_cast<std::int64_t>(number)));
      case 'M':
        return TakeNumber(2, number) && Push(tree_.Add(Kind::kInt, static_cast<std::int64_t>(number)));
      case 0x8a:
        return PushLong();
      case 'G':
        return PushDouble();
      case 'X':  // texts, and bytes
      case 'T':
      case 'B':
        return PushText(4);
      case 0x8c:
      case 'U':
      case 'C':
        return PushText(1);
      case 0x8d:
      case 0x8e:
        return PushText(8);
      case ']':
        return Push(tree_.AddContainer(Kind::kList));
      case ')':
        return Push(tree_.AddContainer(Kind::kList));
      case '}':
        return Push(tree_.AddContainer(Kind::kDict));
      case 'a':
        return AddTop(Kind::kList, 1);
      case 'e':
        return AddMarked(Kind::kList);
      case 's':
        return AddTop(Kind::kDict, 2);
      case 'u':
        return AddMarked(Kind::kDict);
      case 't':
        return MakeMarkedTuple();
      case 0x85:
      case 0x86:
      case 0x87:
        return MakeSmallTuple(opcode - 0x84U);
      case 'q':
        return TakeNumber(1, number) && Memoize(number);
      case 'r':
        return TakeNumber(4, number) && Memoize(number);
      case 0x94:
        return Memoize(remembered_);
      case 'h':
        return TakeNumber(1, number) && Recall(number);
      case 'j':
        return TakeNumber(4, number) && Recall(number);
      default:
        return false;
    }
  }

  static constexpr Id kNothing = ~Id{0};

  const std::string_view bytes_;
  const std::size_t max_values_;
  std::size_t at_ = 0;
  bool stopped_ = false;
  std::string problem_;
  DataTree tree_;
  std::vector<Id> stack_;
  std::vector<std::size_t> marks_;
  std::vector<Id> memo_;
  std::size_t remembered_ = 0;
  std::size_t added_ = 0;
};

// ── JSON ──

class JsonReader {
 public:
  JsonReader(std::string_view text, std::size_t max_values) : text_(text), max_values_(max_values) {}

  Result<DataTree> Read() {
    Id root = 0;
    if (!ReadValue(root, 0)) return Bad();
    SkipSpace();
    if (at_ != text_.size()) return Bad();
    tree_.SetRoot(root);
    return std::move(tree_);
  }

 private:
  static constexpr int kMaxDepth = 64;

  Error Bad() const { return {Code::kFailed, "this is no JSON (byte " + std::to_string(at_) + ")", ""}; }

  void SkipSpace() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }

  bool TakeWord(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  bool ReadValue(Id& id, int depth) {
    SkipSpace();
    if (at_ >= text_.size() || depth > kMaxDepth || tree_.size() > max_values_) return false;
    switch (text_[at_]) {
      case '{':
        return ReadContainer(id, Kind::kDict, '}', depth);
      case '[':
        return ReadContainer(id, Kind::kList, ']', depth);
      case '"':
        return ReadText(id);
      case 't':
        id = tree_.Add(Kind::kBool, 1);
        return TakeWord("true");
      case 'f':
        id = tree_.Add(Kind::kBool, 0);
        return TakeWord("false");
      case 'n':
        id = tree_.Add(Kind::kNone);
        return TakeWord("null");
      default:
        return ReadNumber(id);
    }
  }

  bool ReadContainer(Id& id, Kind kind, char end, int depth) {
    ++at_;
    id = tree_.AddContainer(kind);
    SkipSpace();
    if (at_ < text_.size() && text_[at_] == end) {
      ++at_;
      return true;
    }
    while (true) {
      Id item = 0;
      if (kind == Kind::kDict) {
        SkipSpace();
        if (at_ >= text_.size() || text_[at_] != '"' || !ReadText(item)) return false;
        tree_.items(id).push_back(item);
        SkipSpace();
        if (!TakeWord(":")) return false;
      }
      if (!ReadValue(item, depth + 1)) return false;
      tree_.items(id).push_back(item);
      SkipSpace();
      if (TakeWord(",")) continue;
      if (at_ >= text_.size() || text_[at_] != end) return false;
      ++at_;
      return true;
    }
  }

  bool ReadNumber(Id& id) {
    const std::size_t end = std::min(text_.find_first_not_of("+-.0123456789eE", at_), text_.size());
    const std::string_view word = text_.substr(at_, end - at_);
    std::int64_t whole = 0;
    double number = 0;
    if (ParseNumber(word, whole)) {
      id = tree_.Add(Kind::kInt, whole);
    } else if (ParseDouble(word, number)) {
      id = tree_.AddDouble(number);
    } else {
      return false;
    }
    at_ = end;
    return true;
  }

  // std::from_chars of doubles is not in every library we are built with.
  static bool ParseDouble(std::string_view word, double& number) {
    if (word.empty() || word.size() > 40) return false;
    const std::string copy(word);
    char* end = nullptr;
    number = std::strtod(copy.c_str(), &end);
    return end == copy.c_str() + copy.size();
  }

  bool ReadText(Id& id) {
    const std::size_t first = ++at_;
    std::size_t end = text_.find_first_of("\"\\", at_);
    if (end == std::string_view::npos) return false;
    if (text_[end] == '"') {
      id = tree_.KeepText(std::string(text_.substr(first, end - first)));
      at_ = end + 1;
      return true;
    }
    std::string made;
    while (true) {
      end = text_.find_first_of("\"\\", at_);
      if (end == std::string_view::npos) return false;
      made += text_.substr(at_, end - at_);
      at_ = end + 1;
      if (text_[end] == '"') break;
      if (!ReadEscape(made)) return false;
    }
    id = tree_.KeepText(std::move(made));
    return true;
  }

  bool ReadEscape(std::string& made) {
    if (at_ >= text_.size()) return false;
    const char c = text_[at_++];
    constexpr std::string_view kLetters = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    if (const std::size_t found = kLetters.find(c); found != std::string_view::npos) {
      made += kMeanings[found];
      return true;
    }
    unsigned code = 0;
    if (c != 'u' || !ParseNumber(text_.substr(at_, 4), code, 16) || text_.size() - at_ < 4) return false;
    at_ += 4;
    if (code < 0x80) {
      made += static_cast<char>(code);
    } else if (code < 0x800) {
      made += static_cast<char>(0xc0 | code >> 6);
      made += static_cast<char>(0x80 | (code & 0x3f));
    } else if (code >= 0xd800 && code < 0xe000) {
      made += '?';  // a half of a pair: nothing of ours has any
    } else {
      made += static_cast<char>(0xe0 | code >> 12);
      made += static_cast<char>(0x80 | (code >> 6 & 0x3f));
      made += static_cast<char>(0x80 | (code & 0x3f));
    }
    return true;
  }

  const std::string_view text_;
  const std::size_t max_values_;
  std::size_t at_ = 0;
  DataTree tree_;
};

}  // namespace

Result<DataTree> ReadPickle(std::string_view bytes, std::size_t max_values) {
  return PickleReader(bytes, max_values).Read();
}

Result<DataTree> ReadJson(std::string_view text, std::size_t max_values) {
  return JsonReader(text, max_values).Read();
}

}  // namespace probing
