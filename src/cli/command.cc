#include "cli/command.h"

#include "base/text.h"

namespace probing::cli {

std::string Invocation::Get(std::string_view option) const {
  const auto found = options.find(option);
  return found != options.end() ? found->second : "";
}

Result<double> Invocation::GetNumber(std::string_view option, double otherwise) const {
  if (!Has(option)) return otherwise;
  const std::string text = Get(option);
  double number = 0;
  if (!ParseNumber(text, number) || !(number > 0 && number <= 86400)) {
    return Error{Code::kUsage, std::string(option) + " takes a number above 0, not \"" + text + "\"", ""};
  }
  return number;
}

}  // namespace probing::cli
