// Lines of the system's log: journald's own protocol where it runs, otherwise what syslog(3) writes to
// /dev/log.
//
// Nothing is waited for: a log that does not take a line at once does not get it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "outlet/alert.h"

namespace probing::outlet {

class SystemLog {
 public:
  // "on", or the path of a socket; one that is called …/journal/socket speaks journald's protocol.
  explicit SystemLog(std::string_view place) : place_(place) {}

  const std::string& place() const { return place_; }
  // `severity` is error, warning or info. The fields are for journald, and have names like PROBING_CLASS;
  // none of their values and no line has a line end.
  Result<void> Write(std::string_view severity, std::string_view line, const Texts& fields) const;

 private:
  std::string place_;
};

}  // namespace probing::outlet
