#include "unwind/demangle.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace probing::unwind {

std::string Demangle(const std::string& name) {
  if (!name.starts_with("_Z")) return name;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && text != nullptr ? text.get() : name;
}

std::string ShortName(const std::string& demangled) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  std::string name;
  int depth = 0;  // within template arguments
  for (std::size_t at = 0; at < demangled.size(); ++at) {
    const std::string_view rest = std::string_view(demangled).substr(at);
    const bool is_operator = name.ends_with("operator") || name.ends_with("operator-") ||
                             name.ends_with("operator<") || name.ends_with("operator>");
    if (depth == 0 && rest.starts_with(kAnonymous)) {
      at += kAnonymous.size() + 1;  // and the colons behind it
    } else if (depth == 0 && rest.starts_with("operator()")) {
      name += "operator()";
      at += std::string_view("operator()").size() - 1;
    } else if (rest.front() == '<' && !is_operator) {
      if (depth++ == 0) name += "<...>";
    } else if (rest.front() == '>' && depth > 0) {
      --depth;
    } else if (depth > 0) {
      continue;
    } else if (rest.front() == '(' && !name.empty()) {
      // Parameters; a lambda and what is in a function go on behind theirs.
      int open = 0;
      std::size_t end = at;
      for (; end < demangled.size(); ++end) {
        if (demangled[end] == '(') ++open;
        if (demangled[end] == ')' && --open == 0) break;
      }
      const std::size_t inner = std::min(end + 1, demangled.size());
      const std::size_t go_on = demangled.find("::", inner);
      if (go_on == std::string::npos || go_on > inner + std::string_view(" const").size()) break;
      at = go_on - 1;
    } else if (rest.front() == ' ' && !is_operator && !name.ends_with("operator new") &&
               !name.ends_with("operator delete") && rest.find('(') != std::string_view::npos) {
      name.clear();  // what it returns
    } else {
      name += rest.front();
    }
  }
  return name.empty() ? demangled : name;
}

}  // namespace probing::unwind
