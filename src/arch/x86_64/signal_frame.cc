#include "arch/signal_frame.h"

#include <cstring>

namespace probing::arch {
namespace {

// The kernel's layout (arch/x86/include/uapi/asm/sigcontext.h, ucontext.h): an ABI, so fixed.
struct SignalContext {
  std::uint64_t r8, r9, r10, r11, r12, r13, r14, r15, di, si, bp, bx, dx, ax, cx, sp, ip, flags;
  std::uint16_t cs, gs, fs, ss;
  std::uint64_t err, trapno, oldmask, cr2, fpstate, reserved[8];
};
static_assert(sizeof(SignalContext) == 256);

struct Frame {
  std::uint64_t return_address;
  std::uint64_t flags, link;
  // A size of 0 is refused by the kernel, which then leaves the alternate stack as it is.
  std::uint64_t altstack_pointer, altstack_flags, altstack_size;
  SignalContext context;
  std::uint64_t signal_mask;
};
static_assert(sizeof(Frame) == 312);

constexpr std::uint64_t kHasExtendedState = 1;     // UC_FP_XSTATE
constexpr std::uint64_t kHasStackSegment = 2 | 4;  // UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS

// struct _fpx_sw_bytes, in the part of the XSAVE area that software may use.
struct SoftwareBytes {
  std::uint32_t magic;
  std::uint32_t extended_size;
  std::uint64_t features;
  std::uint32_t state_size;
  std::uint32_t padding[7];
};
constexpr std::size_t kSoftwareBytesAt = 464;
constexpr std::uint32_t kMagic1 = 0x46505853;
constexpr std::uint32_t kMagic2 = 0x46505845;
constexpr std::size_t kXsaveAlignment = 64;

std::uint64_t AlignDown(std::uint64_t value, std::uint64_t alignment) { return value & ~(alignment - 1); }

SignalContext ToContext(const user_regs_struct& r, std::uint64_t fpstate) {
  SignalContext c{};
  c.r8 = r.r8, c.r9 = r.r9, c.r10 = r.r10, c.r11 = r.r11;
  c.r12 = r.r12, c.r13 = r.r13, c.r14 = r.r14, c.r15 = r.r15;
  c.di = r.rdi, c.si = r.rsi, c.bp = r.rbp, c.bx = r.rbx;
  c.dx = r.rdx, c.ax = r.rax, c.cx = r.rcx, c.sp = r.rsp;
  c.ip = r.rip, c.flags = r.eflags;
  c.cs = static_cast<std::uint16_t>(r.cs);
  c.ss = static_cast<std::uint16_t>(r.ss);
  c.fpstate = fpstate;
  return c;
}

template <typename T>
void Put(SignalFrame& frame, std::uint64_t address, const T& value) {
  std::memcpy(&frame.bytes[address - frame.start], &value, sizeof(value));
}

}  // namespace

const char* WhyNoFrame(const VectorState& /*vector_state*/) { return ""; }

SignalFrame MakeSignalFrame(const Registers& registers, const VectorState& state, std::uint64_t signal_mask,
                            std::uint64_t trampoline, std::size_t data_bytes) {
  const std::span<const std::byte> vector_state = state.front().bytes;
  const std::uint64_t top = registers.sp() - kRedZoneBytes;
  const std::uint64_t extended = AlignDown(top - vector_state.size() - sizeof(kMagic2), kXsaveAlignment);
  SignalFrame made;
  made.data = AlignDown(extended - data_bytes, 16);
  // A function expects its return address just below a 16-byte boundary.
  made.start = AlignDown(made.data - sizeof(Frame), 16) - 8;
  made.bytes.resize(top - made.start);

  std::memcpy(&made.bytes[extended - made.start], vector_state.data(), vector_state.size());
  SoftwareBytes software{};
  std::memcpy(&software.features, &vector_state[kSoftwareBytesAt], sizeof(software.features));
  software.magic = kMagic1;
  software.state_size = static_cast<std::uint32_t>(vector_state.size());
  software.extended_size = software.state_size + sizeof(kMagic2);
  Put(made, extended + kSoftwareBytesAt, software);
  Put(made, extended + vector_state.size(), kMagic2);

  Frame frame{};
  frame.return_address = trampoline;
  frame.flags = kHasExtendedState | kHasStackSegment;
  frame.context = ToContext(registers.native(), extended);
  frame.signal_mask = signal_mask;
  Put(made, made.start, frame);
  return made;
}

std::optional<std::array<std::uint64_t, dwarf::kRegisterCount>> InterruptedRegisters(
    std::span<const std::uint64_t> /*frame*/) {
  return std::nullopt;
}

}  // namespace probing::arch
