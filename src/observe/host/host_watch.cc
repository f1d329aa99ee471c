#include "observe/host/host_watch.h"

#include <fcntl.h>

#include <algorithm>

namespace probing::observe {

HostWatch::HostWatch(FileBudget* budget, const std::string& proc_root)
    : stat_(AT_FDCWD, proc_root + "/stat", budget),
      meminfo_(AT_FDCWD, proc_root + "/meminfo", budget),
      cpu_{KeptFile(AT_FDCWD, proc_root + "/pressure/cpu", budget), {}},
      memory_{KeptFile(AT_FDCWD, proc_root + "/pressure/memory", budget), {}},
      io_{KeptFile(AT_FDCWD, proc_root + "/pressure/io", budget), {}} {}

HostLook HostWatch::Look(std::int64_t interval_ns) {
  HostLook look;
  LookAtCpu(look);
  LookAtMemory(look);
  look.cpu_pressure_percent = LookAtPressure(cpu_, interval_ns);
  look.memory_pressure_percent = LookAtPressure(memory_, interval_ns);
  look.io_pressure_percent = LookAtPressure(io_, interval_ns);
  return look;
}

// "cpu  user nice system idle iowait irq softirq steal guest guest_nice": guests are counted in
// user and nice already. The time of all cores comes from here too: the ticks of one second differ.
void HostWatch::LookAtCpu(HostLook& look) {
  std::string_view text = stat_.Read(scratch_).value_or("");
  std::string_view line = TakeLine(text);
  if (TakeWord(line) != "cpu") return;
  Number all = 0;
  Number idle = 0;
  for (int i = 0; i < 8; ++i) {
    const Number ticks = ParseNumber(TakeWord(line));
    if (!ticks.has_value() && i > 3) break;  // old kernels have fewer
    all = Plus(all, ticks);
    if (i == 3 || i == 4) idle = Plus(idle, ticks);
  }
  if (!all.has_value() || !idle.has_value()) return;
  const Number all_step = all_ticks_.Step(all);
  const Number busy_step = busy_ticks_.Step(*all - *idle);
  if (!all_step.has_value() || *all_step == 0 || !busy_step.has_value()) return;
  // The kernel may take idle time back: no more than everything.
  look.cpu_percent = std::min(100.0, *Percent(busy_step, *all_step));
}

void HostWatch::LookAtMemory(HostLook& look) {
  const std::string_view text = meminfo_.Read(scratch_).value_or("");
  look.memory_total = FindKilobytes(text, "MemTotal:");
  look.memory_available = FindKilobytes(text, "MemAvailable:");
  if (!look.memory_available.has_value()) {  // before Linux 3.14
    look.memory_available = Plus(FindKilobytes(text, "MemFree:"), FindKilobytes(text, "Cached:"));
  }
  if (look.memory_total.has_value() && look.memory_available.has_value()) {
    look.memory_used = std::max<std::int64_t>(0, *look.memory_total - *look.memory_available);
  }
}

// "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234", the last in µs.
std::optional<double> HostWatch::LookAtPressure(Pressure& pressure, std::int64_t interval_ns) {
  std::string_view text = pressure.file.Read(scratch_).value_or("");
  const std::string_view some = TakeLine(text);
  const std::size_t total = some.find("total=");
  const Number waited = some.starts_with("some ") && total != std::string_view::npos
                            ? ParseNumber(some.substr(total + 6))
                            : Number();
  return Percent(Times(pressure.waited_us.Step(waited), 1000), interval_ns);
}

}  // namespace probing::observe
