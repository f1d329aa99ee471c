#include "observe/host/kernel_record.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace probing::observe {
namespace {

constexpr std::array<std::string_view, 8> kLevels{"emergency", "alert",  "critical", "error",
                                                  "warning",   "notice", "info",     "debug"};

bool Has(std::string_view text, std::string_view words) { return text.find(words) != std::string_view::npos; }

// What stands between `before` and the next of `ends`; "" where there is none.
std::string_view Between(std::string_view text, std::string_view before, std::string_view ends) {
  const std::size_t at = text.find(before);
  if (at == std::string_view::npos) return "";
  text.remove_prefix(at + before.size());
  return text.substr(0, text.find_first_of(ends));
}

bool IsHex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// "0000:65:00" with or without ".0", the first in the text.
std::string_view PciIn(std::string_view text) {
  for (std::size_t at = text.find(':'); at != std::string_view::npos; at = text.find(':', at + 1)) {
    if (at < 4 || at + 6 > text.size()) continue;
    const std::string_view name = text.substr(at - 4, 10);  // dddd:bb:ss
    bool matches = name.size() == 10 && name[7] == ':' && (at == 4 || !IsHex(text[at - 5]));
    for (const std::size_t i : {0, 1, 2, 3, 5, 6, 8, 9}) matches = matches && IsHex(name[i]);
    if (!matches) continue;
    const std::string_view rest = text.substr(at + 6);
    const bool has_function = rest.size() >= 2 && rest[0] == '.' && rest[1] >= '0' && rest[1] <= '7';
    return text.substr(at - 4, has_function ? 12 : 10);
  }
  return "";
}

// "NVRM: Xid (PCI:0000:65:00): 31, pid=1234, name=python, Ch 00000008, …"
// "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 31 LTSSM Fault Up"
bool ParseXid(KernelRecord& record) {
  const std::string_view text = record.message;
  const std::size_t at = text.find("Xid (PCI:");
  if (at == std::string_view::npos) return false;
  const std::string_view rest = text.substr(at);
  const std::size_t colon = rest.find("): ");
  if (colon != std::string_view::npos) record.code = ParseNumber(rest.substr(colon + 3));
  record.kind = (at > 0 && text[at - 1] == 'S') || Has(rest, "NVLink") ? "nvlink" : "xid";
  std::string_view pid = Between(rest, "pid=", ",");
  if (pid.starts_with('\'')) pid.remove_prefix(1);  // pid='1234' in some versions
  record.pid = ParseNumber(pid);
  if (record.pid) record.process_name = Between(rest, "name=", ",");
  return true;
}

// "… Killed process 17 (name) total-vm:…", and with a comma before Linux 5;
// "oom-kill:…,task=name,pid=17,uid=0"; "name invoked oom-killer: …".
bool ParseOom(KernelRecord& record) {
  const std::string_view text = record.message;
  if (Has(text, "Killed process ")) {
    record.pid = ParseNumber(Between(text, "Killed process ", " ,"));
    const std::size_t open = text.find('(', text.find("Killed process "));
    const std::size_t close = text.find(')', open);
    if (open != std::string_view::npos && close != std::string_view::npos)
      record.process_name = text.substr(open + 1, close - open - 1);
  } else if (text.starts_with("oom-kill:")) {
    record.pid = ParseNumber(Between(text, ",pid=", ","));
    record.process_name = Between(text, ",task=", ",");
  } else if (Has(text, " invoked oom-killer")) {
    record.process_name = text.substr(0, text.find(" invoked oom-killer"));
  } else {
    return false;
  }
  record.kind = "oom";
  return true;
}

// "INFO: task name:17 blocked for more than 120 seconds."; "BUG: soft lockup - CPU#3 stuck for 22s!
// [name:17]"
bool ParseStuck(KernelRecord& record) {
  const std::string_view text = record.message;
  std::string_view task;
  if (Has(text, " blocked for more than ") && Has(text, "task ")) {
    task = text.substr(text.find("task ") + 5);
    task = task.substr(0, task.find(" blocked for more than "));
    record.kind = "hung_task";
  } else if (Has(text, "soft lockup") || Has(text, "hard LOCKUP")) {
    task = Between(text, "[", "]");
    record.kind = "lockup";
  } else {
    return false;
  }
  const std::size_t colon = task.rfind(':');
  if (colon == std::string_view::npos) return true;
  record.process_name = task.substr(0, colon);
  record.pid = ParseNumber(task.substr(colon + 1));
  return true;
}

// "name[17]: segfault at 0 ip …"
bool ParseSegfault(KernelRecord& record) {
  const std::string_view text = record.message;
  const std::size_t at = text.find("]: segfault at ");
  if (at == std::string_view::npos) return false;
  const std::size_t open = text.rfind('[', at);
  if (open == std::string_view::npos) return false;
  record.kind = "segfault";
  record.process_name = text.substr(0, open);
  record.pid = ParseNumber(text.substr(open + 1));
  return true;
}

std::string_view KindByWords(std::string_view text) {
  if (Has(text, "[Hardware Error]") || text.starts_with("mce:") || text.starts_with("EDAC ")) return "mce";
  if (Has(text, "AER: ")) return "pcie";
  const bool is_gpu = text.starts_with("NVRM:") || Has(text, "amdgpu: ") || text.starts_with("amdgpu ") ||
                      text.starts_with("[drm:amdgpu");
  if (is_gpu && (Has(text, "*ERROR*") || Has(text, "GPU reset") || Has(text, "ring ") || Has(text, "rror")))
    return "gpu";
  if (Has(text, "Link is Down") || Has(text, "Link down") || Has(text, "link down")) return "link";
  return "";
}

}  // namespace

std::optional<KernelRecord> ParseKernelRecord(std::string_view line) {
  const std::size_t semicolon = line.find(';');
  if (semicolon == std::string_view::npos || line.starts_with(' ')) return std::nullopt;
  std::string_view head = line.substr(0, semicolon);
  std::array<Number, 3> numbers;
  for (Number& number : numbers) {
    number = ParseNumber(head);
    if (!number) return std::nullopt;
    TakePart(head, ',');
  }
  KernelRecord record;
  record.level = kLevels[static_cast<std::size_t>(*numbers[0] & 7)];
  record.since_boot_us = *numbers[2];
  record.message = line.substr(semicolon + 1, line.find('\n') - semicolon - 1);
  std::replace_if(
      record.message.begin(), record.message.end(), [](char c) { return c >= 0 && c < ' '; }, ' ');
  if (!ParseXid(record) && !ParseOom(record) && !ParseStuck(record) && !ParseSegfault(record)) {
    record.kind = KindByWords(record.message);
    // "… Process information: process python pid 1234 thread …", of amdgpu
    if (record.kind == "gpu" && Has(record.message, " process ")) {
      record.process_name = Between(record.message, " process ", " ");
      record.pid = ParseNumber(Between(record.message, " pid ", " "));
    }
  }
  record.pci = PciIn(record.message);
  return record;
}

}  // namespace probing::observe
