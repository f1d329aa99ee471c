#include "observe/gpu/gpu_sampler.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/clock.h"
#include "base/thread.h"

namespace probing::observe {
namespace {

constexpr std::size_t kStackBytes = 4U << 20;  // the driver's code is not ours to measure

}  // namespace

struct GpuSampler::Shared {
  std::string library;
  std::mutex mutex;
  std::condition_variable changed;
  bool started = false;
  bool wanted = false;
  bool stop = false;
  Sample last;
};

GpuSampler::GpuSampler(std::string library) : shared_(std::make_shared<Shared>()) {
  shared_->library = std::move(library);
}

GpuSampler::~GpuSampler() {
  const std::lock_guard lock(shared_->mutex);
  shared_->stop = true;
  shared_->changed.notify_all();
}

GpuSampler::Sample GpuSampler::TakeLast() {
  const std::lock_guard lock(shared_->mutex);
  if (!shared_->started) {
    shared_->started = true;
    auto* argument = new std::shared_ptr<Shared>(shared_);  // NOLINT: the thread takes it over
    const auto thread = StartQuietThread(&RunThread, argument, kStackBytes, "probing-gpu");
    if (thread.ok()) {
      pthread_detach(*thread);
    } else {
      delete argument;  // NOLINT
    }
  }
  shared_->wanted = true;
  shared_->changed.notify_all();
  return std::exchange(shared_->last, Sample{});
}

void* GpuSampler::RunThread(void* argument) {
  const std::unique_ptr<std::shared_ptr<Shared>> shared(static_cast<std::shared_ptr<Shared>*>(argument));
  Run(**shared);
  return nullptr;
}

void GpuSampler::Run(Shared& shared) {
  const std::unique_ptr<Gpus> gpus = Gpus::Load(shared.library);
  if (!gpus->available()) return;
  std::unique_lock lock(shared.mutex);
  while (true) {
    shared.changed.wait(lock, [&] { return shared.wanted || shared.stop; });
    if (shared.stop) return;
    shared.wanted = false;
    lock.unlock();
    Sample sample{WallNs(), gpus->Look()};
    lock.lock();
    shared.last = std::move(sample);
  }
}

}  // namespace probing::observe
