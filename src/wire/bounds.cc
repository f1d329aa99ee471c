#include "wire/bounds.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/text.h"

namespace probing::wire {

std::string Bound::ToText() const {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  return name + (is_upper ? ">" : "<") + std::string(digits.data(), end);
}

Result<std::vector<Bound>> ParseBounds(std::string_view text) {
  std::vector<Bound> bounds;
  if (text.empty() || text == "none") return bounds;
  while (!text.empty()) {
    const std::string_view part = Trim(TakePart(text, ','), " ");
    const std::size_t at = part.find_first_of("<>");
    Bound bound;
    const std::string_view number = at == std::string_view::npos ? "" : Trim(part.substr(at + 1), " ");
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), bound.number);
    const bool is_number = !number.empty() && error == std::errc() && end == number.data() + number.size() &&
                           std::isfinite(bound.number);
    if (at == 0 || !is_number)
      return Error{Code::kUsage, "\"" + std::string(part) + "\" is no bound of a metric", "as in loss>10"};
    bound.name = std::string(Trim(part.substr(0, at), " "));
    if (bound.name.empty() || bound.name.find(' ') != std::string::npos)
      return Error{Code::kUsage, "\"" + std::string(part) + "\" is no bound of a metric", "as in loss>10"};
    bound.is_upper = part[at] == '>';
    bounds.push_back(std::move(bound));
  }
  return bounds;
}

}  // namespace probing::wire
