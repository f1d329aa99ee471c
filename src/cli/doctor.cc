#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/output.h"
#include "inject/inject.h"
#include "observe/gpu/gpus.h"

namespace probing::cli {
namespace {

Json ToJson(const std::vector<inject::Check>& checks) {
  Json list = Json::array();
  for (const inject::Check& check : checks) {
    Json row{{"name", check.name}, {"passed", check.passed}, {"detail", check.detail}};
    if (!check.passed) row.update({{"problem", check.error.message}, {"fix", check.error.hint}});
    list.push_back(std::move(row));
  }
  return list;
}

std::string ToText(const std::vector<inject::Check>& checks) {
  std::vector<std::vector<std::string>> rows;
  for (const inject::Check& check : checks) {
    const std::string mark = check.passed ? Painted("✓", Colour::kGreen) : Painted("✗", Colour::kRed);
    rows.push_back({mark, check.name, check.passed ? check.detail : check.error.message});
    if (!check.passed && !check.error.hint.empty()) rows.push_back({"", "", "fix: " + check.error.hint});
  }
  return FormatRows(rows);
}

constexpr std::int64_t kGpuMs = 1000;  // a driver in trouble may never answer

// Not having a GPU, or an older library, stops no attach: these checks always pass.
void AddGpus(std::vector<inject::Check>& checks) {
  for (const observe::GpuSupport& vendor : observe::ExamineGpus({}, kGpuMs))
    checks.push_back({"GPUs of " + vendor.vendor, true, vendor.text, {}});
}

Result<int> Run(const Invocation& invocation) {
  std::vector<inject::Check> checks =
      invocation.target ? inject::Examine(*invocation.target) : inject::ExamineHost();
  if (!invocation.target) AddGpus(checks);
  Print(invocation.Has("--json") ? FormatJson(ToJson(checks)) : ToText(checks));
  for (const inject::Check& check : checks) {
    if (!check.passed) return static_cast<int>(check.error.code);
  }
  return 0;
}

}  // namespace

Command DoctorCommand() {
  return {.name = "doctor",
          .summary = "Check what would prevent an attach, to a process or on this host",
          .example = "probing doctor 1234",
          .target = TargetUse::kOptional,
          .only_here = true,
          .options = {{"--json", "", "print JSON"}},
          .run = Run};
}

}  // namespace probing::cli
