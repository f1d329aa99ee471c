#include "why/python_process.h"

#include <algorithm>
#include <array>

#include "cpython/text.h"
#include "cpython/thread_ids.h"
#include "cpython/thread_names.h"

namespace probing::why {
namespace {

constexpr int kAttempts = 50;
constexpr std::size_t kMaxDepth = 400;
constexpr std::size_t kSlots = 48;  // of a frame: its variables and what it computes with
constexpr std::size_t kMaxAttributes = 64;
constexpr std::size_t kInnermostFrames = 6;  // in which the lock that a thread waits for is looked for
constexpr std::uint64_t kTagBits = 7;
constexpr std::uint64_t kMaxReferences = 0xffff'ffff;  // a freed object has a pointer in this place
constexpr std::uint64_t kRuntimeBytes = 4 << 20;
constexpr std::size_t kMaxNameCharacters = 200;

// A Condition in a queue; multiprocessing's Lock has a SemLock.
bool IsLockClass(std::string_view type) {
  return type == "Condition" || type == "Lock" || type == "RLock" || type == "Semaphore" ||
         type == "BoundedSemaphore";
}

}  // namespace

PythonProcess::PythonProcess(pid_t pid, std::unique_ptr<process::Memory> memory, cpython::Location location,
                             process::Maps maps)
    : pid_(pid),
      memory_(std::move(memory)),
      pages_(*memory_),
      location_(std::move(location)),
      maps_(std::move(maps)),
      attributes_(pages_, location_),
      stacks_(*memory_, location_),
      locals_(pages_, location_) {}

Result<std::unique_ptr<PythonProcess>> PythonProcess::Read(pid_t pid) {
  ASSIGN_OR_RETURN(process::Maps maps, process::Maps::Read(pid));
  auto memory = std::make_unique<process::ProcessMemory>(pid);
  ASSIGN_OR_RETURN(cpython::Location location, cpython::Locate(*memory, maps));
  std::unique_ptr<PythonProcess> python(
      new PythonProcess(pid, std::move(memory), std::move(location), std::move(maps)));
  RETURN_IF_ERROR(python->ReadThreads());
  return python;
}

Result<void> PythonProcess::ReadThreads() {
  ASSIGN_OR_RETURN(states_, cpython::ReadStates(*memory_, location_));
  ASSIGN_OR_RETURN(const cpython::ThreadNumbers numbers, cpython::ReadThreadNumbers(pid_));
  for (const cpython::InterpreterState& interpreter : states_) {
    const auto names = cpython::ReadThreadNames(*memory_, location_, interpreter.address);
    const auto holder = cpython::FindGilHolder(*memory_, location_, interpreter);
    const std::vector<pid_t> ids = cpython::FindThreadIds(*memory_, interpreter.threads, numbers);
    for (std::size_t i = 0; i < interpreter.threads.size(); ++i) {
      const cpython::ThreadState& state = interpreter.threads[i];
      PythonThread thread;
      thread.tid = ids[i];
      thread.ident = state.pthread;
      thread.has_gil = holder == state.address;
      if (const auto name = names.find(state.pthread); name != names.end()) thread.name = name->second;
      cpython::Stack stack = stacks_.Read(state.address, {.max_depth = kMaxDepth, .attempts = kAttempts});
      thread.frames = std::move(stack.frames);
      thread.raw = std::move(stack.raw);
      if (thread.raw.size() != thread.frames.size()) thread.raw.clear();
      threads_.push_back(std::move(thread));
    }
  }
  std::ranges::stable_sort(
      threads_, {}, [&](const PythonThread& thread) { return std::pair(thread.tid != pid_, thread.tid); });
  return {};
}

const std::vector<cpython::Task>& PythonProcess::tasks() {
  if (tasks_) return *tasks_;
  tasks_.emplace();
  cpython::TaskReader reader(*memory_, location_, maps_, stacks_);
  for (const cpython::InterpreterState& interpreter : states_) {
    for (auto& found : reader.Read(interpreter).tasks) {
      const PythonThread* runs = found.pthread != 0 ? FindIdent(found.pthread) : nullptr;
      if (runs != nullptr) found.task.tid = runs->tid;
      tasks_->push_back(std::move(found.task));
    }
  }
  return *tasks_;
}

const PythonThread* PythonProcess::FindThread(pid_t tid) const {
  const auto found = std::ranges::find(threads_, tid, &PythonThread::tid);
  return found != threads_.end() ? &*found : nullptr;
}

const PythonThread* PythonProcess::FindIdent(std::uint64_t ident) const {
  const auto found = std::ranges::find(threads_, ident, &PythonThread::ident);
  return ident != 0 && found != threads_.end() ? &*found : nullptr;
}

const PythonThread* PythonProcess::GilHolder() const {
  const auto found = std::ranges::find(threads_, true, &PythonThread::has_gil);
  return found != threads_.end() ? &*found : nullptr;
}

bool PythonProcess::IsRuntime(std::uint64_t address) const {
  const std::uint64_t base = location_.first_interpreter.address;
  const std::uint64_t distance = address > base ? address - base : base - address;
  const process::Mapping* mapping = maps_.Find(address);
  return distance < kRuntimeBytes && mapping != nullptr &&
         (mapping->path.empty() || mapping->path == location_.object);
}

RemoteAddress PythonProcess::FirstArgument(const cpython::RawFrame& frame) const {
  const auto slot = pages_.ReadValue((frame.address + location_.offsets.frame.locals).As<std::uint64_t>());
  const RemoteAddress object{slot.ok() ? *slot & ~kTagBits : 0};
  return IsAlive(object) ? object : RemoteAddress{};
}

std::string PythonProcess::Variable(const cpython::RawFrame& frame, std::string_view name) {
  locals_.Begin(1);
  for (const cpython::Local& local : locals_.Read(frame)) {
    if (local.name == name) return local.text;
  }
  return "";
}

RemoteAddress PythonProcess::Attribute(RemoteAddress object, std::string_view name) const {
  if (!object) return {};
  if (const auto found = attributes_.FindAttribute(object, name); found.ok() && *found) return *found;
  const auto slot = attributes_.FindSlot(object, name);
  return slot.ok() ? *slot : RemoteAddress{};
}

std::string PythonProcess::TextAttribute(RemoteAddress object, std::string_view name) const {
  const RemoteAddress text = Attribute(object, name);
  if (!text) return "";
  auto read = cpython::ReadUnicode(pages_, location_.offsets, text, kMaxNameCharacters);
  return read.ok() ? std::move(*read) : "";
}

std::optional<std::uint64_t> PythonProcess::NumberAttribute(RemoteAddress object,
                                                            std::string_view name) const {
  const RemoteAddress number = Attribute(object, name);
  if (!number) return std::nullopt;
  const auto read = attributes_.ReadUnsigned(number);
  return read.ok() ? std::optional(*read) : std::nullopt;
}

std::string PythonProcess::TypeName(RemoteAddress object) const {
  auto name = attributes_.TypeName(object);
  return name.ok() ? std::move(*name) : "";
}

RemoteAddress PythonProcess::ModuleVariable(std::string_view module, std::string_view name) const {
  for (const cpython::InterpreterState& interpreter : states_) {
    const auto found = attributes_.FindModule(interpreter.address, module);
    if (!found.ok() || !*found) continue;
    const auto variable = attributes_.FindVariable(*found, name);
    if (variable.ok()) return *variable;
  }
  return {};
}

std::vector<std::pair<RemoteAddress, RemoteAddress>> PythonProcess::DictItems(RemoteAddress dict,
                                                                              std::size_t max_items) const {
  if (!dict || TypeName(dict) != "dict") return {};
  auto read = cpython::ReadDict(pages_, attributes_.layout(), dict, max_items);
  return read.ok() ? std::move(read->items) : std::vector<std::pair<RemoteAddress, RemoteAddress>>{};
}

std::optional<std::uint64_t> PythonProcess::NumberOf(RemoteAddress number) const {
  const auto read = attributes_.ReadUnsigned(number);
  return read.ok() ? std::optional(*read) : std::nullopt;
}

bool PythonProcess::IsAlive(RemoteAddress object) const {
  if (object.address < 4096 || object.address % 8 != 0) return false;
  const auto head = pages_.ReadValue(object.As<std::uint64_t>());
  if (!head.ok()) return false;
  return location_.offsets.free_threaded || location_.version.minor >= 14 ||
         (*head != 0 && *head <= kMaxReferences);
}

std::vector<RemoteAddress> PythonProcess::ObjectsOf(const cpython::RawFrame& frame) const {
  std::array<std::uint64_t, kSlots> slots{};
  const RemoteAddress from = frame.address + location_.offsets.frame.locals;
  // The end of a mapping may be near.
  std::size_t count = kSlots;
  while (count > 0 && !pages_.Read(from, std::as_writable_bytes(std::span(slots).first(count))).ok()) {
    count /= 2;
  }
  std::vector<RemoteAddress> objects;
  for (const std::uint64_t slot : std::span(slots).first(count)) {
    const RemoteAddress object{slot & ~kTagBits};
    if (!IsAlive(object) || std::ranges::find(objects, object) != objects.end()) continue;
    objects.push_back(object);
    // A variable that inner functions use is in a cell.
    if (TypeName(object) != "cell") continue;
    const auto inside = pages_.ReadValue((object + attributes_.layout().value).As<RemoteAddress>());
    if (inside.ok() && IsAlive(*inside)) objects.push_back(*inside);
  }
  return objects;
}

RemoteAddress PythonProcess::BoundTo(RemoteAddress object) const {
  if (TypeName(object) != "builtin_function_or_method") return {};
  const auto self = pages_.ReadValue((object + attributes_.layout().value + 8).As<RemoteAddress>());
  return self.ok() && IsAlive(*self) ? *self : RemoteAddress{};
}

std::optional<LockObject> PythonProcess::AsLock(RemoteAddress object) const {
  const std::string type = TypeName(object);
  LockObject lock;
  lock.object = object;
  const auto field = [&](std::uint64_t offset) {
    const auto value = pages_.ReadValue((object + attributes_.layout().value + offset).As<std::uint64_t>());
    return value.ok() ? *value : 0;
  };
  // Since 3.14 the lock is in the object, and those who wait sleep elsewhere.
  const bool is_inside = location_.version.minor >= 14;
  if (type == "_thread.lock") {
    lock.word = is_inside ? object.address + attributes_.layout().value : field(0);
  } else if (type == "_thread.RLock") {
    lock.kind = LockObject::Kind::kRLock;
    lock.word = is_inside ? object.address + attributes_.layout().value : field(0);
    // {lock, owner, count}; 3.12 and before keep the count before or after: an ident is an address.
    const std::uint64_t first = field(8);
    const std::uint64_t second = field(16);
    lock.owner = FindIdent(first) != nullptr ? first : FindIdent(second) != nullptr ? second : 0;
  } else if (type == "_multiprocessing.SemLock") {
    lock.kind = LockObject::Kind::kSemaphore;
    lock.word = field(0);  // {handle, last_tid, int count, …}
    if (static_cast<std::int32_t>(field(16)) > 0) lock.owner = field(8);
  } else {
    return std::nullopt;
  }
  return lock;
}

const std::vector<RemoteAddress>& PythonProcess::AttributesOf(RemoteAddress object) const {
  const auto [place, is_new] = attributes_of_.try_emplace(object.address);
  std::vector<RemoteAddress>& values = place->second;
  if (!is_new) return values;
  const auto list = attributes_.ListAttributes(object, kMaxAttributes);
  if (!list.ok()) return values;
  for (const auto& attribute : list->attributes) {
    if (IsAlive(attribute.value)) values.push_back(attribute.value);
  }
  return values;
}

std::optional<LockObject> PythonProcess::FindLock(const PythonThread& thread, std::uint64_t word) {
  const auto fits = [&](RemoteAddress object) -> std::optional<LockObject> {
    auto lock = AsLock(object);
    return lock && lock->word == word ? lock : std::nullopt;
  };
  for (std::size_t i = 0; i < std::min(thread.raw.size(), kInnermostFrames); ++i) {
    for (const RemoteAddress object : ObjectsOf(thread.raw[i])) {
      if (auto lock = fits(object)) return lock;
      if (const RemoteAddress self = BoundTo(object)) {
        if (auto lock = fits(self)) return lock;
      }
      for (const RemoteAddress value : AttributesOf(object)) {
        if (auto lock = fits(value)) return lock;
        if (!IsLockClass(TypeName(value))) continue;
        for (const RemoteAddress inner : AttributesOf(value)) {
          if (auto lock = fits(inner)) return lock;
        }
      }
    }
  }
  return std::nullopt;
}

std::string PythonProcess::MethodName(RemoteAddress method) const {
  const auto definition = pages_.ReadValue((method + attributes_.layout().value).As<RemoteAddress>());
  const auto name = definition.ok() ? pages_.ReadValue(definition->As<RemoteAddress>())
                                    : Result<RemoteAddress>(RemoteAddress{});
  auto text = name.ok() ? pages_.ReadCString(*name, 32) : Result<std::string>(std::string());
  return text.ok() ? std::move(*text) : "";
}

PythonProcess::Hold PythonProcess::HowHeld(const PythonThread& thread, RemoteAddress object) {
  Hold hold = Hold::kNone;
  for (const cpython::RawFrame& frame : thread.raw) {
    for (const RemoteAddress each : ObjectsOf(frame)) {
      // What `with` has on its stack is the method that will let the lock go.
      if (BoundTo(each) == object && MethodName(each) == "__exit__") return Hold::kInWith;
      if (each == object) hold = Hold::kReference;
      if (hold != Hold::kNone) continue;
      const auto& values = AttributesOf(each);
      if (std::ranges::find(values, object) != values.end()) hold = Hold::kReference;
    }
  }
  return hold;
}

const std::vector<LockObject>& PythonProcess::Semaphores() {
  if (semaphores_) return *semaphores_;
  std::vector<LockObject>& found = semaphores_.emplace();
  const auto add = [&](RemoteAddress object) {
    const auto lock = AsLock(object);
    if (lock && lock->kind == LockObject::Kind::kSemaphore) found.push_back(*lock);
  };
  for (const PythonThread& thread : threads_) {
    for (const cpython::RawFrame& frame : thread.raw) {
      for (const RemoteAddress object : ObjectsOf(frame)) {
        add(object);
        if (const RemoteAddress self = BoundTo(object)) add(self);
        for (const RemoteAddress value : AttributesOf(object)) {
          add(value);
          if (IsLockClass(TypeName(value))) {
            if (const RemoteAddress inner = Attribute(value, "_semlock")) add(inner);
          }
        }
      }
    }
  }
  return found;
}

}  // namespace probing::why
