#include "heap/chain.h"

#include <algorithm>

#include "base/visible.h"
#include "cpython/attributes.h"
#include "cpython/containers.h"
#include "cpython/literal.h"
#include "cpython/scalars.h"
#include "cpython/text.h"
#include "cpython/thread_names.h"

namespace probing::heap {
namespace {

using process::RemoteAddress;

constexpr std::size_t kMaxCharacters = 80;
constexpr std::size_t kMaxNames = 512;
constexpr std::size_t kMaxSteps = 24;
constexpr std::uint32_t kModuleName = 32;  // after the head of a module
constexpr std::uint8_t kFree = 0x80;       // CO_FAST_FREE

}  // namespace

std::string WithCommas(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

ChainWriter::ChainWriter(Graph& graph, const cpython::Location& location)
    : graph_(graph), location_(location), layout_(cpython::ObjectLayout::Of(location)) {
  for (const cpython::InterpreterState& interpreter : graph.interpreters()) {
    const auto names = cpython::ReadThreadNames(graph.memory(), location, interpreter.address);
    for (const cpython::ThreadState& thread : interpreter.threads) {
      if (const auto name = names.find(thread.pthread); name != names.end())
        thread_names_[thread.address.address] = name->second;
    }
  }
}

std::string ChainWriter::TextAt(std::uint64_t text) const {
  const std::uint32_t type = graph_.TypeOfObject(text);
  if (type == TypeTable::kNone || graph_.types()[type].shape != Shape::kText) return "";
  const auto read = cpython::ReadUnicode(graph_.memory(), location_.offsets, {text}, kMaxCharacters);
  return read.ok() ? Visible(*read) : "";
}

// A key of a dict: "'name'", "12", "(…)".
std::string ChainWriter::ShortValue(std::uint64_t object) const {
  const std::uint32_t type = graph_.TypeOfObject(object);
  if (type == TypeTable::kNone) return "?";
  Result<std::string> text = Error{Code::kFailed, "", ""};
  const Shape shape = graph_.types()[type].shape;
  if (shape == Shape::kText) {
    text = cpython::ReadUnicode(graph_.memory(), location_.offsets, {object}, kMaxCharacters);
    if (text.ok()) return cpython::QuoteText(*text, kMaxCharacters);
  } else if (shape == Shape::kInteger) {
    text = cpython::DescribeInteger(graph_.memory(), layout_, {object});
  } else if (shape == Shape::kBytes) {
    text = cpython::DescribeBytes(graph_.memory(), location_.offsets, {object});
  }
  return text.ok() ? *text : "<" + Visible(graph_.types()[type].name) + ">";
}

std::string ChainWriter::LocalName(std::uint64_t code, std::uint64_t index) const {
  const cpython::Offsets::Code& fields = location_.offsets.code;
  for (const std::uint32_t field : {fields.local_names, fields.cell_names, fields.free_names}) {
    if (field == cpython::kAbsent) continue;
    const auto tuple = graph_.memory().ReadValue((RemoteAddress{code} + field).As<RemoteAddress>());
    if (!tuple.ok()) return "";
    const auto names = cpython::ReadTuple(graph_.memory(), layout_, *tuple, kMaxNames);
    if (!names.ok()) return "";
    if (index < names->items.size()) return TextAt(names->items[index].address);
    index -= names->items.size();
  }
  return "";
}

// Number `index` of the names that a function takes from those around it.
std::string ChainWriter::FreeName(std::uint64_t code, std::uint64_t index) const {
  const cpython::Offsets::Code& fields = location_.offsets.code;
  const Chunks& memory = graph_.memory();
  const bool has_kinds = fields.local_kinds != cpython::kAbsent;
  const std::uint32_t field = has_kinds ? fields.local_names : fields.free_names;
  const auto tuple = memory.ReadValue((RemoteAddress{code} + field).As<RemoteAddress>());
  if (!tuple.ok()) return "";
  const auto names = cpython::ReadTuple(memory, layout_, *tuple, kMaxNames);
  if (!names.ok()) return "";
  if (!has_kinds) return index < names->items.size() ? TextAt(names->items[index].address) : "";
  const auto kinds = memory.ReadValue((RemoteAddress{code} + fields.local_kinds).As<RemoteAddress>());
  if (!kinds.ok()) return "";
  for (std::size_t i = 0; i < names->items.size(); ++i) {
    const auto kind = memory.ReadValue((*kinds + location_.offsets.bytes.data + i).As<std::uint8_t>());
    if (!kind.ok()) return "";
    if ((*kind & kFree) != 0 && index-- == 0) return TextAt(names->items[i].address);
  }
  return "";
}

// A field that `__slots__`, or C code, gave a name.
std::string ChainWriter::FieldName(const Node& node, std::uint64_t offset) const {
  const cpython::AttributeReader attributes(graph_.memory(), location_);
  RemoteAddress type{graph_.types()[node.type].address};
  for (int i = 0; i < 16 && type; ++i) {
    for (const auto& member : attributes.ListMembers(type, kMaxNames)) {
      if (member.offset == offset) return Visible(member.name);
    }
    const auto base = graph_.memory().ReadValue((type + layout_.type_base).As<RemoteAddress>());
    if (!base.ok()) break;
    type = *base;
  }
  return "";
}

std::string ChainWriter::FrameName(std::uint64_t frame) const {
  const std::uint64_t code = graph_.references().CodeOf(frame);
  const auto name =
      graph_.memory().ReadValue((RemoteAddress{code} + location_.offsets.code.name).As<RemoteAddress>());
  return name.ok() ? TextAt(name->address) : "";
}

std::string ChainWriter::Describe(std::uint32_t number) const {
  const Node& node = graph_.nodes()[number];
  const auto type_name = [&] {
    return node.type == TypeTable::kNone ? std::string("?") : Visible(graph_.types()[node.type].name);
  };
  const auto named = [](const std::string& what, const std::string& name) {
    return name.empty() ? what : what + " " + name;
  };
  const auto text_of = [&](std::uint64_t offset) {
    const auto text = graph_.memory().ReadValue((RemoteAddress{node.address} + offset).As<RemoteAddress>());
    return text.ok() ? TextAt(text->address) : "";
  };
  switch (node.kind) {
    case NodeKind::kRoot:
      return "everything";
    case NodeKind::kThread: {
      const auto name = thread_names_.find(node.address);
      return named("thread", name == thread_names_.end() ? "" : Visible(name->second));
    }
    case NodeKind::kFrame:
      return named("frame", FrameName(node.address));
    case NodeKind::kInterpreter:
      return "the interpreter";
    case NodeKind::kStorage:
      return "storage on " + graph_.DeviceOf(number);
    case NodeKind::kHeldFromC:
      return "held by C or C++ code (" + type_name() + ")";
    case NodeKind::kGarbageCycle:
      return "garbage in cycles (" + type_name() + ")";
    case NodeKind::kObject:
      break;
  }
  const TypeInfo& type = graph_.types()[node.type];
  std::uint64_t field = layout_.value;  // where a container has its size
  switch (type.shape) {
    case Shape::kModule:
      return named("module", text_of(layout_.value + kModuleName));
    case Shape::kClass: {
      const std::uint32_t described = graph_.FindType(node.address);
      return named("class", described == TypeTable::kNone ? "" : Visible(graph_.types()[described].name));
    }
    case Shape::kFunction:
      return named("function", text_of(layout_.function_name));
    case Shape::kFrame:
      return named("frame", location_.version.minor < 11 ? FrameName(node.address) : "");
    case Shape::kSet:
      field += 8;
      break;
    case Shape::kTuple:
    case Shape::kList:
    case Shape::kDict:
    case Shape::kDeque:
      break;
    default:
      return type_name();
  }
  std::uint64_t size = 0;
  if (!graph_.memory().TryWord(node.address + field, size)) return type_name();
  return type_name() + " of " + WithCommas(size);
}

// Whether its values are variables or attributes, which have names of their own.
bool ChainWriter::IsNamespace(std::uint32_t number) const {
  const std::uint32_t parent = graph_.parents()[number];
  const Node& node = graph_.nodes()[number];
  const Node& owner = graph_.nodes()[parent];
  if (node.kind != NodeKind::kObject || owner.kind != NodeKind::kObject) return false;
  if (graph_.types()[node.type].shape != Shape::kDict) return false;
  const Shape shape = graph_.types()[owner.type].shape;
  if (shape == Shape::kModule || shape == Shape::kClass) return true;
  const auto reference = graph_.FindReference(parent, number);
  return reference && reference->way == Way::kDict;
}

std::string ChainWriter::NameOfWay(const Node& from, const Reference& reference) const {
  const auto quoted = [](const std::string& name) { return name.empty() ? "" : "'" + name + "'"; };
  switch (reference.way) {
    case Way::kItem:
      return "[" + std::to_string(reference.detail) + "]";
    case Way::kKey:
      return "a key:";
    case Way::kValue:
      return "[" + ShortValue(reference.detail) + "]";
    case Way::kAttribute: {
      std::uint64_t name = 0;
      (void)graph_.memory().TryWord(reference.detail, name);
      return "." + TextAt(name);
    }
    case Way::kLocal: {
      if (from.kind == NodeKind::kFrame)
        return quoted(LocalName(graph_.references().CodeOf(from.address), reference.detail));
      const Shape shape = graph_.types()[from.type].shape;
      const std::uint64_t frame =
          shape == Shape::kGenerator ? graph_.references().FrameOfGenerator(from.address) : from.address;
      return frame == 0 ? "" : quoted(LocalName(graph_.references().CodeOf(frame), reference.detail));
    }
    case Way::kField: {
      if (from.kind != NodeKind::kObject) return "";
      const Shape shape = graph_.types()[from.type].shape;
      if (shape == Shape::kCell) return "";
      const std::string name = FieldName(from, reference.detail);
      return name.empty() ? "" : "." + name;
    }
    case Way::kGradient:
      return ".grad";
    default:
      return "";
  }
}

std::string ChainWriter::Step(std::uint32_t from, std::uint32_t to) {
  const Node& source = graph_.nodes()[from];
  const std::string what = Describe(to);
  const auto reference = graph_.FindReference(from, to);
  if (!reference) return what;
  // A variable of a module or a class, or an attribute: as a program writes it.
  if (reference->way == Way::kValue && IsNamespace(from)) {
    const std::string name = TextAt(reference->detail);
    const Node& owner = graph_.nodes()[graph_.parents()[from]];
    const bool is_module = graph_.types()[owner.type].shape == Shape::kModule;
    if (graph_.nodes()[to].kind == NodeKind::kObject) {
      const Shape shape = graph_.types()[graph_.nodes()[to].type].shape;
      if (shape == Shape::kFunction || shape == Shape::kClass || shape == Shape::kModule) return what;
    }
    return is_module ? what + " '" + name + "'" : "." + name + " " + what;
  }
  if (reference->way == Way::kItem && closure_code_ != 0 && graph_.nodes()[to].kind == NodeKind::kObject &&
      graph_.types()[graph_.nodes()[to].type].shape == Shape::kCell) {
    const std::string name = FreeName(closure_code_, reference->detail);
    return name.empty() ? "cell" : "cell '" + name + "'";
  }
  const std::string name = NameOfWay(source, *reference);
  if (name.empty()) return what;
  return reference->way == Way::kLocal ? what + " " + name : name + " " + what;
}

std::vector<std::string> ChainWriter::Write(std::uint32_t node) {
  std::vector<std::uint32_t> path;
  for (std::uint32_t at = node; at != Graph::kRootNode && path.size() < graph_.nodes().size();
       at = graph_.parents()[at])
    path.push_back(at);
  std::reverse(path.begin(), path.end());
  std::vector<std::string> steps;
  closure_code_ = 0;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const bool is_middle = path.size() > kMaxSteps && i > kMaxSteps / 2 && i + kMaxSteps / 2 < path.size();
    if (is_middle) {
      if (steps.back() != "…") steps.emplace_back("…");
      continue;
    }
    const bool is_last = i + 1 == path.size();
    const Node& here = graph_.nodes()[path[i]];
    const bool is_object = here.kind == NodeKind::kObject;
    const Shape shape = is_object ? graph_.types()[here.type].shape : Shape::kPlain;
    if (is_object && shape == Shape::kFunction)
      closure_code_ = graph_.references().CodeOfFunction(here.address);
    if (!is_last && i > 0 && is_object) {
      const Node& before = graph_.nodes()[path[i - 1]];
      const bool is_closure = shape == Shape::kTuple && before.kind == NodeKind::kObject &&
                              graph_.types()[before.type].shape == Shape::kFunction;
      if (is_closure || IsNamespace(path[i])) continue;
    }
    steps.push_back(i == 0 ? Describe(path[i]) : Step(path[i - 1], path[i]));
  }
  return steps;
}

}  // namespace probing::heap
