#include "cli/command.h"

#include "base/text.h"

namespace probing::cli {
namespace {

constexpr double kMost = 86400;  // a day, for what counts seconds

}  // namespace

std::string Invocation::Get(std::string_view option) const {
  const auto found = options.find(option);
  return found != options.end() ? found->second : "";
}

Result<double> AboveZero(std::string_view option, std::string_view text) {
  double number = 0;
  if (ParseNumber(text, number) && number > 0) return number;
  return Error{Code::kUsage,
               std::string(option) + " takes a number above 0, not \"" + std::string(text) + "\"", ""};
}

Result<double> Invocation::GetNumber(std::string_view option, double otherwise) const {
  if (!Has(option)) return otherwise;
  ASSIGN_OR_RETURN(const double number, AboveZero(option, Get(option)));
  if (number <= kMost) return number;
  return Error{Code::kUsage, std::string(option) + " takes at most 86400, not \"" + Get(option) + "\"", ""};
}

}  // namespace probing::cli
