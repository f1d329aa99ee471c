// Texts that travel inside of the programs, for agents.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace probing::skills {

struct Document {
  std::string_view name;  // "probing-hang", "guides/hang"
  std::string_view text;  // Markdown; of a skill with its front matter
};

// src/skills/NAME/SKILL.md.
std::span<const Document> Skills();
// Of docs/.
std::span<const Document> Guides();

const Document* Find(std::span<const Document> documents, std::string_view name);
// A value of the front matter, as in "description"; "" when there is none.
std::string_view HeaderOf(const Document& document, std::string_view key);
// What follows the front matter.
std::string_view BodyOf(const Document& document);
// The first heading.
std::string_view TitleOf(const Document& document);

}  // namespace probing::skills
