#include "arch/signal_frame.h"

#include <algorithm>
#include <cstring>

namespace probing::arch {
namespace {

// The kernel's layout (arch/arm64/include/uapi/asm/sigcontext.h, ucontext.h): an ABI, so fixed.
struct Frame {
  std::uint64_t siginfo[16];
  std::uint64_t flags, link;
  // A size of 0 is refused by the kernel, which then leaves the alternate stack as it is.
  std::uint64_t altstack_pointer, altstack_flags, altstack_size;
  std::uint64_t signal_mask;
  std::uint64_t unused[15];
  std::uint64_t padding;
  std::uint64_t fault_address;
  std::uint64_t registers[31];
  std::uint64_t sp, pc, pstate;
  std::uint64_t more_padding;
};
static_assert(sizeof(Frame) == 592 && offsetof(Frame, registers) == 312);
static_assert(offsetof(Frame, registers) == (kFrameSkipsWords + FrameWords::kRegistersAt) * 8);

constexpr std::size_t kRecordBytes = 4096;  // behind the frame, for the records
constexpr std::size_t kAlignment = 16;

struct RecordHead {
  std::uint32_t magic;
  std::uint32_t size;
};
constexpr std::uint32_t kFpsimdMagic = 0x46508001;
constexpr std::uint32_t kSveMagic = 0x53564501;
constexpr std::uint32_t kExtraMagic = 0x45585401;

// struct user_fpsimd_state, as ptrace gives it; the record has the two control registers first.
struct Fpsimd {
  std::byte registers[512];
  std::uint32_t status, control, reserved[2];
};
struct FpsimdRecord {
  RecordHead head;
  std::uint32_t status, control;
  std::byte registers[512];
};
static_assert(sizeof(Fpsimd) == 528 && sizeof(FpsimdRecord) == 528);

// struct user_sve_header; those of ZA and of streaming mode are the same.
struct VectorHeader {
  std::uint32_t size, max_size;
  std::uint16_t vector_bytes, max_vector_bytes, flags, reserved;
};
static_assert(sizeof(VectorHeader) == 16);
constexpr std::uint16_t kHasSve = 1;  // SVE_PT_REGS_SVE

struct SveRecord {
  RecordHead head;
  std::uint16_t vector_bytes, flags, reserved[2];
};
static_assert(sizeof(SveRecord) == 16);

struct ExtraRecord {
  RecordHead head;
  std::uint64_t data;
  std::uint32_t size, reserved[3];
};
static_assert(sizeof(ExtraRecord) == 32);

const VectorPart* Find(const VectorState& state, int note) {
  const auto found =
      std::find_if(state.begin(), state.end(), [&](const VectorPart& part) { return part.note == note; });
  return found != state.end() ? &*found : nullptr;
}

template <typename T>
T Take(const VectorPart& part) {
  T value{};
  std::memcpy(&value, part.bytes.data(), std::min(part.bytes.size(), sizeof(value)));
  return value;
}

// More than a header: something is in there.
bool IsActive(const VectorState& state, int note) {
  const VectorPart* part = Find(state, note);
  return part != nullptr && Take<VectorHeader>(*part).size > sizeof(VectorHeader);
}

std::uint64_t AlignUp(std::uint64_t value) { return (value + kAlignment - 1) / kAlignment * kAlignment; }
std::uint64_t AlignDown(std::uint64_t value) { return value / kAlignment * kAlignment; }

template <typename T>
std::span<const std::byte> Bytes(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

void Append(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

// Z, P and FFR registers, which the record and ptrace have in the same order; empty when none are in use:
// then the kernel lets them be 0 beyond the floating point registers.
std::vector<std::byte> MakeSveRecord(const VectorState& state) {
  const VectorPart* sve = Find(state, NT_ARM_SVE);
  if (sve == nullptr) return {};
  const auto header = Take<VectorHeader>(*sve);
  if ((header.flags & kHasSve) == 0) return {};
  const std::size_t quads = header.vector_bytes / 16;
  const std::size_t register_bytes = quads * (32 * 16 + 16 * 2 + 2);
  if (sve->bytes.size() < sizeof(VectorHeader) + register_bytes) return {};
  const auto size = static_cast<std::uint32_t>(AlignUp(sizeof(SveRecord) + register_bytes));
  std::vector<std::byte> record;
  Append(record, Bytes(SveRecord{{kSveMagic, size}, header.vector_bytes, 0, {}}));
  Append(record, std::span(sve->bytes).subspan(sizeof(VectorHeader), register_bytes));
  record.resize(size);
  return record;
}

}  // namespace

const char* WhyNoFrame(const VectorState& state) {
  if (IsActive(state, NT_ARM_SSVE)) return "ran SME code in streaming mode";
  if (IsActive(state, NT_ARM_ZA)) return "used SME's matrix register";
  const VectorPart* control_stack = Find(state, NT_ARM_GCS);
  if (control_stack != nullptr && (Take<std::uint64_t>(*control_stack) & 1) != 0) {
    return "has a guarded control stack (GCS), which allows no call from outside";
  }
  return "";
}

SignalFrame MakeSignalFrame(const Registers& registers, const VectorState& state, std::uint64_t signal_mask,
                            std::uint64_t trampoline, std::size_t data_bytes) {
  static_cast<void>(trampoline);  // the link register leads there
  constexpr RecordHead kEnd{};
  const std::vector<std::byte> sve = MakeSveRecord(state);
  const bool needs_extra =
      sizeof(FpsimdRecord) + sve.size() + sizeof(ExtraRecord) + kAlignment > kRecordBytes;
  // Extra records, with an end of their own, come right behind the end of the others.
  const std::size_t extra_at = sizeof(Frame) + sizeof(FpsimdRecord) + sizeof(ExtraRecord) + kAlignment;
  const std::size_t extra_bytes = needs_extra ? sve.size() + kAlignment : 0;
  const std::size_t frame_bytes = AlignUp(std::max(sizeof(Frame) + kRecordBytes, extra_at + extra_bytes));

  SignalFrame made;
  made.data = AlignDown(AlignDown(registers.sp()) - data_bytes);
  made.start = made.data - frame_bytes;

  Registers resumed = registers;
  resumed.PrepareForKernel();
  Frame frame{};
  frame.signal_mask = signal_mask;
  const auto& native = resumed.native();
  std::copy_n(std::begin(native.regs), 31, frame.registers);
  frame.sp = native.sp;
  frame.pc = native.pc;
  frame.pstate = native.pstate;
  Append(made.bytes, Bytes(frame));

  const auto fpsimd = Take<Fpsimd>(state.front());
  FpsimdRecord record{{kFpsimdMagic, sizeof(FpsimdRecord)}, fpsimd.status, fpsimd.control, {}};
  std::memcpy(record.registers, fpsimd.registers, sizeof(record.registers));
  Append(made.bytes, Bytes(record));
  if (needs_extra) {
    const auto size = static_cast<std::uint32_t>(extra_bytes);
    Append(made.bytes,
           Bytes(ExtraRecord{{kExtraMagic, sizeof(ExtraRecord)}, made.start + extra_at, size, {}}));
    Append(made.bytes, Bytes(kEnd));
    made.bytes.resize(extra_at);
  }
  Append(made.bytes, sve);
  Append(made.bytes, Bytes(kEnd));
  made.bytes.resize(registers.sp() - made.start);
  return made;
}

std::optional<std::array<std::uint64_t, dwarf::kRegisterCount>> InterruptedRegisters(
    std::span<const std::uint64_t> frame) {
  if (frame.size() < kFrameWordsAtTrampoline) return std::nullopt;
  const auto words = frame.subspan(kFrameSkipsWords);
  if (!FrameWords(words).IsFrame(0)) return std::nullopt;
  std::array<std::uint64_t, dwarf::kRegisterCount> values{};
  std::copy_n(words.begin() + FrameWords::kRegistersAt, values.size(),
              values.begin());  // sp and pc follow x30
  return values;
}

}  // namespace probing::arch
