#include "probe/first_client.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "probe/lifecycle.h"
#include "pyapi/python_api.h"
#include "record/events.h"

namespace probing::probe {
namespace {

constexpr const char* kVariable = "PROBE_BG";
constexpr std::int64_t kInterpreterMs = 3000;  // a client does not wait longer for Python to be there
constexpr std::int64_t kDaemonMs = 30'000;     // probingd is there within one second even on a busy machine
constexpr int kLookMs = 5;

// Plain data: used in the library's constructor. A futex, so that waiting costs nothing.
std::atomic<std::uint32_t> may_start{0};

long Futex(int operation, std::uint32_t value) {
  return syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&may_start), operation, value, nullptr, nullptr,
                 0);
}

bool HasInterpreter() {
  const pyapi::PythonApi* python = pyapi::FindPython();
  return python != nullptr && python->Py_IsInitialized() != 0;
}

}  // namespace

bool IsFirstClientAwaited() {
  const char* value = std::getenv(kVariable);
  return value != nullptr && std::strcmp(value, "0") == 0;
}

void AwaitFirstClient() {
  while (may_start.load() == 0) (void)Futex(FUTEX_WAIT_PRIVATE, 0);
  // In place: the variable keeps its length, and /proc tells the same.
  if (IsFirstClientAwaited()) std::getenv(kVariable)[0] = '1';
}

void LetProgramStart() {
  may_start.store(1);
  (void)Futex(FUTEX_WAKE_PRIVATE, INT_MAX);
}

FirstClient::FirstClient(Send send)
    : send_(std::move(send)),
      is_awaited_(ThisOrigin() != Origin::kInjected && may_start.load() == 0 && IsFirstClientAwaited()) {}

void FirstClient::AnswerAll(std::vector<Waiting>& list) {
  // A client that turns out to be gone changes the list.
  for (const Waiting& one : std::exchange(list, {})) send_(one.client_fd, wire::Message(one.id));
}

void FirstClient::Open() {
  is_awaited_ = false;
  daemon_expected_.reset();
  LetProgramStart();
  AnswerAll(hooks_);
}

void FirstClient::OnClient(int client_fd, const wire::Message& request) {
  if (const std::string reason(request.Get("reason")); !reason.empty()) {
    GiveUp(reason);
    return send_(client_fd, wire::Message(request.id()));
  }
  if (is_awaited_) {
    started_by_ = Deadline::AfterMs(kInterpreterMs);
    Open();
  }
  starting_.push_back({client_fd, request.id()});
  Look();
}

void FirstClient::OnWait(int client_fd, const wire::Message& request) {
  if (!is_awaited_) return send_(client_fd, wire::Message(request.id()));
  hooks_.push_back({client_fd, request.id()});
}

void FirstClient::ExpectDaemon() {
  if (is_awaited_) daemon_expected_ = Deadline::AfterMs(kDaemonMs);
}

void FirstClient::GiveUp(const std::string& reason) {
  if (!is_awaited_) return;
  record::WriteEvent("probing.wait", "PROBE_BG=0, but no client is waited for: " + reason);
  Open();
}

void FirstClient::Forget(int client_fd) {
  const auto is_its = [&](const Waiting& one) { return one.client_fd == client_fd; };
  std::erase_if(hooks_, is_its);
  std::erase_if(starting_, is_its);
}

void FirstClient::Look() {
  if (daemon_expected_ && daemon_expected_->passed()) GiveUp("no probingd has come to serve the address");
  if (starting_.empty()) return;
  if (started_by_ && !started_by_->passed() && !HasInterpreter()) return;
  started_by_.reset();
  AnswerAll(starting_);
}

int FirstClient::NextLookMs() const {
  if (!starting_.empty()) return kLookMs;
  return daemon_expected_ ? std::max(1, daemon_expected_->left_ms()) : INT_MAX;
}

}  // namespace probing::probe
