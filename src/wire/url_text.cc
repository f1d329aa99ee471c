#include "wire/url_text.h"

#include "base/text.h"

namespace probing::wire {

std::string PercentDecoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    if (text[i] == '%' && i + 2 < text.size() && ParseNumber(text.substr(i + 1, 2), byte, 16)) {
      decoded += static_cast<char>(byte);
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

bool TakeUser(std::string_view& rest, std::string& user, std::string& password) {
  const std::size_t at = rest.substr(0, rest.find('/')).rfind('@');
  if (at == std::string_view::npos) return true;
  std::string_view who = rest.substr(0, at);
  rest.remove_prefix(at + 1);
  user = PercentDecoded(TakePart(who, ':'));
  password = PercentDecoded(who);
  // They travel in lines of their own.
  return (user + password).find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos;
}

}  // namespace probing::wire
