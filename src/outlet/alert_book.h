// The alerts that are open: says what others have to be told, and when.
//
// A finding is seen again at each diagnosis and ends when two of them miss it, so that one which comes and
// goes is not told each time. A stall is over when it is seen: its alert stays open for some minutes, and
// another stall at the same place keeps it open. Not thread-safe. Times are wall times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "outlet/alert.h"

namespace probing::outlet {

class AlertBook {
 public:
  static constexpr std::size_t kMostOpen = 1000;

  // A finding: it lasts until EndUnseen() says otherwise. False: there are too many.
  bool See(Alert alert, std::int64_t now_ns);
  // A stall: it lasts until then, or until a later one's. False: there are too many.
  bool SeeUntil(Alert alert, std::int64_t now_ns, std::int64_t until_ns);
  // After a diagnosis that has looked at everything.
  void EndUnseen();

  // What began, what has lasted for `repeat_ns` since it was told last, what has ended: with ended_ns, and
  // forgotten from now on.
  std::vector<Alert> Due(std::int64_t now_ns, std::int64_t repeat_ns);
  std::vector<Alert> Open() const;
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    Alert alert;
    std::int64_t told_ns = 0;   // 0: not yet
    std::int64_t until_ns = 0;  // of a stall
    int missed = 0;             // diagnoses in a row
    bool seen = true;           // since the last EndUnseen()
  };

  Entry* Find(Alert&& alert, std::int64_t now_ns);

  std::map<Texts, Entry> entries_;
};

}  // namespace probing::outlet
