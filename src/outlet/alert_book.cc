#include "outlet/alert_book.h"

#include <algorithm>

namespace probing::outlet {
namespace {

constexpr int kMissesToEnd = 2;

}  // namespace

AlertBook::Entry* AlertBook::Find(Alert&& alert, std::int64_t now_ns) {
  const auto found = entries_.find(alert.labels);
  if (found == entries_.end() && entries_.size() >= kMostOpen) return nullptr;
  if (alert.begun_ns == 0) alert.begun_ns = now_ns;
  if (found == entries_.end()) {
    Texts key = alert.labels;
    return &entries_.emplace(std::move(key), Entry{.alert = std::move(alert)}).first->second;
  }
  // The same thing, better known.
  alert.begun_ns = std::min(alert.begun_ns, found->second.alert.begun_ns);
  found->second.alert = std::move(alert);
  return &found->second;
}

bool AlertBook::See(Alert alert, std::int64_t now_ns) {
  Entry* entry = Find(std::move(alert), now_ns);
  if (entry == nullptr) return false;
  entry->seen = true;
  return true;
}

bool AlertBook::SeeUntil(Alert alert, std::int64_t now_ns, std::int64_t until_ns) {
  Entry* entry = Find(std::move(alert), now_ns);
  if (entry == nullptr) return false;
  entry->until_ns = std::max(entry->until_ns, until_ns);
  return true;
}

void AlertBook::EndUnseen() {
  for (auto& [labels, entry] : entries_) {
    entry.missed = entry.seen ? 0 : entry.missed + 1;
    entry.seen = false;
  }
}

std::vector<Alert> AlertBook::Due(std::int64_t now_ns, std::int64_t repeat_ns) {
  std::vector<Alert> due;
  for (auto each = entries_.begin(); each != entries_.end();) {
    Entry& entry = each->second;
    const bool has_ended = entry.until_ns != 0 ? now_ns >= entry.until_ns : entry.missed >= kMissesToEnd;
    if (entry.told_ns == 0 || has_ended || now_ns - entry.told_ns >= repeat_ns) {
      due.push_back(entry.alert);
      if (has_ended) due.back().ended_ns = now_ns;
      entry.told_ns = now_ns;
    }
    each = has_ended ? entries_.erase(each) : std::next(each);
  }
  return due;
}

std::vector<Alert> AlertBook::Open() const {
  std::vector<Alert> open;
  for (const auto& [labels, entry] : entries_) open.push_back(entry.alert);
  return open;
}

}  // namespace probing::outlet
