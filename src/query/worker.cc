#include "query/worker.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "base/file.h"
#include "query/engine.h"
#include "query/format.h"
#include "query/protocol.h"
#include "query/statement.h"
#include "table/registry.h"
#include "table/rows.h"

namespace probing::query {
namespace {

constexpr std::int64_t kForever = 365LL * 86'400'000;
// Data of the library, stacks of threads and what the allocator keeps beyond what the engine
// counts; measured: see README.md.
constexpr std::int64_t kExtraBytes = 256LL << 20;
// A small answer goes with the end of it: the other side wakes up once.
constexpr std::size_t kBytesAtOnce = 256 << 10;
constexpr rlim_t kMaxFileBytes = 1UL << 30;

void LimitProcess(std::int64_t memory_bytes) {
  const auto limit = [](int what, rlim_t value) {
    const rlimit both{value, value};
    setrlimit(what, &both);
  };
#ifndef PROBING_SANITIZED
  // Private writable memory; the rings, which are mapped shared, do not count.
  limit(RLIMIT_DATA, static_cast<rlim_t>(memory_bytes + kExtraBytes));
#else
  (void)memory_bytes;
#endif
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, kMaxFileBytes);
  // When the host runs out of memory, this process is the one to end.
  const ScopedFd score(open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (score.valid()) (void)WriteAll(score.get(), "1000");
}

// Ends the process when probingd has gone, also in the middle of a query. (The signal for a parent's
// death would come when the thread that started us ends, which it may do at any time.)
void LeaveWithParent() {
  std::thread([] {
    pollfd watched{kWorkerSocket, POLLRDHUP, 0};
    while (poll(&watched, 1, -1) < 0) {
    }
    _exit(0);
  }).detach();
}

// What probingd sends. Queries may come before their turn, while rows for another one are awaited.
class Inbox {
 public:
  Result<Frame> Next() {
    if (early_.empty()) return Receive();
    Frame frame = std::move(early_.front());
    early_.pop_front();
    return frame;
  }
  Result<Frame> NextRows() {
    while (true) {
      ASSIGN_OR_RETURN(Frame frame, Receive());
      if (frame.type != FrameType::kQuery && frame.type != FrameType::kFiles) return frame;
      early_.push_back(std::move(frame));
    }
  }

 private:
  static Result<Frame> Receive() { return ReceiveFrame(kWorkerSocket, Deadline::AfterMs(kForever)); }

  std::deque<Frame> early_;
};

// A live table whose rows probingd makes. Scans of one query run on several threads.
class RemoteRows {
 public:
  explicit RemoteRows(Inbox& inbox) : inbox_(inbox) {}

  // Before each query; null when nobody makes rows for it.
  void Serve(const Engine* engine) { engine_ = engine; }

  Result<table::Rows> Get(const table::Table& table, const table::Target* target,
                          const std::vector<std::size_t>& columns) {
    const std::lock_guard lock(mutex_);
    if (engine_ == nullptr) {
      return Error{Code::kFailed, "nobody here can produce its rows",
                   "`SELECT table_name, doc FROM probing.tables` lists all tables"};
    }
    NeedMessage need;
    need.table = table.name;
    if (target != nullptr) need.target = engine_->IndexOf(*target);
    need.columns.assign(columns.begin(), columns.end());
    ASSIGN_OR_RETURN(const std::string encoded, Ask(FrameType::kNeed, Encode(need)));
    ASSIGN_OR_RETURN(table::Rows rows, table::Rows::Decode(encoded));
    const std::vector<table::Type> types = table::TypesOf(table, columns);
    bool fits = rows.width() == types.size();
    for (std::size_t i = 0; fits && i < types.size(); ++i) fits = rows.type(i) == types[i];
    if (!fits) return Error{Code::kFailed, "rows arrived with other columns than asked for", ""};
    return rows;
  }

  // How scans of `global` get the rows of other hosts.
  Gatherer gatherer() {
    return [this](const GatherRequest& request) -> Result<std::vector<std::string>> {
      const std::lock_guard lock(mutex_);
      ASSIGN_OR_RETURN(const std::string encoded, Ask(FrameType::kGather, Encode(request)));
      std::vector<std::string> texts;
      if (!DecodeTexts(encoded, texts)) return Error{Code::kFailed, "rows of other hosts are damaged", ""};
      return texts;
    };
  }

 private:
  // REQUIRES: the mutex is held.
  Result<std::string> Ask(FrameType type, const std::string& payload) {
    RETURN_IF_ERROR(SendFrame(kWorkerSocket, type, payload));
    ASSIGN_OR_RETURN(const Frame frame, inbox_.NextRows());
    if (frame.type != FrameType::kRows) return Error{Code::kFailed, "an unexpected message", ""};
    return DecodeResult(frame.payload);
  }

  std::mutex mutex_;
  Inbox& inbox_;
  const Engine* engine_ = nullptr;
};

// What the engine knows best itself.
bool IsMadeByEngine(const table::Table& table) {
  return table.name == "probing.tables" || table.name == "probing.columns" || table.name == "probing.drops";
}

// A live table that this process reads itself, unless what it would read is not what is asked about.
class SwitchedSource : public table::Source {
 public:
  SwitchedSource(std::shared_ptr<table::Source> here, std::shared_ptr<table::Source> recorded)
      : here_(std::move(here)), recorded_(std::move(recorded)) {}
  const table::Table& table() const override { return here_->table(); }
  Result<std::vector<table::Part>> Parts(const table::ScanRequest& request) override {
    return (request.is_recorded ? recorded_ : here_)->Parts(request);
  }

