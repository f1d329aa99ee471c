#include "wire/node_list.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/text.h"

namespace probing::wire {
namespace {

Error NotAList(std::string_view text) {
  return {Code::kUsage, "\"" + std::string(text) + "\" is not a list of addresses",
          "write them as in node1:3344,node2:3344 or node[1-4]:3344"};
}

}  // namespace

std::string_view TakeItem(std::string_view& rest) {
  bool in_brackets = false;
  std::size_t end = 0;
  for (; end < rest.size() && (rest[end] != ',' || in_brackets); ++end) {
    if (rest[end] == '[') in_brackets = true;
    if (rest[end] == ']') in_brackets = false;
  }
  const std::string_view item = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return item;
}

namespace {

// "01-04" adds before01 and so on: numbers are as wide as the first one. False when it is no range.
bool AddRange(std::string_view range, std::string_view before, std::vector<std::string>& names) {
  const std::size_t dash = std::min(range.find('-'), range.size());
  const std::string_view first_text = range.substr(0, dash);
  const std::string_view last_text = dash == range.size() ? first_text : range.substr(dash + 1);
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  if (!ParseNumber(first_text, first) || !ParseNumber(last_text, last) || last < first) return false;
  if (last - first >= kMaxAddresses - std::min(kMaxAddresses, names.size())) return false;
  for (std::uint64_t number = first; number <= last; ++number) {
    std::string digits = std::to_string(number);
    if (digits.size() < first_text.size()) digits.insert(0, first_text.size() - digits.size(), '0');
    names.push_back(std::string(before) + digits);
  }
  return true;
}

// One item without its brackets; those of an IPv6 address stand first and stay.
bool Expand(std::string_view item, std::vector<std::string>& names) {
  const std::size_t open = item.find('[', 1);
  if (open >= item.size() || item.front() == '[') {
    names.emplace_back(item);
    return names.size() <= kMaxAddresses;
  }
  const std::size_t close = item.find(']', open);
  if (close == std::string_view::npos) return false;
  std::string_view ranges = item.substr(open + 1, close - open - 1);
  if (ranges.empty()) return false;
  // What follows may have brackets of its own: rack[1-2]n[01-16].
  std::vector<std::string> ends;
  if (!Expand(item.substr(close + 1), ends)) return false;
  std::vector<std::string> starts;
  while (!ranges.empty()) {
    if (!AddRange(TakePart(ranges, ','), item.substr(0, open), starts)) return false;
  }
  if (names.size() + starts.size() * ends.size() > kMaxAddresses) return false;
  for (const std::string& start : starts) {
    for (const std::string& end : ends) names.push_back(start + end);
  }
  return true;
}

bool ExpandAll(std::string_view list, std::vector<std::string>& names) {
  while (!list.empty()) {
    if (!Expand(TakeItem(list), names)) return false;
  }
  return true;
}

}  // namespace

Result<std::vector<Address>> ParseAddresses(std::string_view text) {
  std::vector<std::string> names;
  if (!ExpandAll(text, names)) return NotAList(text);
  std::vector<Address> addresses;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(Address address, ParseAddress(name));
    if (std::ranges::find(addresses, address) == addresses.end()) addresses.push_back(std::move(address));
  }
  return addresses;
}

Result<std::vector<std::string>> ParseHosts(std::string_view text) {
  std::vector<std::string> names;
  const auto is_host = [](const std::string& name) {
    return !name.empty() && name[0] != '-' && name != "*" && ParseAddress(name + ":1").ok();
  };
  if (!ExpandAll(text, names) || names.empty() || !std::ranges::all_of(names, is_host)) {
    return Error{Code::kUsage, "\"" + std::string(text) + "\" is not a list of hosts",
                 "write them as in node1,node2 or node[1-4]"};
  }
  std::vector<std::string> hosts;
  for (std::string& name : names) {
    if (std::ranges::find(hosts, name) == hosts.end()) hosts.push_back(std::move(name));
  }
  return hosts;
}

}  // namespace probing::wire
