// What probingd answers instead of an answer: {"error": {code, message, hint}}.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "wire/contract.h"

namespace probing::net {

// The error that an answer is, if it is one. Who sent it need not be a friend: what is no text is "". (A
// template, because the JSON library throws, and nothing of this folder may.)
template <typename Json>
std::optional<Error> ErrorIn(const Json& answer) {
  const auto error = answer.is_object() ? answer.find("error") : answer.end();
  if (error == answer.end() || !error->is_object()) return std::nullopt;
  const auto text = [&](const char* field) {
    const auto found = error->find(field);
    return found != error->end() && found->is_string() ? found->template get<std::string>() : std::string();
  };
  return Error{wire::CodeFromName(text("code")), text("message"), text("hint")};
}

}  // namespace probing::net
