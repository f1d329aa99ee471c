#include "process/core_notes.h"

#include <elf.h>
#include <sys/procfs.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>

namespace probing::process {
namespace {

using Bytes = std::span<const std::byte>;

template <typename T>
std::optional<T> Take(Bytes& bytes) {
  if (bytes.size() < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  bytes = bytes.subspan(sizeof(T));
  return value;
}

// Takes `size` bytes and what fills them up to a multiple of four; the last filling may be missing.
std::optional<Bytes> TakePadded(Bytes& bytes, std::uint32_t size) {
  if (size > bytes.size()) return std::nullopt;
  const Bytes taken = bytes.first(size);
  bytes = bytes.subspan(std::min<std::size_t>(bytes.size(), (std::size_t{size} + 3) & ~std::size_t{3}));
  return taken;
}

// Up to a NUL, or to the end.
std::string_view TextOf(Bytes bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return text.substr(0, text.find('\0'));
}

void ParseProcess(Bytes bytes, CoreNotes& notes) {
  const auto info = Take<elf_prpsinfo>(bytes);
  if (!info) return;
  notes.pid = info->pr_pid;
  notes.command = TextOf(std::as_bytes(std::span(info->pr_psargs)));
  if (notes.command.empty()) notes.command = TextOf(std::as_bytes(std::span(info->pr_fname)));
  while (notes.command.ends_with(' ')) notes.command.pop_back();
}

// count, page size, count times {start, end, offset in pages}, then count paths.
void ParseFiles(Bytes bytes, CoreNotes& notes) {
  struct Range {
    std::uint64_t start, end, offset_pages;
  };
  const auto count = Take<std::uint64_t>(bytes);
  const auto page_bytes = Take<std::uint64_t>(bytes);
  if (!count || !page_bytes || *count > bytes.size() / sizeof(Range)) return;
  Bytes paths = bytes.subspan(*count * sizeof(Range));
  for (std::uint64_t i = 0; i < *count && !paths.empty(); ++i) {
    const Range range = *Take<Range>(bytes);
    const std::string_view path = TextOf(paths);
    paths = paths.subspan(std::min(paths.size(), path.size() + 1));
    std::uint64_t offset_bytes = 0;
    if (__builtin_mul_overflow(range.offset_pages, *page_bytes, &offset_bytes)) continue;
    if (range.start < range.end)
      notes.files.push_back({range.start, range.end, offset_bytes, std::string(path)});
  }
}

void ParseAuxiliaryVector(Bytes bytes, CoreNotes& notes) {
  while (const auto entry = Take<Elf64_auxv_t>(bytes)) {
    if (entry->a_type == AT_ENTRY) notes.entry = entry->a_un.a_val;
  }
}

bool IsFault(int number) {
  return number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGFPE;
}

// Those that write a core.
std::string SignalName(int number) {
  switch (number) {
#define PROBING_SIGNAL(name) \
  case name:                 \
    return #name
    PROBING_SIGNAL(SIGQUIT);
    PROBING_SIGNAL(SIGILL);
    PROBING_SIGNAL(SIGABRT);
    PROBING_SIGNAL(SIGBUS);
    PROBING_SIGNAL(SIGFPE);
    PROBING_SIGNAL(SIGSEGV);
    PROBING_SIGNAL(SIGXCPU);
    PROBING_SIGNAL(SIGXFSZ);
    PROBING_SIGNAL(SIGSYS);
#undef PROBING_SIGNAL
    default:
      return "signal " + std::to_string(number);
  }
}

// siginfo_t as the kernel has it on 64-bit machines: three numbers, four bytes of nothing, then by kind.
void ParseSignal(Bytes bytes, CoreNotes& notes) {
  struct Head {
    std::int32_t number, error, code, padding;
  };
  const auto head = Take<Head>(bytes);
  if (!head || notes.signal.number != 0) return;  // the first is of the thread that got it
  if (head->number <= 0 || head->number > SIGRTMAX) return;
  if (head->number == SIGSTOP || head->number == SIGTRAP) return;
  notes.signal.number = head->number;
  notes.signal.code = head->code;
  Bytes as_pid = bytes;
  if (head->code <= 0) {
    notes.signal.sender = Take<std::int32_t>(as_pid).value_or(0);
  } else if (IsFault(head->number)) {
    notes.signal.address = Take<std::uint64_t>(bytes).value_or(0);
  }
}

}  // namespace

std::string SignalText(const CoreNotes::Signal& signal) {
  if (signal.number == 0) return "";
  std::string text = "killed by " + SignalName(signal.number);
  if (signal.code <= 0) return text + ", sent by process " + std::to_string(signal.sender);
  if (!IsFault(signal.number)) return text;
  std::array<char, 32> address;
  std::snprintf(address.data(), address.size(), " at address 0x%llx",
                static_cast<unsigned long long>(signal.address));
  text += address.data();
  if (signal.number == SIGSEGV && signal.code == SEGV_MAPERR) text += " (not mapped)";
  if (signal.number == SIGSEGV && signal.code == SEGV_ACCERR) text += " (not allowed)";
  return text;
}

void ParseCoreNotes(Bytes segment, CoreNotes& notes) {
  while (const auto header = Take<Elf64_Nhdr>(segment)) {
    const auto name = TakePadded(segment, header->n_namesz);
    const auto content = name ? TakePadded(segment, header->n_descsz) : std::nullopt;
    if (!content) return;
    if (TextOf(*name) != "CORE") continue;
    Bytes rest = *content;
    if (header->n_type == NT_PRPSINFO) ParseProcess(*content, notes);
    if (header->n_type == NT_SIGINFO) ParseSignal(*content, notes);
    if (header->n_type == NT_FILE) ParseFiles(*content, notes);
    if (header->n_type == NT_AUXV) ParseAuxiliaryVector(*content, notes);
    if (header->n_type != NT_PRSTATUS) continue;
    // What is before the registers is the same on all 64-bit processors.
    if (rest.size() < offsetof(elf_prstatus, pr_reg)) continue;
    pid_t tid = 0;
    std::memcpy(&tid, &rest[offsetof(elf_prstatus, pr_pid)], sizeof(tid));
    notes.tids.push_back(tid);
    if (rest.size() != sizeof(elf_prstatus)) continue;  // of another processor
    const auto registers = notes.registers[tid].bytes();
    static_assert(sizeof(elf_prstatus::pr_reg) == sizeof(arch::NativeRegisters::general));
    std::memcpy(registers.data(), &rest[offsetof(elf_prstatus, pr_reg)], registers.size());
  }
}

}  // namespace probing::process
