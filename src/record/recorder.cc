#include "record/recorder.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "table/registry.h"
#include "table/stored.h"

namespace probing::record {
namespace {

// Not destroyed at exit, when threads of the job may still write.
struct State {
  std::unique_ptr<ring::Arena> arena;
  std::vector<std::unique_ptr<TableHandle>> handles;
};
State* state = nullptr;
bool recording = false;
Recorder::Limits limits;
dev_t arena_device = 0;
ino_t arena_inode = 0;
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // of all the above

class Locked {
 public:
  Locked() { pthread_mutex_lock(&mutex); }
  ~Locked() { pthread_mutex_unlock(&mutex); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
};

State& TheState() {
  if (state == nullptr) state = new State;
  return *state;
}

std::vector<ring::Column> DeclaredColumns(std::string_view name) {
  std::vector<ring::Column> columns;
  for (const auto list :
       {table::PythonTables(), table::TorchTables(), table::ProfileTables(), table::NcclTables()}) {
    for (const table::Table& declared : list) {
      if (declared.name != name) continue;
      for (const table::Column& column : declared.columns) columns.push_back(table::InRing(column));
    }
  }
  return columns;
}

// REQUIRES: the lock, and `recording`.
Result<ring::Arena*> TheArena() {
  if (TheState().arena == nullptr) {
    ASSIGN_OR_RETURN(state->arena, ring::Arena::Create({.max_memory = limits.max_memory}));
    struct stat made{};
    fstat(state->arena->fd(), &made);
    arena_device = made.st_dev;
    arena_inode = made.st_ino;
  }
  return state->arena.get();
}

}  // namespace

std::atomic<std::uint64_t> Recorder::generation_{1};

bool Recorder::Open(const Limits& new_limits) {
  const Locked lock;
  if (recording) return false;
  limits = new_limits;
  recording = true;
  generation_.fetch_add(1);
  return true;
}

void Recorder::SetLimits(const Limits& new_limits) {
  const Locked lock;
  const Limits old = std::exchange(limits, new_limits);
  if (state == nullptr || state->arena == nullptr) return;
  if (limits.max_memory != old.max_memory) state->arena->SetMaxMemory(limits.max_memory);
  if (limits.table_rows == old.table_rows) return;
  for (const auto& handle : state->handles) {
    if (ring::Table* table = state->arena->FindTable(handle->name())) table->SetRows(limits.table_rows);
  }
}

void Recorder::Close(Users users) {
  const Locked lock;
  recording = false;
  generation_.fetch_add(1);
  if (state == nullptr) return;
  if (state->arena != nullptr) state->arena->Close();
  if (users == Users::kInside) (void)state->arena.release();
  state->arena.reset();
  if (users == Users::kNone) delete std::exchange(state, nullptr);
}

Result<TableHandle*> Recorder::FindTable(std::string_view name, std::vector<ring::Column> columns) {
  std::vector<ring::Column> declared = DeclaredColumns(name);
  const std::string quoted = "'" + std::string(name) + "'";
  if (columns.empty()) columns = declared;
  if (columns.empty()) {
    return Error{Code::kUsage, "there is no table " + quoted, "name its columns"};
  }
  if (!declared.empty() && columns != declared) {
    return Error{Code::kUsage, "the table " + quoted + " is Probing's own and has other columns",
                 "choose another name"};
  }
  const Locked lock;
  for (const auto& handle : TheState().handles) {
    if (handle->name() != name) continue;
    if (handle->columns() == columns) return handle.get();
    return Error{Code::kUsage, "the table " + quoted + " exists already, with other columns",
                 "choose another name; rows that were written keep their columns"};
  }
  std::unique_ptr<TableHandle> handle(new TableHandle(std::string(name), std::move(columns)));
  if (recording) {  // a name or number of columns that cannot be is said here and not by silence later
    ASSIGN_OR_RETURN(ring::Arena * arena, TheArena());
    ASSIGN_OR_RETURN(ring::Table * table,
                     arena->AddTable({handle->name(), handle->columns(), limits.table_rows}));
    handle->table_.store(table);
    handle->generation_.store(generation_.load());
  }
  state->handles.push_back(std::move(handle));
  return state->handles.back().get();
}

bool Recorder::Recording() {
  const Locked lock;
  return recording;
}

void Recorder::WithoutForks(void (*body)(void* argument), void* argument) {
  const Locked lock;
  body(argument);
}

Result<int> Recorder::File() {
  const Locked lock;
  if (!recording) return Error{Code::kFailed, "nothing is recorded in this process any more", ""};
  ASSIGN_OR_RETURN(ring::Arena * arena, TheArena());
  return arena->fd();
}

ring::Table* Recorder::Renew(TableHandle& handle) {
  const Locked lock;
  ring::Table* table = nullptr;
  if (recording) {
    if (auto arena = TheArena(); arena.ok()) {
      auto added = (*arena)->AddTable({handle.name(), handle.columns(), limits.table_rows});
      if (added.ok()) table = *added;
    }
  }
  // Without memory it stays off until the next change: asking again with every row would be dear.
  handle.table_.store(table);
  handle.generation_.store(generation_.load(), std::memory_order_release);
  return table;
}

void Recorder::BeforeFork() { pthread_mutex_lock(&mutex); }

void Recorder::AfterForkInParent() { pthread_mutex_unlock(&mutex); }

void Recorder::InForkedChild(Follow follow) {
  if (state != nullptr && state->arena != nullptr) {
    // A job that closes all it does not know may have a file of its own by that number.
    struct stat found{};
    const int fd = state->arena->fd();
    if (fstat(fd, &found) == 0 && found.st_ino == arena_inode && found.st_dev == arena_device) close(fd);
    (void)state->arena.release();  // its memory is not mapped here, and its locks are anybody's
  }
  recording = recording && follow == Follow::kYes;
  generation_.fetch_add(1);
  pthread_mutex_unlock(&mutex);
}

}  // namespace probing::record
