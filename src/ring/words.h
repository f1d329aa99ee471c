// Memory that others read or write at the same moment is touched only through these.
//
// They are relaxed atomics of whole words, so that a torn value cannot be seen and the thread
// sanitizer knows that the race is meant. What orders them is said where they are used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace probing::ring {

template <typename T>
inline T Load(const T* from) {
  return __atomic_load_n(from, __ATOMIC_RELAXED);
}
template <typename T>
inline T LoadAcquire(const T* from) {
  return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}
template <typename T, typename V>
inline void Store(T* to, V value) {
  __atomic_store_n(to, static_cast<T>(value), __ATOMIC_RELAXED);
}
template <typename T, typename V>
inline void StoreRelease(T* to, V value) {
  __atomic_store_n(to, static_cast<T>(value), __ATOMIC_RELEASE);
}
inline void Add(std::uint64_t* to, std::uint64_t value) { __atomic_fetch_add(to, value, __ATOMIC_RELAXED); }

// What was stored before is seen before what is stored after, and the same for loads. On x86-64
// both are a word to the compiler and no instruction. The thread sanitizer does not model fences;
// it has no need to, since everything around them is atomic.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif
inline void FenceRelease() { __atomic_thread_fence(__ATOMIC_RELEASE); }
inline void FenceAcquire() { __atomic_thread_fence(__ATOMIC_ACQUIRE); }
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

// Out of shared memory. `to` is bytes of ours, with any alignment and of any type later.
inline void CopyWords(void* to, const std::uint64_t* from, std::size_t words) {
  char* bytes = static_cast<char*>(to);
  for (std::size_t i = 0; i < words; ++i) {
    const std::uint64_t word = Load(from + i);
    std::memcpy(bytes + i * 8, &word, 8);
  }
}

// The up to eight bytes that are left of a string, zeros behind them. Without a call of memcpy(),
// which would take longer than everything else about a short string.
inline std::uint64_t WordOf(const char* bytes, std::size_t left) {
  if (left >= 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes, 8);
    return word;
  }
  if (left >= 4) {
    std::uint32_t begin;
    std::uint32_t end;  // overlaps, with the same bits
    std::memcpy(&begin, bytes, 4);
    std::memcpy(&end, bytes + left - 4, 4);
    return begin | static_cast<std::uint64_t>(end) << (8 * (left - 4));
  }
  if (left == 0) return 0;
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  };
  return byte(0) | byte(left / 2) | byte(left - 1);
}

// Writes a dictionary or heap entry: the length, then the bytes padded with zeros.
inline void WriteEntry(std::uint64_t* to, const char* bytes, std::size_t length) {
  Store(to, length);
  std::size_t i = 0;
  for (; i + 8 <= length; i += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes + i, 8);
    Store(++to, word);
  }
  if (i < length) Store(++to, WordOf(bytes + i, length - i));
}

}  // namespace probing::ring
