#include "unwind/decompress.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>

namespace probing::unwind {
namespace {

// No more than this comes out of one byte: claims beyond it are not believed, and not allocated.
constexpr std::size_t kMaxRatio = 16 << 10;
constexpr std::uint64_t kXzMemoryLimit = 256 << 20;

// As zlib.h, zstd.h and lzma.h declare them.
using UncompressFunction = int (*)(unsigned char*, unsigned long*, const unsigned char*, unsigned long);
using ZstdFunction = std::size_t (*)(void*, std::size_t, const void*, std::size_t);
using XzFunction = int (*)(std::uint64_t*, std::uint32_t, const void*, const std::uint8_t*, std::size_t*,
                           std::size_t, std::uint8_t*, std::size_t*, std::size_t);
constexpr int kZlibOk = 0;
constexpr int kXzOk = 0;
constexpr int kXzNeedsRoom = 10;  // LZMA_BUF_ERROR

// Null when the library is not there. It stays loaded.
template <typename Function>
Function Load(const char* library, const char* name) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  return handle == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(handle, name));
}

Error Missing(const char* library) {
  return {Code::kNotFound, std::string(library) + " is not installed",
          "it reads compressed debug information"};
}
Error Damaged() { return {Code::kFailed, "compressed debug information is damaged", ""}; }

bool IsPlausible(std::span<const std::byte> compressed, std::size_t size_bytes) {
  return size_bytes <= kMaxDecompressedBytes && size_bytes / kMaxRatio <= compressed.size();
}

}  // namespace

Result<std::vector<std::byte>> Inflate(std::span<const std::byte> compressed, std::size_t size_bytes) {
  static const auto uncompress = Load<UncompressFunction>("libz.so.1", "uncompress");
  if (uncompress == nullptr) return Missing("libz.so.1");
  if (!IsPlausible(compressed, size_bytes)) return Damaged();
  std::vector<std::byte> out(size_bytes);
  unsigned long written = out.size();
  const int status = uncompress(reinterpret_cast<unsigned char*>(out.data()), &written,
                                reinterpret_cast<const unsigned char*>(compressed.data()), compressed.size());
  if (status != kZlibOk || written != out.size()) return Damaged();
  return out;
}

Result<std::vector<std::byte>> Unzstd(std::span<const std::byte> compressed, std::size_t size_bytes) {
  static const auto decompress = Load<ZstdFunction>("libzstd.so.1", "ZSTD_decompress");
  if (decompress == nullptr) return Missing("libzstd.so.1");
  if (!IsPlausible(compressed, size_bytes)) return Damaged();
  std::vector<std::byte> out(size_bytes);
  // Errors are sizes that no buffer has.
  if (decompress(out.data(), out.size(), compressed.data(), compressed.size()) != out.size())
    return Damaged();
  return out;
}

Result<std::vector<std::byte>> Unxz(std::span<const std::byte> compressed, std::size_t max_bytes) {
  static const auto decode = Load<XzFunction>("liblzma.so.5", "lzma_stream_buffer_decode");
  if (decode == nullptr) return Missing("liblzma.so.5");
  // How much it is stands nowhere in front.
  for (std::size_t size = std::min(max_bytes, compressed.size() * 8);; size = std::min(max_bytes, size * 4)) {
    std::vector<std::byte> out(size);
    std::uint64_t memory_limit = kXzMemoryLimit;
    std::size_t read = 0;
    std::size_t written = 0;
    const int status =
        decode(&memory_limit, 0, nullptr, reinterpret_cast<const std::uint8_t*>(compressed.data()), &read,
               compressed.size(), reinterpret_cast<std::uint8_t*>(out.data()), &written, out.size());
    if (status == kXzNeedsRoom && size < max_bytes && size > 0) continue;
    if (status != kXzOk) return Damaged();
    out.resize(written);
    return out;
  }
}

}  // namespace probing::unwind
