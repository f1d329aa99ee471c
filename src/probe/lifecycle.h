// How the probe comes to life in a process and how it leaves.
//
// Loading the library runs its constructor, which starts one thread and returns. `eject` ends
// that thread and, if an injector loaded the library, unmaps it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace probing::probe {

// How the library got into this process.
enum class Origin : std::uint8_t { kInjected, kPreloaded, kImported };
std::string_view OriginName(Origin which);

Origin ThisOrigin();
std::string LibraryPath();  // as the loader knows it
std::int64_t StartedNs();   // wall clock

// While one exists no fork happens in this process. Held for the few instructions between the
// birth of a descriptor and ForkClosed::Add(), so that no child gets one it does not know of.
class NoForkNow {
 public:
  NoForkNow();
  ~NoForkNow();
  NoForkNow(const NoForkNow&) = delete;
  NoForkNow& operator=(const NoForkNow&) = delete;
};

// Descriptors that a forked child must not keep: it closes them in an atfork handler, where
// neither locks nor memory of the parent's threads can be trusted. A fixed table, lock-free.
class ForkClosed {
 public:
  static void Add(int fd);
  static void Remove(int fd);
};

}  // namespace probing::probe
