// Memory of another address space, and typed addresses in it.
//
// Memory is an interface because there are several: a live process, a core file, and the
// hostile images of tests and fuzzers. Everything read is untrusted.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "base/result.h"

namespace probing::process {

// An address in a target. Never dereferenced here, so it has a type of its own.
template <typename T = void>
struct RemotePtr {
  std::uint64_t address = 0;

  explicit operator bool() const { return address != 0; }
  RemotePtr operator+(std::uint64_t offset_bytes) const { return {address + offset_bytes}; }
  template <typename U>
  RemotePtr<U> As() const {
    return {address};
  }
  auto operator<=>(const RemotePtr&) const = default;
};

using RemoteAddress = RemotePtr<void>;

class Memory {
 public:
  virtual ~Memory() = default;

  // Fills `out` entirely or fails.
  virtual Result<void> Read(RemoteAddress from, std::span<std::byte> out) const = 0;

  template <typename T>
  Result<T> ReadValue(RemotePtr<T> from) const {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    RETURN_IF_ERROR(Read(from.template As<void>(), std::as_writable_bytes(std::span(&value, 1))));
    return value;
  }

  // Many small pieces at once: all of them or failure. A live process answers in one system
  // call per thousand, which also keeps the pieces close together in time.
  struct Piece {
    RemoteAddress from;
    std::span<std::byte> out;
  };
  virtual Result<void> ReadPieces(std::span<const Piece> pieces) const;

  // A NUL-terminated string of at most `max_bytes`; a longer one is cut, not an error.
  Result<std::string> ReadCString(RemoteAddress from, std::size_t max_bytes) const;
};

// A live process, read and written without stopping it (process_vm_readv/writev).
class ProcessMemory final : public Memory {
 public:
  explicit ProcessMemory(pid_t pid) : pid_(pid) {}

  Result<void> Read(RemoteAddress from, std::span<std::byte> out) const override;
  Result<void> ReadPieces(std::span<const Piece> pieces) const override;
  Result<void> Write(RemoteAddress to, std::span<const std::byte> data) const;

  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

}  // namespace probing::process
