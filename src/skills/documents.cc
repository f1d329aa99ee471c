#include "skills/documents.h"

#include "base/text.h"

namespace probing::skills {
namespace {

constexpr std::string_view kFence = "---\n";

}  // namespace

const Document* Find(std::span<const Document> documents, std::string_view name) {
  for (const Document& document : documents) {
    if (document.name == name) return &document;
  }
  return nullptr;
}

std::string_view BodyOf(const Document& document) {
  if (!document.text.starts_with(kFence)) return document.text;
  const std::size_t end = document.text.find("\n---\n");
  return end == std::string_view::npos ? document.text : Trim(document.text.substr(end + 5), "\n");
}

std::string_view HeaderOf(const Document& document, std::string_view key) {
  if (!document.text.starts_with(kFence)) return {};
  std::string_view rest = document.text.substr(kFence.size(), document.text.find("\n---\n"));
  while (!rest.empty()) {
    std::string_view value = TakePart(rest, '\n');
    if (TakePart(value, ':') == key) return Trim(value, " ");
  }
  return {};
}

std::string_view TitleOf(const Document& document) {
  for (std::string_view rest = BodyOf(document); !rest.empty();) {
    const std::string_view line = TakePart(rest, '\n');
    if (line.starts_with("# ")) return line.substr(2);
  }
  return document.name;
}

}  // namespace probing::skills
