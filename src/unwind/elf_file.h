// ElfFile: an ELF file on disk, section by section.
//
// Sections are read with pread, so that a file that shrinks meanwhile gives errors, not SIGBUS; compressed
// ones are decompressed as a whole when they are opened. Everything is bounded and untrusted. Immutable, so
// thread-safe.
#pragma once

#include <elf.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "process/memory.h"

namespace probing::unwind {

// A regular file as Memory: addresses are offsets.
Result<std::unique_ptr<const process::Memory>> OpenFileAsMemory(const std::string& path);

// The bytes of one section.
class Section {
 public:
  Section() = default;  // empty
  Section(std::shared_ptr<const process::Memory> memory, std::uint64_t start, std::uint64_t size)
      : memory_(std::move(memory)), start_(start), size_(size) {}

  std::uint64_t size() const { return size_; }
  // Errors when it goes beyond the end.
  Result<std::vector<std::byte>> Read(std::uint64_t offset, std::uint64_t size) const;
  // Up to `size` bytes: fewer at the end of the section.
  Result<std::vector<std::byte>> ReadUpTo(std::uint64_t offset, std::uint64_t size) const;
  // "" beyond the end.
  std::string ReadCString(std::uint64_t offset) const;

 private:
  std::shared_ptr<const process::Memory> memory_;  // shared with the file and its other sections
  std::uint64_t start_ = 0;
  std::uint64_t size_ = 0;
};

class ElfFile {
 public:
  static Result<ElfFile> Load(std::shared_ptr<const process::Memory> file);
  static Result<ElfFile> Open(const std::string& path);

  bool Has(std::string_view section) const { return Find(section) != nullptr; }
  // kNotFound: there is none, or it has no content here (a debug file's .text).
  Result<Section> OpenSection(std::string_view name) const;
  // Null when there is none.
  const Elf64_Shdr* Find(std::string_view name) const;

  const std::vector<Elf64_Shdr>& sections() const { return sections_; }
  const std::vector<Elf64_Phdr>& segments() const { return segments_; }
  const std::shared_ptr<const process::Memory>& memory() const { return memory_; }

  // Its bytes; "" when it has none.
  std::string BuildId() const;

 private:
  std::shared_ptr<const process::Memory> memory_;
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<std::string> names_;  // of sections_
};

}  // namespace probing::unwind
