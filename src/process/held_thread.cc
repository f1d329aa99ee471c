#include "process/held_thread.h"

#include <cerrno>

#include "process/interrupted_call.h"

namespace probing::process {

Result<HeldThread> HeldThread::Hold(pid_t tid, const Deadline& deadline) {
  ASSIGN_OR_RETURN(TracedThread thread, TracedThread::Seize(tid));
  RETURN_IF_ERROR(thread.Hold(deadline));
  return HeldThread(std::move(thread));
}

Result<void> RepairInterruptedCall(const TracedThread& thread, arch::Registers registers) {
  if (!WasInterrupted(registers) || registers.result() != -EINTR) return {};
  ASSIGN_OR_RETURN(const bool signal_comes, thread.HasDeliverableSignal());
  if (signal_comes) return {};
  RestartInterruptedCall(registers);
  return thread.WriteRegisters(registers);
}

HeldThread::~HeldThread() {
  if (!holds_) return;
  const auto registers = thread_.ReadRegisters();
  if (!registers.ok()) return;  // it was killed
  (void)RepairInterruptedCall(thread_, *registers);
  (void)thread_.Detach();
}

}  // namespace probing::process
