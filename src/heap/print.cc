#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/visible.h"
#include "heap/chain.h"
#include "heap/heap.h"

namespace probing::heap {
namespace {

std::string Bytes(std::uint64_t bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  auto size = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; size >= 1024 && unit + 1 < kUnits.size(); ++unit) size /= 1024;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", size, kUnits[unit]);
  return text.data();
}

std::string Right(const std::string& text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

std::string Join(const std::vector<std::string>& steps) {
  std::string text;
  for (const std::string& step : steps) text += (text.empty() ? "" : " → ") + step;
  return text;
}

std::string HoldsText(const Holder& holder) {
  std::string text;
  for (const ClassUse& use : holder.holds) {
    text += (text.empty() ? "" : ", ") + WithCommas(use.count) + " " + Visible(use.name) + " (" +
            Bytes(use.own_bytes) + ")";
  }
  return text;
}

}  // namespace

std::string ReportToText(const Report& report) {
  std::string text = "Python " + report.python + ": " + WithCommas(report.objects) + " objects, " +
                     Bytes(report.object_bytes);
  for (const auto& [device, bytes] : report.storage_bytes)
    text += "; tensors on " + device + ": " + Bytes(bytes);
  text +=
      "\n\nBy class:\n" + Right("count", 14) + Right("own size", 12) + Right("retained", 12) + "  class\n";
  for (const ClassUse& use : report.classes) {
    text += Right(WithCommas(use.count), 14) + Right(Bytes(use.own_bytes), 12) +
            Right(Bytes(use.retained_bytes), 12) + "  " + Visible(use.name) + "\n";
  }
  if (report.class_count > report.classes.size())
    text += Right("…", 16) + " and " + WithCommas(report.class_count - report.classes.size()) +
            " more classes: --top N\n";
  text += "\nWhat holds most:\n";
  if (report.holders.empty()) text += "  nothing holds much by itself\n";
  for (const Holder& holder : report.holders) {
    text += Right(Bytes(holder.retained_bytes), 12) + "  " + Join(holder.chain) + "\n";
    const std::string holds = HoldsText(holder);
    if (!holds.empty()) text += std::string(14, ' ') + "holds " + holds + "\n";
  }
  return text;
}

std::string ReportToJson(const Report& report) {
  using Json = nlohmann::ordered_json;
  const auto use_to_json = [](const ClassUse& use) {
    return Json{{"class", use.name}, {"count", use.count}, {"own_bytes", use.own_bytes}};
  };
  Json classes = Json::array();
  for (const ClassUse& use : report.classes) {
    Json one = use_to_json(use);
    one["tracked"] = use.tracked;
    one["retained_bytes"] = use.retained_bytes;
    classes.push_back(std::move(one));
  }
  Json holders = Json::array();
  for (const Holder& holder : report.holders) {
    Json holds = Json::array();
    for (const ClassUse& use : holder.holds) holds.push_back(use_to_json(use));
    holders.push_back({{"what", holder.what},
                       {"own_bytes", holder.own_bytes},
                       {"retained_bytes", holder.retained_bytes},
                       {"chain", holder.chain},
                       {"holds", std::move(holds)}});
  }
  const Json all{{"pid", report.pid},
                 {"python", report.python},
                 {"exact", report.is_exact},
                 {"remarks", report.remarks},
                 {"objects", report.objects},
                 {"tracked", report.tracked},
                 {"references", report.references},
                 {"object_bytes", report.object_bytes},
                 {"storage_bytes", report.storage_bytes},
                 {"unread", report.unread},
                 {"class_count", report.class_count},
                 {"classes", std::move(classes)},
                 {"holders", std::move(holders)},
                 {"seconds", report.seconds}};
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace probing::heap
