// What the evaluation under way has printed and nobody has sent yet.
//
// One evaluation runs at a time, so there is one of these. The evaluating thread appends with the GIL; the
// probe's thread takes without it. The lock is held for the copy of a few bytes only.
#pragma once

#include <string>
#include <string_view>

namespace probing::console {

struct Printed {
  std::string out, err;
  bool empty() const { return out.empty() && err.empty(); }
  void Add(const Printed& more) {
    out += more.out;
    err += more.err;
  }
};

class Output {
 public:
  enum class Stream : unsigned char { kOut, kErr };

  // The eventfd that becomes readable when there is something again; −1 for none.
  static void WakeBy(int event_fd);
  static void Append(Stream stream, std::string_view text);
  static Printed Take();
};

}  // namespace probing::console
