#include "unwind/demangle.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "unwind/cython.h"

namespace probing::unwind {

std::string Demangle(const std::string& name) {
  if (name.starts_with("__pyx_")) {
    std::string function = CythonName(name);
    return function.empty() ? name : function;
  }
  if (!name.starts_with("_Z")) return name;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && text != nullptr ? text.get() : name;
}

namespace {

// Takes what begins with an opening bracket up to its closing one; all of it when there is none.
void SkipBrackets(std::string_view& rest, char open, char close) {
  int depth = 0;
  for (std::size_t at = 0; at < rest.size(); ++at) {
    if (rest[at] == open) ++depth;
    // "->" closes nothing.
    if (rest[at] == close && !(at > 0 && rest[at - 1] == '-') && --depth == 0) {
      rest.remove_prefix(at + 1);
      return;
    }
  }
  rest = {};
}

bool Take(std::string_view& rest, std::string_view word) {
  if (!rest.starts_with(word)) return false;
  rest.remove_prefix(word.size());
  return true;
}

// What follows "operator": "()", "<<", "new", "bool"...
std::string TakeOperator(std::string_view& rest) {
  if (Take(rest, "()")) return "()";
  std::size_t size = rest.find_first_not_of("<>=!+-*/%^&|~,[]");
  size = std::min(size, rest.size());
  if (size == 0) size = std::min(rest.find_first_of("(<"), rest.size());
  std::string symbol(rest.substr(0, size));
  rest.remove_prefix(size);
  if (rest.starts_with(" <")) rest.remove_prefix(1);  // "operator<< <int>"
  return symbol;
}

}  // namespace

std::string ShortName(const std::string& demangled) {
  std::string name;
  std::string_view rest = demangled;
  while (!rest.empty()) {
    const bool at_start = name.empty() || name.ends_with(':');
    if (Take(rest, "(anonymous namespace)::") || Take(rest, "decltype(auto) ")) continue;
    if (at_start && Take(rest, "operator")) {
      name += "operator" + TakeOperator(rest);
    } else if (rest.starts_with("{lambda(")) {
      SkipBrackets(rest, '{', '}');
      name += "{lambda}";
    } else if (rest.front() == '<') {
      SkipBrackets(rest, '<', '>');
      name += "<...>";
    } else if (rest.front() == '(') {
      SkipBrackets(rest, '(', ')');
      (void)Take(rest, " const");
      if (!rest.starts_with("::")) break;  // what is within a function goes on behind its parameters
    } else if (Take(rest, " ")) {
      name.clear();  // what it returns
    } else {
      name += rest.front();
      rest.remove_prefix(1);
    }
  }
  return name.empty() ? demangled : name;
}

std::string FitName(const std::string& demangled, std::size_t columns) {
  constexpr std::string_view kCut = "...";
  if (columns == 0 || demangled.size() <= columns) return demangled;
  const std::string name = ShortName(demangled);
  if (name.size() <= columns) return name;
  const std::size_t room = columns > kCut.size() ? columns - kCut.size() : 0;
  const std::size_t scope = name.find("::", name.size() - room);
  std::size_t start = scope != std::string::npos ? scope : name.size() - room;
  // Not in the middle of a character.
  while (start < name.size() && (static_cast<unsigned char>(name[start]) & 0xc0U) == 0x80) ++start;
  return std::string(kCut) + name.substr(start);
}

}  // namespace probing::unwind
