#include "inject/sandbox.h"

#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "base/file.h"
#include "base/text.h"
#include "process/allowed_calls.h"

namespace probing::inject {
namespace {

constexpr int kCapSysPtrace = 19;
// What every gVisor of the years until 2024 says; later ones have their name in the release.
constexpr std::string_view kGvisorVersion = "#1 SMP Sun Jan 10 15:06:54 PST 2016";

// The kernel gives the one that it starts with this number (PROC_USER_INIT_INO).
constexpr std::string_view kFirstUserNamespace = "user:[4026531837]";

// In the order of their numbers (linux/capability.h).
constexpr std::array<std::string_view, 41> kNames = {"CHOWN",
                                                     "DAC_OVERRIDE",
                                                     "DAC_READ_SEARCH",
                                                     "FOWNER",
                                                     "FSETID",
                                                     "KILL",
                                                     "SETGID",
                                                     "SETUID",
                                                     "SETPCAP",
                                                     "LINUX_IMMUTABLE",
                                                     "NET_BIND",
                                                     "NET_BROADCAST",
                                                     "NET_ADMIN",
                                                     "NET_RAW",
                                                     "IPC_LOCK",
                                                     "IPC_OWNER",
                                                     "SYS_MODULE",
                                                     "SYS_RAWIO",
                                                     "SYS_CHROOT",
                                                     "SYS_PTRACE",
                                                     "SYS_PACCT",
                                                     "SYS_ADMIN",
                                                     "SYS_BOOT",
                                                     "SYS_NICE",
                                                     "SYS_RESOURCE",
                                                     "SYS_TIME",
                                                     "SYS_TTY_CONFIG",
                                                     "MKNOD",
                                                     "LEASE",
                                                     "AUDIT_WRITE",
                                                     "AUDIT_CONTROL",
                                                     "SETFCAP",
                                                     "MAC_OVERRIDE",
                                                     "MAC_ADMIN",
                                                     "SYSLOG",
                                                     "WAKE_ALARM",
                                                     "BLOCK_SUSPEND",
                                                     "AUDIT_READ",
                                                     "PERFMON",
                                                     "BPF",
                                                     "CHECKPOINT_RESTORE"};

std::string ProcessText(pid_t pid) { return "process " + std::to_string(pid); }

Check Passed(std::string name, std::string detail) { return {std::move(name), true, std::move(detail), {}}; }

Check Refused(std::string name, std::string message, std::string hint) {
  return {std::move(name), false, message, Error{Code::kPermission, std::move(message), std::move(hint)}};
}

std::string ReadLink(const std::string& path) {
  std::array<char, 128> target{};
  const ssize_t size = readlink(path.c_str(), target.data(), target.size());
  return size > 0 ? std::string(target.data(), static_cast<std::size_t>(size)) : std::string();
}

bool CanWrite(const std::string& folder) {
  return faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
}

// Those of wire/rendezvous.h. Asked of the kernel, which knows a read-only file system whoever asks. The
// folder of our own may be writable, as a mount, where the one around it is not.
std::vector<SocketFolder> FoldersBelow(const std::string& root, uid_t uid) {
  std::vector<SocketFolder> folders;
  for (const char* path : {"/tmp", "/dev/shm", "/var/tmp"}) {
    const bool can = CanWrite(root + path + "/probing-" + std::to_string(uid)) || CanWrite(root + path);
    folders.push_back({path, can ? 0 : errno});
  }
  return folders;
}

Capabilities CapabilitiesOf(const std::string& proc_folder) {
  const auto text = ReadFile(proc_folder + "/status");
  return text.ok() ? Capabilities::Parse(*text) : Capabilities{};
}

Check CheckKernel() {
  utsname name{};
  uname(&name);
  return JudgeKernel(name.release, name.version);
}

}  // namespace

Check JudgeKernel(std::string_view release, std::string_view version) {
  if (version != kGvisorVersion && release.find("gvisor") == std::string_view::npos)
    return Passed("kernel", "Linux " + std::string(release));
  return Refused(
      "kernel", "this is gVisor (runsc), which stands in for a kernel: no process can be entered in it",
      "`backtrace` works without; run the pod without that runtimeClassName, or start the job with "
      "PROBING=1");
}

Check JudgeTracing(int trace_error, int read_error) {
  if (trace_error != 0) {
    return Refused(
        "ptrace",
        "the seccomp profile of this container forbids ptrace (" + std::string(ErrnoName(trace_error)) + ")",
        std::string(kPtraceLine) + ", or start the job with PROBING=1");
  }
  if (read_error != 0) {
    return Passed("ptrace", "allowed; process_vm_readv is not (" + std::string(ErrnoName(read_error)) +
                                "): memory is read through /proc, which takes longer");
  }
  return Passed("ptrace", "allowed");
}

Capabilities Capabilities::Parse(std::string_view status_text) {
  Capabilities found;
  while (!status_text.empty()) {
    const std::string_view line = TakePart(status_text, '\n');
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, colon);
    if (key != "CapPrm" && key != "CapEff") continue;
    (key == "CapPrm" ? found.permitted : found.effective) =
        std::strtoull(std::string(line.substr(colon + 1)).c_str(), nullptr, 16);
  }
  return found;
}

