#include "unwind/debug_files.h"

#include <array>
#include <cstdlib>
#include <vector>

#include "base/byte_reader.h"
#include "process/byte_memory.h"
#include "unwind/decompress.h"

namespace probing::unwind {
namespace {

constexpr std::uint64_t kMaxDebugDataBytes = 64 << 20;
constexpr std::uint64_t kMaxLinkBytes = 4096;
constexpr std::uint64_t kMaxChecksumBytes = 1ULL << 30;
constexpr std::size_t kChunkBytes = 1 << 20;
constexpr std::size_t kFewestIdBytes = 3;

std::string Hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4U];
    text += kDigits[static_cast<unsigned char>(byte) & 0xfU];
  }
  return text;
}

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// As debuginfod_find_debuginfo(3) chooses them.
std::vector<std::string> CacheFolders() {
  std::vector<std::string> folders;
  if (const std::string path = Environment("DEBUGINFOD_CACHE_PATH"); !path.empty()) folders.push_back(path);
  if (const std::string path = Environment("XDG_CACHE_HOME"); !path.empty())
    folders.push_back(path + "/debuginfod_client");
  if (const std::string home = Environment("HOME"); !home.empty()) {
    folders.push_back(home + "/.cache/debuginfod_client");
    folders.push_back(home + "/.debuginfod_client_cache");
  }
  return folders;
}

std::vector<std::string> PathsOfBuildId(const std::string& id, const std::string& root) {
  const std::string hex = Hex(id);
  const std::string file = "/usr/lib/debug/.build-id/" + hex.substr(0, 2) + "/" + hex.substr(2) + ".debug";
  std::vector<std::string> paths{root + file};
  if (!root.empty()) paths.push_back(file);
  for (const std::string& folder : CacheFolders()) paths.push_back(folder + "/" + hex + "/debuginfo");
  return paths;
}

struct DebugLink {
  std::string name;
  std::uint32_t checksum = 0;
};

std::optional<DebugLink> ReadDebugLink(const ElfFile& object) {
  const auto section = object.OpenSection(".gnu_debuglink");
  if (!section.ok()) return std::nullopt;
  const auto bytes = section->ReadUpTo(0, kMaxLinkBytes);
  if (!bytes.ok()) return std::nullopt;
  ByteReader reader(*bytes);
  DebugLink link;
  link.name = reader.TakeCString();
  (void)reader.TakeBytes((4 - reader.position() % 4) % 4);
  link.checksum = reader.Take<std::uint32_t>();
  // A name, not a path: it must not lead anywhere else.
  if (!reader.ok() || link.name.empty() || link.name.find('/') != std::string::npos || link.name == "..")
    return std::nullopt;
  return link;
}

std::uint32_t ExtendCrc32(std::uint32_t crc, std::span<const std::byte> bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> all{};
    for (std::uint32_t i = 0; i < all.size(); ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value & 1U) != 0 ? 0xedb88320U ^ (value >> 1U) : value >> 1U;
      all[i] = value;
    }
    return all;
  }();
  crc = ~crc;
  for (const std::byte byte : bytes)
    crc = table[(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xffU] ^ (crc >> 8U);
  return ~crc;
}

// Read to its end, which is the first byte that cannot be read.
bool HasChecksum(const process::Memory& file, std::uint32_t wanted) {
  std::uint32_t crc = 0;
  std::vector<std::byte> chunk(kChunkBytes);
  std::uint64_t at = 0;
  for (std::size_t size = kChunkBytes; size > 0 && at < kMaxChecksumBytes;) {
    const auto part = std::span(chunk).first(size);
    if (!file.Read({at}, part).ok()) {
      size /= 2;
      continue;
    }
    crc = ExtendCrc32(crc, part);
    at += size;
  }
  return crc == wanted;
}

bool HasSymbols(const ElfFile& file) { return file.Has(".symtab") || file.Has(".debug_info"); }

}  // namespace

std::string RootOf(const std::string& object_path) {
  constexpr std::string_view kProc = "/proc/";
  constexpr std::string_view kRoot = "/root/";
  if (!object_path.starts_with(kProc)) return "";
  const std::size_t slash = object_path.find('/', kProc.size());
  if (slash == std::string::npos || object_path.compare(slash, kRoot.size(), kRoot) != 0) return "";
  return object_path.substr(0, slash + kRoot.size() - 1);
}

std::optional<ElfFile> FindDebugFile(const ElfFile& object, const std::string& object_path) {
  const std::string root = RootOf(object_path);
  const std::string id = object.BuildId();
  if (id.size() >= kFewestIdBytes) {
    for (const std::string& path : PathsOfBuildId(id, root)) {
      auto file = ElfFile::Open(path);
      if (file.ok() && file->BuildId() == id && HasSymbols(*file)) return std::move(*file);
    }
  }
  const auto link = ReadDebugLink(object);
  if (!link) return std::nullopt;
  const std::string folder = object_path.substr(0, object_path.rfind('/'));
  const std::string inner_folder = folder.substr(root.size());
  for (const std::string& path : {folder + "/" + link->name, folder + "/.debug/" + link->name,
                                  root + "/usr/lib/debug" + inner_folder + "/" + link->name,
                                  "/usr/lib/debug" + inner_folder + "/" + link->name}) {
    auto file = ElfFile::Open(path);
    if (!file.ok() || !HasSymbols(*file)) continue;
    const bool same = id.empty() ? HasChecksum(*file->memory(), link->checksum) : file->BuildId() == id;
    if (same) return std::move(*file);
  }
  return std::nullopt;
}

std::optional<ElfFile> OpenDebugData(const ElfFile& object) {
  const auto section = object.OpenSection(".gnu_debugdata");
  if (!section.ok()) return std::nullopt;
  const auto compressed = section->Read(0, section->size());
  if (!compressed.ok()) return std::nullopt;
  const auto bytes = Unxz(*compressed, kMaxDebugDataBytes);
  if (!bytes.ok()) return std::nullopt;
  auto file = ElfFile::Load(std::make_shared<process::ByteMemory>(0, *bytes));
  return file.ok() ? std::optional(std::move(*file)) : std::nullopt;
}

}  // namespace probing::unwind
