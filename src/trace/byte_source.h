// The bytes of a file, piece by piece, unpacked when it is a .gz: what a file unpacks to may be far larger
// than memory.
//
// Not thread-safe. Bytes are untrusted: one that cannot be unpacked ends them, and error() says why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/scoped_fd.h"

namespace probing::trace {

class ByteSource {
 public:
  // Of a regular file.
  static Result<std::unique_ptr<ByteSource>> Open(const std::string& path);
  // Of bytes that outlive it.
  static std::unique_ptr<ByteSource> Of(std::string_view bytes);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // Whether there is one more byte, which Take() gives then.
  bool HasMore() { return at_ != end_ || Fill(); }
  char Peek() const { return *at_; }
  void Skip() { ++at_; }

  std::uint64_t position() const { return before_ + static_cast<std::uint64_t>(at_ - begin_); }
  // Why the bytes ended early; nothing when they did not.
  const std::string& error() const { return error_; }

 private:
  struct Unpacker;
  ByteSource();
  void BeginUnpacking();
  bool Fill();
  bool FillRaw();
  bool FillUnpacked();
  bool Give(const char* bytes, std::size_t size);

  ScopedFd file_;
  std::string_view raw_;  // read and not yet used
  std::string raw_bytes_;
  std::string unpacked_;
  std::unique_ptr<Unpacker> unpacker_;
  const char* begin_ = nullptr;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  std::uint64_t before_ = 0;
  std::string error_;
};

}  // namespace probing::trace
