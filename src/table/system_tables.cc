// Tables about processes and their host, read from outside.
#include <array>

#include "table/registry.h"

namespace probing::table {
namespace {

using enum Type;

constexpr Column kTime{"timestamp", kTimestamp, "", "when it was measured"};

constexpr std::array kProcess{
    Column{"pid", kInt64, "", "process id: of the target, or of one of its descendants"},
    Column{"name", kString, "", "name of the program"},
    Column{"cmdline", kString, "", "command line"},
    Column{"state", kString, "",
           "running, sleeping, uninterruptible, stopped, traced, zombie, idle, unknown"},
    Column{"ppid", kInt64, "", "process id of the parent"},
    Column{"user", kString, "", "name of the owner"},
    Column{"started", kTimestamp, "", "when it was started"},
    Column{"threads", kInt64, "", "number of threads"},
    Column{"cpu_percent", kDouble, "%", "of one core, since the process started"},
    Column{"rss", kInt64, "bytes", "resident memory"},
    Column{"vms", kInt64, "bytes", "mapped memory"},
    Column{"fds", kInt64, "", "open file descriptors"},
    Column{"read_bytes", kInt64, "bytes", "read from storage since it started"},
    Column{"write_bytes", kInt64, "bytes", "written to storage since it started"},
};

constexpr std::array kCpu{
    kTime,
    Column{"cpu_percent", kDouble, "%", "of one core, by the process"},
    Column{"user_percent", kDouble, "%", "of one core, in its own code"},
    Column{"system_percent", kDouble, "%", "of one core, in the kernel"},
    Column{"children_percent", kDouble, "%", "of one core, by its child processes"},
    Column{"host_percent", kDouble, "%", "of all cores, by everybody on the host"},
    Column{"voluntary_switches", kInt64, "", "times it gave up the CPU in this interval"},
    Column{"involuntary_switches", kInt64, "", "times the CPU was taken away in this interval"},
    Column{"throttled_ms", kDouble, "ms", "time its control group was kept from running in this interval"},
    Column{"host_pressure_percent", kDouble, "%", "time in which a task on the host waited for a CPU"},
};

constexpr std::array kMemory{
    kTime,
    Column{"rss", kInt64, "bytes", "resident memory of the process"},
    Column{"vms", kInt64, "bytes", "mapped memory of the process"},
    Column{"shared", kInt64, "bytes", "resident memory shared with files or other processes"},
    Column{"swap", kInt64, "bytes", "memory of the process that was swapped out"},
    Column{"children_rss", kInt64, "bytes", "resident memory of its child processes"},
    Column{"host_used", kInt64, "bytes", "memory in use on the host"},
    Column{"host_available", kInt64, "bytes", "memory that could still be had on the host"},
    Column{"cgroup_limit", kInt64, "bytes", "tightest limit of its control groups; NULL without one"},
    Column{"cgroup_used", kInt64, "bytes", "memory in use in the control group with that limit"},
    Column{"major_faults", kInt64, "", "pages read from storage in this interval"},
    Column{"host_pressure_percent", kDouble, "%", "time in which a task on the host waited for memory"},
};

constexpr std::array kIo{
    kTime,
    Column{"read_bytes", kInt64, "bytes", "read from storage in this interval"},
    Column{"write_bytes", kInt64, "bytes", "written to storage in this interval"},
    Column{"read_calls", kInt64, "", "read system calls in this interval"},
    Column{"write_calls", kInt64, "", "write system calls in this interval"},
    Column{"read_rate", kDouble, "bytes/s", "read_bytes by time"},
    Column{"write_rate", kDouble, "bytes/s", "write_bytes by time"},
    Column{"host_pressure_percent", kDouble, "%", "time in which a task on the host waited for storage"},
};

constexpr std::array kNetwork{
    kTime,
    Column{"interface", kString, "", "name of the network interface, as the target sees it"},
    Column{"received_bytes", kInt64, "bytes", "received in this interval"},
    Column{"sent_bytes", kInt64, "bytes", "sent in this interval"},
    Column{"received_packets", kInt64, "", "received in this interval"},
    Column{"sent_packets", kInt64, "", "sent in this interval"},
    Column{"errors", kInt64, "", "errors and drops in this interval"},
    Column{"receive_rate", kDouble, "bytes/s", "received_bytes by time"},
    Column{"send_rate", kDouble, "bytes/s", "sent_bytes by time"},
};

constexpr std::array kSockets{
    kTime,
    Column{"local", kString, "", "address and port of this end"},
    Column{"remote", kString, "", "address and port of the other end"},
    Column{"sent_bytes", kInt64, "bytes", "sent since the row before, and acknowledged"},
    Column{"received_bytes", kInt64, "bytes", "received since the row before"},
    Column{"retransmissions", kInt64, "", "segments sent once more since the row before"},
    Column{"unsent_bytes", kInt64, "bytes", "written by the process, and not yet sent"},
    Column{"rtt_ms", kDouble, "ms", "round trip time"},
    Column{"min_rtt_ms", kDouble, "ms", "the shortest that was seen lately"},
    Column{"delivery_rate", kInt64, "bytes/s", "what the network took in the latest burst"},
    Column{"busy_ms", kDouble, "ms", "time with something on its way, since the row before"},
    Column{"peer_limited_ms", kDouble, "ms", "of it, time in which the other side had no room"},
};

constexpr std::array kThreads{
    kTime,
    Column{"tid", kInt64, "", "thread id of the kernel"},
    Column{"name", kString, "", "name of the thread"},
    Column{"state", kString, "", "running, sleeping, uninterruptible, stopped, traced"},
    Column{"cpu_percent", kDouble, "%", "of one core"},
    Column{"core", kInt64, "", "core it ran on last"},
    Column{"wait_channel", kString, "", "what it waits for in the kernel; NULL when it runs"},
    Column{"voluntary_switches", kInt64, "", "times it gave up the CPU in this interval"},
    Column{"involuntary_switches", kInt64, "", "times the CPU was taken away in this interval"},
};

constexpr std::array kCrashEvents{
    kTime,
    Column{"reason", kString, "", "exit, exception, signal, oom or unknown"},
    Column{"exit_code", kInt64, "", "exit code; NULL when a signal ended it"},
    Column{"signal", kString, "", "the signal that ended it, as in SIGSEGV"},
    Column{"message", kString, "", "the exception, or what the kernel said"},
    Column{"last_step", kInt64, "", "last training step that was recorded"},
    Column{"name", kString, "", "name of the program"},
    Column{"cmdline", kString, "", "command line"},
    Column{"started", kTimestamp, "", "when it was started"},
};

constexpr std::array kCrashStacks{
    kTime,
    Column{"tid", kInt64, "", "thread id of the kernel"},
    Column{"thread_name", kString, "", "name of the thread"},
    Column{"depth", kInt64, "", "0 is the innermost frame"},
    Column{"func", kString, "", "qualified name of the function"},
    Column{"file", kString, "", "source file"},
    Column{"lineno", kInt64, "", "line of the frame"},
    Column{"frame_type", kString, "", "Python"},
};

constexpr std::array kTables{
    Table{"system.process", Kind::kLive, Origin::kOutside, "the process and its children now", kProcess},
    Table{"system.cpu", Kind::kStored, Origin::kOutside, "CPU time over time", kCpu},
    Table{"system.memory", Kind::kStored, Origin::kOutside, "memory over time", kMemory},
    Table{"system.io", Kind::kStored, Origin::kOutside, "reading and writing of storage over time", kIo},
    Table{"system.network", Kind::kStored, Origin::kOutside, "network traffic over time", kNetwork},
    Table{"system.sockets", Kind::kStored, Origin::kOutside,
          "TCP connections that carry something, over time", kSockets},
    Table{"system.threads", Kind::kStored, Origin::kOutside, "CPU time of each thread over time", kThreads},
    Table{"crash.events", Kind::kStored, Origin::kOutside, "how targets ended", kCrashEvents},
    Table{"crash.stacks", Kind::kStored, Origin::kOutside, "the last stacks of targets that ended",
          kCrashStacks},
};

}  // namespace

std::span<const Table> SystemTables() { return kTables; }

}  // namespace probing::table
