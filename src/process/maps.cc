#include "process/maps.h"

#include <algorithm>

#include "base/file.h"
#include "base/text.h"

namespace probing::process {
namespace {

bool ParseLine(std::string_view line, Mapping& mapping) {
  if (!ParseNumber(TakePart(line, '-'), mapping.start, 16)) return false;
  if (!ParseNumber(TakePart(line, ' '), mapping.end, 16)) return false;
  const std::string_view rights = TakePart(line, ' ');
  if (rights.size() != 4 || mapping.end <= mapping.start) return false;
  mapping.readable = rights[0] == 'r';
  mapping.writable = rights[1] == 'w';
  mapping.executable = rights[2] == 'x';
  if (!ParseNumber(TakePart(line, ' '), mapping.file_offset, 16)) return false;
  TakePart(line, ' ');  // device
  if (!ParseNumber(TakePart(line, ' '), mapping.inode, 10)) return false;
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  mapping.path = line;
  return true;
}

}  // namespace

Maps Maps::Parse(std::string_view text) {
  Maps maps;
  while (!text.empty()) {
    Mapping mapping;
    if (ParseLine(TakePart(text, '\n'), mapping)) maps.mappings_.push_back(std::move(mapping));
  }
  return maps;
}

Maps Maps::Of(std::vector<Mapping> mappings) {
  Maps maps;
  maps.mappings_ = std::move(mappings);
  return maps;
}

Result<Maps> Maps::Read(pid_t pid, const std::string& proc_root) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(proc_root + "/" + std::to_string(pid) + "/maps"));
  return Parse(text);
}

const Mapping* Maps::Find(std::uint64_t address) const {
  auto next = std::upper_bound(mappings_.begin(), mappings_.end(), address,
                               [](std::uint64_t a, const Mapping& m) { return a < m.start; });
  if (next == mappings_.begin()) return nullptr;
  --next;
  return next->Contains(address) ? &*next : nullptr;
}

std::vector<Maps::Object> Maps::Objects() const {
  std::vector<Object> objects;
  for (const Mapping& mapping : mappings_) {
    if (mapping.path.empty() || mapping.path.front() != '/') continue;
    const auto same = [&](const Object& o) {
      return o.parts.front().inode == mapping.inode && o.path == mapping.path;
    };
    // From the back: the parts of an object nearly always follow each other.
    const auto known = std::find_if(objects.rbegin(), objects.rend(), same);
    if (known != objects.rend()) {
      known->parts.push_back(mapping);
    } else {
      objects.push_back({mapping.path, mapping.start, {mapping}});
    }
  }
  return objects;
}

std::string_view BaseName(std::string_view path) {
  constexpr std::string_view kDeleted = " (deleted)";
  if (path.ends_with(kDeleted)) path.remove_suffix(kDeleted.size());
  return path.substr(path.rfind('/') + 1);
}

}  // namespace probing::process
