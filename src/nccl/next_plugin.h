// The profiler plugin behind us: NCCL loads one, so we pass on to another what it asks for.
//
// Named by PROBING_NCCL_NEXT as NCCL_PROFILER_PLUGIN would name it. It may be of an older version of the
// interface than the one NCCL speaks with us.
#pragma once

#include "nccl/context.h"
#include "nccl/profiler_abi.h"

namespace probing::nccl {

struct Communicator {
  const char* name;
  std::uint64_t hash;
  int nodes, ranks, rank;
  Logger log;
};

class NextPlugin {
 public:
  // The one of this process, loaded at the first call; without one, nothing is passed on. Not hot.
  static NextPlugin& Get(int version, Logger log);
  // The same, of one that is loaded; null without one. Hot.
  static NextPlugin* Loaded();

  // Fills `next` and `next_mask` of the context; the mask that it asks NCCL for is returned. Not hot.
  int Init(const Communicator& communicator, Context& context);
  void Finalize(Context& context);

  // Handles of parents in `descriptor` are ours: they are replaced in a copy. `size` is of NCCL's descriptor.
  void* Start(const Context& context, const Descriptor& descriptor, std::size_t size);
  void Stop(void* handle);
  void Record(void* handle, int state, StateArgs* args);

 private:
  void Load(int version, Logger log);

  int version_ = 0;  // of the interface it has; 0: there is none
  const ProfilerV4* v4_ = nullptr;
  const ProfilerV5* v5_ = nullptr;  // also v6
};

}  // namespace probing::nccl
