#include "why/investigation.h"

#include <sys/syscall.h>

#include <algorithm>

#include "base/file.h"
#include "base/text.h"
#include "process/maps.h"
#include "process/status.h"

namespace probing::why {
namespace {

constexpr std::size_t kMaxNodes = 2'000;
constexpr int kLooksAtRunning = 5;
constexpr std::size_t kMaxThreads = 8;  // of a process, that may be the one

std::string Script(pid_t pid) {
  std::string command = process::ShortCommandLine(pid);
  const auto drop_folder = [&] {
    const std::size_t slash = command.substr(0, command.find(' ')).rfind('/');
    if (slash != std::string::npos) command.erase(0, slash + 1);
  };
  drop_folder();
  const std::size_t space = command.find(' ');
  if (command.starts_with("python") && space != std::string::npos) command.erase(0, space + 1);
  drop_folder();
  if (command.starts_with("-m ")) command.erase(0, 3);
  constexpr std::size_t kMaxBytes = 60;
  return command.size() > kMaxBytes ? command.substr(0, kMaxBytes) + "…" : command;
}

}  // namespace

const cpython::Frame* UserFrame(const std::vector<cpython::Frame>& frames) {
  for (const cpython::Frame& frame : frames) {
    if (!IsLibraryFile(frame.file)) return &frame;
  }
  return frames.empty() ? nullptr : &frames.front();
}

std::string_view PlainName(std::string_view function) {
  const std::size_t dot = function.rfind('.');
  return dot == std::string_view::npos ? function : function.substr(dot + 1);
}

Investigation::Investigation() : sockets_(descriptors_), deadline_(Deadline::AfterMs(kLimitMs)) {}

PythonProcess* Investigation::Python(pid_t pid) {
  const auto known = pythons_.find(pid);
  if (known != pythons_.end()) return known->second.get();
  auto python = PythonProcess::Read(pid);
  if (!python.ok()) no_python_.emplace(pid, python.error());
  return (pythons_[pid] = python.ok() ? std::move(*python) : nullptr).get();
}

const Error* Investigation::WhyNoPython(pid_t pid) const {
  const auto found = no_python_.find(pid);
  return found != no_python_.end() ? &found->second : nullptr;
}

const std::vector<process::RankProcess>& Investigation::Ranks() {
  if (!ranks_) ranks_ = process::FindRanks();
  return *ranks_;
}

std::optional<std::int64_t> Investigation::RankOf(pid_t pid) {
  for (const process::RankProcess& rank : Ranks()) {
    if (rank.pid == pid) return rank.identity.rank;
  }
  return std::nullopt;
}

// What a worker is called: its command line is that of its parent.
std::string Investigation::LabelOf(pid_t pid) {
  const auto known = labels_.find(pid);
  if (known != labels_.end()) return known->second;
  std::string label;
  PythonProcess* python = Python(pid);
  const PythonThread* main = python != nullptr ? python->FindThread(pid) : nullptr;
  for (std::size_t i = 0; main != nullptr && i < main->raw.size() && label.empty(); ++i) {
    const cpython::Frame& frame = main->frames[i];
    const std::string_view name = PlainName(frame.function);
    if (name == "_worker_loop" && frame.file.ends_with("torch/utils/data/_utils/worker.py")) {
      label = "DataLoader worker " + python->Variable(main->raw[i], "worker_id");
    } else if (name == "_bootstrap" && frame.file.ends_with("multiprocessing/process.py")) {
      label = python->TextAttribute(python->FirstArgument(main->raw[i]), "_name");
    }
  }
  if (label.empty()) label = Script(pid);
  return labels_[pid] = label;
}

std::vector<pid_t> Investigation::ChildrenOf(pid_t pid) {
  if (!children_) {
    children_.emplace();
    for (const pid_t each : descriptors_.Processes()) {
      const auto status = process::ReadStatus(each);
      if (status.ok()) (*children_)[status->parent].push_back(each);
    }
  }
  const auto found = children_->find(pid);
  return found != children_->end() ? found->second : std::vector<pid_t>{};
}

std::size_t Investigation::AddThread(pid_t pid, pid_t tid) {
  const auto [place, is_new] = threads_.try_emplace({pid, tid}, graph_.nodes.size());
  if (!is_new) return place->second;
  Node node;
  node.pid = pid;
  node.tid = tid;
  graph_.nodes.push_back(std::move(node));
  unread_.push_back(place->second);
  return place->second;
}

std::size_t Investigation::AddEnd(End end, pid_t pid, const std::string& note) {
  const auto [place, is_new] = ends_.try_emplace({pid, note}, graph_.nodes.size());
  if (!is_new) return place->second;
  Node node;
  node.pid = pid;
  node.end = end;
  node.note = note;
  if (pid != 0) {
    node.process = LabelOf(pid);
    node.rank = RankOf(pid);
  }
  graph_.nodes.push_back(std::move(node));
  return place->second;
}

std::size_t Investigation::AddProcess(pid_t pid, std::uint64_t inode) {
  const auto known = processes_.find({pid, inode});
  if (known != processes_.end()) return known->second;
  const auto status = process::ReadStatus(pid);
  if (!status.ok() || status->ended()) {
    const std::size_t end = AddEnd(End::kDied, pid, status.ok() ? "has ended (zombie)" : "has ended");
    return processes_[{pid, inode}] = end;
  }
  Node node;
  node.pid = pid;
  node.process = LabelOf(pid);
  node.rank = RankOf(pid);
  std::vector<pid_t> tids;
  const auto all = process::ListThreads(pid);
  for (const pid_t tid : all.ok() ? *all : std::vector<pid_t>{}) {
    const auto call = process::ReadBlockedCall(pid, tid);
    if (inode == 0 || !call.ok()) continue;
    const bool is_io = call->number == SYS_read || call->number == SYS_recvfrom ||
                       call->number == SYS_recvmsg || call->number == SYS_write ||
                       call->number == SYS_sendto || call->number == SYS_sendmsg;
    const auto open = is_io ? descriptors_.Find(pid, static_cast<int>(call->arguments[0])) : std::nullopt;
    if (open && open->inode == inode) tids.push_back(tid);
  }
  const auto add = [&](pid_t tid) {
    if (tid != 0 && std::ranges::find(tids, tid) == tids.end()) tids.push_back(tid);
  };
  if (tids.empty()) {
    add(pid);
    PythonProcess* python = Python(pid);
    for (const PythonThread& thread : python != nullptr ? python->threads() : std::vector<PythonThread>{}) {
      const cpython::Frame* frame = UserFrame(thread.frames);
      if (frame != nullptr && !IsLibraryFile(frame->file)) add(thread.tid);
    }
    if (tids.size() > kMaxThreads) tids.resize(kMaxThreads);
  }
  const std::size_t index = graph_.nodes.size();
  processes_[{pid, inode}] = index;
  graph_.nodes.push_back(std::move(node));
  for (const pid_t tid : tids) {
    const std::size_t on = AddThread(pid, tid);
    graph_.nodes[index].waits.push_back({on, "", true});
  }
  return index;
}

void Investigation::AddWait(Look& look, std::size_t on, std::string reason, bool certain) {
  if (on == look.node) return;
  std::vector<Wait>& waits = graph_.nodes[look.node].waits;
  const auto same = std::ranges::find(waits, on, &Wait::on);
  if (same == waits.end()) waits.push_back({on, std::move(reason), certain});
}

void Investigation::Run() {
  while (!unread_.empty()) {
    if (deadline_.passed() || graph_.nodes.size() > kMaxNodes) {
      timed_out_ = true;
      return;
    }
    const std::size_t index = unread_.back();
    unread_.pop_back();
    ReadThread(index);
  }
}

void Investigation::Describe(Node& node, const PythonThread* python) {
  node.process = LabelOf(node.pid);
  node.rank = RankOf(node.pid);
  if (python == nullptr) return;
  node.thread = python->name;
  if (const cpython::Frame* frame = UserFrame(python->frames)) {
    node.function = frame->function;
    node.file = frame->file;
    node.line = frame->line;
  }
}

void Investigation::ReadThread(std::size_t index) {
  Look look;
  look.node = index;
  look.pid = graph_.nodes[index].pid;
  look.tid = graph_.nodes[index].tid;
  const auto end = [&](End kind, std::string note) {
    graph_.nodes[index].end = kind;
    graph_.nodes[index].note = std::move(note);
  };
  const auto process = process::ReadStatus(look.pid);
  auto status = process::ReadThreadStatus(look.pid, look.tid);
  if (!process.ok() || process->ended() || !status.ok()) {
    graph_.nodes[index].process = LabelOf(look.pid);
    return end(End::kDied, process.ok() ? "has ended (zombie)" : "has ended");
  }
  look.status = std::move(*status);
  look.process = Python(look.pid);
  if (look.process != nullptr) look.python = look.process->FindThread(look.tid);
  // A thread that waits for the GIL runs for a moment every 5 ms.
  const bool may_want_gil =
      look.python != nullptr && !look.python->has_gil && look.process->GilHolder() != nullptr;
  for (int i = 0; may_want_gil && look.status.state == 'R' && i < kLooksAtRunning; ++i) {
    SleepUs(1'500);
    if (auto again = process::ReadThreadStatus(look.pid, look.tid); again.ok())
      look.status = std::move(*again);
  }
  Describe(graph_.nodes[index], look.python);
  if (graph_.nodes[index].thread.empty()) graph_.nodes[index].thread = look.status.name;
  switch (look.status.state) {
    case 'T':
      return end(End::kStopped, "stopped by a signal (SIGSTOP or SIGTSTP); `kill -CONT " +
                                    std::to_string(look.pid) + "` lets it go on");
    case 't':
      return end(End::kStopped, "stopped by a debugger, process " + std::to_string(process->tracer));
    case 'R':
      return end(End::kRuns, look.python != nullptr && look.python->has_gil ? "holds the GIL" : "");
    default:
      break;
  }
  const auto call = process::ReadBlockedCall(look.pid, look.tid);
  graph_.nodes[index].call = look.status.syscall;
  if (!call.ok()) {
    // It has begun to run since, or the kernel does not say.
    return end(look.status.syscall.empty() ? End::kRuns : End::kUnknown, "");
  }
  look.call = *call;
  ReadCall(look);
  Node& node = graph_.nodes[index];
  if (look.status.state == 'D' && node.waits.empty()) {
    const auto file = descriptors_.Find(look.pid, static_cast<int>(look.call.arguments[0]));
    const bool has_fd = look.status.syscall == "read" || look.status.syscall == "write" ||
                        look.status.syscall == "pread64" || look.status.syscall == "pwrite64" ||
                        look.status.syscall == "fsync" || look.status.syscall == "ioctl";
    end(End::kKernel, "uninterruptible in " + (node.call.empty() ? "the kernel" : node.call) +
                          (has_fd && file ? " of " + file->path : ""));
  }
  if (node.end == End::kWaits && node.waits.empty()) node.end = End::kUnknown;
}

}  // namespace probing::why