bool Capabilities::MayTraceAnyone() const { return (effective >> kCapSysPtrace & 1) != 0; }

std::string Capabilities::Lacking(const Capabilities& theirs) const {
  const std::uint64_t lacking = theirs.permitted & ~permitted;
  std::string names;
  for (std::size_t i = 0; i < 64; ++i) {
    if ((lacking >> i & 1) == 0) continue;
    names += names.empty() ? "" : " ";
    names += i < kNames.size() ? std::string(kNames.at(i)) : std::to_string(i);
  }
  return names;
}

Check JudgeCapabilities(pid_t pid, const Capabilities& theirs, const Capabilities& ours) {
  if (ours.MayTraceAnyone()) return Passed("capabilities", "SYS_PTRACE");
  const std::string lacking = ours.Lacking(theirs);
  if (lacking.empty()) return Passed("capabilities", "none that are missing here");
  return Refused("capabilities", ProcessText(pid) + " has capabilities that are missing here: " + lacking,
                 std::string(kPtraceLine) + "; for a sidecar: to it, not to the job");
}

Check JudgeUserNamespace(pid_t pid, std::string_view theirs, std::string_view ours, bool may_trace_anyone) {
  if (theirs == ours) return Passed("user namespace", "as here");
  if (theirs.empty() && ours != kFirstUserNamespace && !ours.empty()) {
    return Refused("user namespace", ProcessText(pid) + " cannot be looked into from this user namespace",
                   "it is outside of the container that you are in: run probing there, as root");
  }
  if (theirs.empty()) return Passed("user namespace", "not known");
  if (may_trace_anyone) return Passed("user namespace", "another one");
  const std::string number = std::to_string(pid);
  return Refused("user namespace", ProcessText(pid) + " is in another user namespace",
                 "run it inside: nsenter --target " + number +
                     " --user --pid --mount --preserve-credentials probing …, or outside as root");
}

Check JudgeSocketFolders(const std::string& whose, const std::vector<SocketFolder>& folders) {
  std::string reasons;
  for (const SocketFolder& folder : folders) {
    if (folder.error == 0) return Passed("sockets", folder.path);
    reasons += (reasons.empty() ? "" : ", ") + folder.path + " (" + ErrnoName(folder.error) + ")";
  }
  return Refused("sockets", "no folder for the socket of " + whose + " can be written to: " + reasons,
                 "give the pod a folder: volumes: [{name: tmp, emptyDir: {}}], volumeMounts: [{name: tmp, "
                 "mountPath: /tmp}] (docker, podman: --tmpfs /tmp); `backtrace` works without");
}

std::vector<Check> ExamineSandbox() {
  return {CheckKernel(), JudgeTracing(process::TraceError(), process::ReadMemoryError()),
          JudgeSocketFolders("probingd", FoldersBelow("", geteuid()))};
}

std::vector<Check> ExamineSandbox(pid_t pid, uid_t uid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  const Capabilities ours = CapabilitiesOf("/proc/self");
  std::vector<Check> checks{CheckKernel(), JudgeTracing(process::TraceError(), process::ReadMemoryError()),
                            JudgeUserNamespace(pid, ReadLink(folder + "/ns/user"),
                                               ReadLink("/proc/self/ns/user"), ours.MayTraceAnyone()),
                            JudgeCapabilities(pid, CapabilitiesOf(folder), ours)};
  // Without the right to look there nothing is known.
  const std::string root = folder + "/root";
  if (access((root + "/.").c_str(), X_OK) == 0)
    checks.push_back(JudgeSocketFolders(ProcessText(pid), FoldersBelow(root, uid)));
  return checks;
}

}  // namespace probing::inject
