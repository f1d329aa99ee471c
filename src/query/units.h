// What the numbers of a result are measured in, for the table that people read: 1.2 GB instead of 1288490189.
// Units come from the declarations of the tables that the SQL names. A column has one when it is a column of
// such a table or an aggregate of one that keeps the unit (max, avg, sum, …), also under another name;
// anything that was computed has none and stays the number it is.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace probing::query {

class Units {
 public:
  explicit Units(std::string_view sql);

  // "bytes", "s", "ms"…; "" for none. `column` is a name in the result: "rss", "max(rss)".
  std::string_view UnitOf(std::string_view column) const;

 private:
  std::map<std::string, std::string_view, std::less<>> units_;  // by lower-case name
};

// "1.2 GB", "3.45 ms", "12.3 %"; with no unit at most six digits. `text` is the exact number.
std::string HumanNumber(const std::string& text, std::string_view unit, bool is_integer);

}  // namespace probing::query
