#include "torch/flight_recorder.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <map>
#include <vector>

#include "base/clock.h"
#include "base/thread.h"
#include "record/overhead.h"
#include "record/recorder.h"
#include "table/flight_rows.h"
#include "torch/guarded_call.h"
#include "torch/job_place.h"

namespace probing::torch {

using record::Recorder;
using record::TableHandle;

namespace {

using table::FlightEntry;
using table::FlightRecording;

constexpr std::size_t kStackBytes = 2U << 20;  // torch's pickler runs on it
constexpr std::size_t kMaxDumpBytes = 256U << 20;
constexpr std::size_t kMaxValues = 2'000'000;

// std::string as libstdc++ has it since GCC 5: the "cxx11" in the names below.
struct ForeignString {
  char* data;
  std::size_t size;
  char local[16];
};

// std::string dump(bool include_collectives, bool include_stacks, bool only_active): what returns an object
// of a class gets its address first.
using Dump = void (*)(ForeignString* result, bool collectives, bool stacks, bool only_active);

struct DumpName {
  const char* library;
  const char* symbol;
};
// The one of CUDA knows NCCL's, the other one those of gloo. Stacks would need the GIL.
constexpr std::array kDumps{
    DumpName{"libtorch_cuda.so", "_ZN4c10d15dump_nccl_traceB5cxx11Ebbb"},
    DumpName{"libtorch_cpu.so", "_ZN4c10d13dump_fr_traceB5cxx11Ebbb"},
};

struct Call {
  Dump dump = nullptr;
  ForeignString result{};
};

void CallDump(void* argument) {
  auto* call = static_cast<Call*>(argument);
  call->dump(&call->result, /*collectives=*/true, /*stacks=*/false, /*only_active=*/false);
}

// The library if it is in the process already; it stays the job's.
void* FindLibrary(const char* name) {
  void* library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
  if (library != nullptr) dlclose(library);  // our count only
  return library;
}

Dump FindDump(const DumpName& name, void** library) {
  *library = FindLibrary(name.library);
  return *library == nullptr ? nullptr : reinterpret_cast<Dump>(dlsym(*library, name.symbol));
}

// A copy of what the function returns, whose memory goes back to where it came from.
std::string TakeDump(Dump dump, void* library) {
  using Delete = void (*)(void*);
  void* found = dlsym(RTLD_DEFAULT, "_ZdlPv");
  if (found == nullptr) found = dlsym(library, "_ZdlPv");
  if (found == nullptr || !PrepareGuardedCall(library)) return "";
  Call call{.dump = dump};
  if (!GuardedCall(&CallDump, &call)) return "";
  std::string copy(call.result.data, std::min(call.result.size, kMaxDumpBytes));
  if (call.result.data != call.result.local) reinterpret_cast<Delete>(found)(call.result.data);
  return copy;
}

// Of the calling thread, since it began.
std::int64_t CpuNsOfThread() {
  timespec spent{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return spent.tv_sec * 1'000'000'000LL + spent.tv_nsec;
}

// ── what was written already ──

constexpr std::size_t kOwn = 8192;
std::array<std::atomic<std::uint64_t>, kOwn> own_calls{};

std::uint64_t KeyOf(std::string_view group, std::int64_t seq) {
  std::uint64_t key = 0xcbf29ce484222325U;
  for (const char c : group) key = (key ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return (key ^ static_cast<std::uint64_t>(seq)) * 0x100000001b3U | 1;
}

bool IsOwn(const FlightEntry& entry) {
  if (entry.is_p2p) return false;
  const std::uint64_t key = KeyOf(entry.group, entry.seq);
  return own_calls[key / 2 % kOwn].load(std::memory_order_relaxed) == key;
}

// Of each recorder: one process may have two. Belongs to the thread that reads.
struct Progress {
  std::int64_t last_id = -1;                     // the newest that has a row of python.collective_starts
  std::vector<FlightEntry> under_way;            // those without a row of python.collectives
  std::map<std::string, std::int64_t> enqueued;  // of each group, in its last row of python.process_groups
};
std::array<Progress, kDumps.size()>* progress = nullptr;  // never freed: no destructor may run at exit

std::array<Progress, kDumps.size()>& TheProgress() {
  if (progress == nullptr) progress = new std::array<Progress, kDumps.size()>();
  return *progress;
}

class Writer {
 public:
  struct Tables {
    TableHandle& starts;
    TableHandle& ends;
    TableHandle& groups;
  };
  Writer(const FlightRecording& recording, Tables tables) : recording_(recording), tables_(tables) {}

  void Write(Progress& seen) {
    const std::int64_t newest = recording_.entries.empty() ? -1 : recording_.entries.back().record_id;
    if (newest < seen.last_id) seen = {};  // the recorder was reset: its numbers begin again
    std::vector<FlightEntry> still;
    for (FlightEntry& known : seen.under_way) {
      const FlightEntry* now = Find(known.record_id);
      // One that thousands came after is over.
      if (now != nullptr && !now->is_over) {
        still.push_back(std::move(known));
      } else if (!IsOwn(known)) {
        WriteEnd(now == nullptr ? known : *now);
      }
    }
    seen.under_way = std::move(still);
    for (const FlightEntry& entry : recording_.entries) {
      if (entry.record_id <= seen.last_id || IsOwn(entry)) continue;
      const std::string members = MembersOf(recording_, entry.group);
      tables_.starts.Write(CollectiveStartRow(entry, members));
      if (entry.is_over)
        WriteEnd(entry);
      else
        seen.under_way.push_back(entry);
    }
    seen.last_id = std::max(seen.last_id, newest);
    WriteGroups(seen);
  }

 private:
  void WriteEnd(const FlightEntry& entry) {
    const std::string members = MembersOf(recording_, entry.group);
    tables_.ends.Write(CollectiveRow(entry, members));
  }

  // Those that have gone on since.
  void WriteGroups(Progress& seen) {
    const std::int64_t now_ns = WallNs();
    for (const auto& [name, group] : recording_.groups) {
      const auto known = seen.enqueued.find(name);
      if (known != seen.enqueued.end() && known->second == group.enqueued.value_or(-1)) continue;
      seen.enqueued[name] = group.enqueued.value_or(-1);
      const std::string members = MembersOf(recording_, name);
      tables_.groups.Write(ProcessGroupRow(now_ns, name, group, members));
    }
  }

  // In the order of their numbers.
  const FlightEntry* Find(std::int64_t id) const {
    const auto found = std::ranges::lower_bound(recording_.entries, id, {}, &FlightEntry::record_id);
    return found == recording_.entries.end() || found->record_id != id ? nullptr : &*found;
  }

  const FlightRecording& recording_;
  const Tables tables_;
};

}  // namespace

bool HasFlightRecorder() {
  if (!NotedJobPlace()) return false;
  return std::ranges::any_of(kDumps, [](const DumpName& name) {
    void* library = nullptr;
    return FindDump(name, &library) != nullptr;
  });
}

Result<void> FlightReader::Start() {
  if (running_) return {};
  if (!HasFlightRecorder()) {
    return Error{Code::kNotFound, "torch's Flight Recorder cannot be read in this process",
                 "it needs a process group and a torch that exports c10d::dump_fr_trace"};
  }
  over_ = false;  // of a farewell that came to nothing
  done_.store(false);
  Result<pthread_t> started = StartQuietThread(&Run, this, kStackBytes, "probing-flight");
  if (!started.ok()) return started.error();
  thread_ = *started;
  running_ = true;
  return {};
}

void* FlightReader::Run(void* self) {
  auto* reader = static_cast<FlightReader*>(self);
  for (std::size_t i = 0; i < kDumps.size(); ++i) {
    void* library = nullptr;
    const Dump dump = FindDump(kDumps[i], &library);
    if (dump == nullptr) continue;
    const std::string text = TakeDump(dump, library);
    const Result<DataTree> tree = ReadPickle(text, kMaxValues);
    const std::optional<FlightRecording> recording =
        tree.ok() ? table::ReadFlightRecording(*tree) : std::nullopt;
    if (!recording) continue;
    const std::lock_guard lock(reader->writing_);
    if (reader->over_) break;
    const auto starts = Recorder::FindTable(table::PythonCollectiveStartsRow::kTable, {});
    const auto ends = Recorder::FindTable(table::PythonCollectivesRow::kTable, {});
    const auto groups = Recorder::FindTable(table::PythonProcessGroupsRow::kTable, {});
    if (starts.ok() && ends.ok() && groups.ok())
      Writer(*recording, {**starts, **ends, **groups}).Write(TheProgress()[i]);
  }
  record::Overhead::Add(record::Part::kCollectives, CpuNsOfThread());
  reader->done_.store(true);
  const std::uint64_t one = 1;
  (void)!write(reader->wake_fd_, &one, sizeof(one));
  return nullptr;
}

bool FlightReader::Collect() {
  if (!running_ || !done_.load()) return false;
  pthread_join(thread_, nullptr);
  running_ = false;
  return true;
}

bool FlightReader::Finish(std::int64_t timeout_ms) {
  const Deadline deadline = Deadline::AfterMs(timeout_ms);
  while (running_ && !Collect() && !deadline.passed()) SleepUs(200);
  const std::lock_guard lock(writing_);
  over_ = true;
  return !running_;
}

void NoteOwnCollective(std::string_view group, std::int64_t seq) {
  const std::uint64_t key = KeyOf(group, seq);
  own_calls[key / 2 % kOwn].store(key, std::memory_order_relaxed);
}

void ForgetCollectivesInForkedChild() {
  progress = nullptr;  // the thread that reads may have been in the middle of it
  for (std::atomic<std::uint64_t>& call : own_calls) call.store(0, std::memory_order_relaxed);
}

}  // namespace probing::torch
