#include "inject/loader_stub.h"

// Offsets of LoaderCall's members, spelled for the assembler and checked below.
#define DLOPEN "0"
#define DLERROR "8"
#define MUNMAP "16"
#define FLAGS "24"
#define STUB_ADDRESS "32"
#define MAILBOX_OFFSET "40"
#define FD "48"
#define HANDLE "56"
#define DONE "64"
#define PATH "72"
#define ERROR "112"
#define SIZE "624"

// In: rdi = LoaderCall*. Entered like a function; ends by jumping to munmap with its own page as
// the argument, so that munmap's return is the stub's return.
asm(R"(
  .section .rodata
  .globl probing_loader_stub_begin
  .globl probing_loader_stub_end
  .hidden probing_loader_stub_begin
  .hidden probing_loader_stub_end
  .balign 16
probing_loader_stub_begin:
  push %rbx
  mov %rdi, %rbx
  lea )" PATH R"((%rbx), %rdi
  mov )" FLAGS R"((%rbx), %rsi
  call *)" DLOPEN R"((%rbx)
  mov %rax, )" HANDLE R"((%rbx)
  test %rax, %rax
  jnz 2f
  mov )" DLERROR R"((%rbx), %rax
  test %rax, %rax
  jz 2f
  call *%rax
  test %rax, %rax
  jz 2f
  xor %ecx, %ecx
1:
  movb (%rax,%rcx), %dl
  movb %dl, )" ERROR R"((%rbx,%rcx)
  test %dl, %dl
  jz 2f
  inc %ecx
  cmp $511, %ecx
  jb 1b
2:
  movq $1, )" DONE R"((%rbx)
  mov $18, %eax                      # pwrite64(fd, call, sizeof(call), mailbox_offset)
  mov )" FD R"((%rbx), %rdi
  mov %rbx, %rsi
  mov $)" SIZE R"(, %edx
  mov )" MAILBOX_OFFSET R"((%rbx), %r10
  syscall
  mov $3, %eax                       # close(fd)
  mov )" FD R"((%rbx), %rdi
  syscall
  mov )" STUB_ADDRESS R"((%rbx), %rdi
  mov $4096, %esi
  mov )" MUNMAP R"((%rbx), %rax
  pop %rbx
  jmp *%rax
probing_loader_stub_end:
  .previous
)");

extern "C" const std::byte probing_loader_stub_begin[];
extern "C" const std::byte probing_loader_stub_end[];

namespace probing::inject {

static_assert(offsetof(LoaderCall, dlerror) == 8 && offsetof(LoaderCall, munmap) == 16);
static_assert(offsetof(LoaderCall, flags) == 24 && offsetof(LoaderCall, stub_address) == 32);
static_assert(offsetof(LoaderCall, mailbox_offset) == 40 && offsetof(LoaderCall, fd) == 48);
static_assert(offsetof(LoaderCall, handle) == 56 && offsetof(LoaderCall, done) == 64);
static_assert(offsetof(LoaderCall, path) == 72 && offsetof(LoaderCall, error) == 112);
static_assert(sizeof(LoaderCall) == 624);

std::span<const std::byte> LoaderStub() {
  return {probing_loader_stub_begin,
          static_cast<std::size_t>(probing_loader_stub_end - probing_loader_stub_begin)};
}

}  // namespace probing::inject