 private:
  const std::shared_ptr<table::Source> here_, recorded_;
};

class Worker {
 public:
  explicit Worker(std::vector<std::shared_ptr<table::Source>> sources) : sources_(std::move(sources)) {}

  int Run() {
    while (true) {
      Result<Frame> frame = inbox_.Next();
      if (!frame.ok()) return frame.error().code == Code::kNotFound ? 0 : 1;
      switch (frame->type) {
        case FrameType::kOpen:
          Open(frame->payload);
          break;
        case FrameType::kFiles:
          TakeFiles(*frame);
          break;
        case FrameType::kQuery:
          TakeFiles(*frame);
          if (!Answer(frame->payload)) return 0;
          break;
        default:
          return 1;
      }
    }
  }

 private:
  void TakeFiles(Frame& frame) {
    for (ScopedFd& file : frame.files) files_.push_back(std::move(file));
  }

  void Open(std::string_view payload) {
    OpenMessage message;
    Result<std::string> ready = Error{Code::kFailed, "the first message is damaged", ""};
    if (Decode(payload, message)) {
      Result<void> opened = OpenEngine(message);
      if (opened.ok())
        ready = std::string();
      else
        ready = opened.error();
    }
    (void)SendFrame(kWorkerSocket, FrameType::kReady, EncodeResult(ready));
  }

  Result<void> OpenEngine(const OpenMessage& message) {
    LimitProcess(message.memory_bytes);
    EngineOptions options;
    options.memory_bytes = message.memory_bytes;
    options.view_directory = message.view_directory;
    for (const table::Table* table : table::AllTables()) {
      if (table->kind != table::Kind::kLive || IsMadeByEngine(*table)) continue;
      std::shared_ptr<table::Source> remote = table::MakeRowsSource(
          {table, [this, table](const table::Target* target, const std::vector<std::size_t>& columns) {
             return remote_.Get(*table, target, columns);
           }});
      const auto own = std::ranges::find_if(
          sources_, [&](const auto& source) { return source->table().name == table->name; });
      if (own != sources_.end()) remote = std::make_shared<SwitchedSource>(*own, std::move(remote));
      options.sources.push_back(std::move(remote));
    }
    ASSIGN_OR_RETURN(engine_, Engine::Open(std::move(options)));
    return {};
  }

  // False when this process should end.
  bool Answer(std::string_view payload) {
    QueryMessage message;
    EndMessage end;
    if (engine_ == nullptr || !Decode(payload, message, std::exchange(files_, {}))) {
      end.error = SqlError{Code::kFailed, "the message with the query is damaged", ""};
    } else {
      end = Execute(std::move(message));
    }
    return SendFrame(kWorkerSocket, FrameType::kEnd, Encode(end)).ok() && !end.leaves;
  }

  EndMessage Execute(QueryMessage message) {
    EndMessage end;
    try {
      remote_.Serve(message.has_provider ? engine_.get() : nullptr);
      const std::unique_ptr<FormatWriter> writer = MakeFormatWriter(
          *engine_, message.format,
          [&](std::string_view bytes) -> Result<void> {
            end.body += bytes;
            if (end.body.size() < kBytesAtOnce) return {};
            return SendFrame(kWorkerSocket, FrameType::kData, std::exchange(end.body, {}));
          },
          message.sql);
      Outcome outcome =
          engine_->Execute(message.sql,
                           Sight{std::move(message.targets), std::move(message.history),
                                 message.has_gatherer ? remote_.gatherer() : nullptr, message.recorded_ns},
                           message.limits, *writer);
      end.error = std::move(outcome.error);
      end.rows = outcome.rows;
      end.warnings = std::move(outcome.warnings);
      end.leaves = engine_->is_broken();
      if (end.error) return end;
      if (Result<void> ended = writer->End(); !ended.ok()) end.error = FromError(ended.error());
    } catch (const std::bad_alloc&) {
      end.error = OutOfMemoryError(message.limits, "while the answer was written");
      end.leaves = true;
    }
    return end;
  }

  static SqlError FromError(const Error& error) { return {error.code, error.message, error.hint}; }

  std::vector<std::shared_ptr<table::Source>> sources_;
  Inbox inbox_;
  RemoteRows remote_{inbox_};
  std::unique_ptr<Engine> engine_;
  std::vector<ScopedFd> files_;  // of the query that comes next
};

}  // namespace

int RunWorker(std::vector<std::shared_ptr<table::Source>> sources) {
  // Whatever probingd had open and forgot to mark: not ours.
  syscall(SYS_close_range, kWorkerSocket + 1, ~0U, 0);
  LeaveWithParent();
  const int code = Worker(std::move(sources)).Run();
  // Not by way of exit(): a thread of ours is still waiting, and everything else is the kernel's to
  // take down.
  _exit(code);
}

}  // namespace probing::query
