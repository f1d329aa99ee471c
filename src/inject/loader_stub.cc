#include "inject/loader_stub.h"

// Offsets of LoaderCall's members, spelled for the assembler and checked below.
#define DLOPEN "0"
#define DLERROR "8"
#define MUNMAP "16"
#define FLAGS "24"
#define STUB_ADDRESS "32"
#define FD "40"
#define HANDLE "48"
#define DONE "56"
#define PATH "80"
#define NAME "144"
#define ERROR "176"

// In: rdi = LoaderCall*. Entered like a function; ends by jumping to munmap with its own pages as
// the argument, so that munmap's return is the stub's return. The answer is written to shared memory,
// not to the file: a job with `ulimit -f 0` may write to none.
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
  jz 2f
  mov 8(%rax), %rdi                  # link_map.l_name, on the heap: a copy of our path
  test %rdi, %rdi
  jz 4f
  xor %ecx, %ecx
1:
  movb )" PATH R"((%rbx,%rcx), %dl
  cmpb (%rdi,%rcx), %dl              # never beyond the end of what we know
  jne 4f
  test %dl, %dl
  jz 4f
  movb )" NAME R"((%rbx,%rcx), %dl
  movb %dl, (%rdi,%rcx)
  inc %ecx
  test %dl, %dl
  jnz 1b
  jmp 4f
2:
  mov )" DLERROR R"((%rbx), %rax
  test %rax, %rax
  jz 4f
  call *%rax
  test %rax, %rax
  jz 4f
  xor %ecx, %ecx
3:
  movb (%rax,%rcx), %dl
  movb %dl, )" ERROR R"((%rbx,%rcx)
  test %dl, %dl
  jz 4f
  inc %ecx
  cmp $511, %ecx
  jb 3b
4:
  movq $1, )" DONE R"((%rbx)
  mov $3, %eax                       # close(fd)
  mov )" FD R"((%rbx), %rdi
  syscall
  mov )" STUB_ADDRESS R"((%rbx), %rdi
  mov $8192, %esi
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
static_assert(offsetof(LoaderCall, fd) == 40 && offsetof(LoaderCall, handle) == 48);
static_assert(offsetof(LoaderCall, done) == 56 && offsetof(LoaderCall, path) == 80);
static_assert(offsetof(LoaderCall, name) == 144 && offsetof(LoaderCall, error) == 176);
static_assert(sizeof(LoaderCall) <= kMailboxBytes && kStubPageBytes + kMailboxBytes == 8192);

std::span<const std::byte> LoaderStub() {
  return {probing_loader_stub_begin,
          static_cast<std::size_t>(probing_loader_stub_end - probing_loader_stub_begin)};
}

}  // namespace probing::inject
