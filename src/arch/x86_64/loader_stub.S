// In: rdi = LoaderCall*. Entered like a function; ends by jumping to munmap with its own pages as
// the argument, so that munmap's return is the stub's return. The answer is written to shared memory,
// not to the file: a job with `ulimit -f 0` may write to none.
#include "arch/loader_call_offsets.h"

  .section .rodata
  .globl probing_loader_stub_begin
  .globl probing_loader_stub_end
  .hidden probing_loader_stub_begin
  .hidden probing_loader_stub_end
  .balign 16
probing_loader_stub_begin:
  push %rbx
  mov %rdi, %rbx
  lea PROBING_CALL_PATH(%rbx), %rdi
  mov PROBING_CALL_FLAGS(%rbx), %rsi
  call *PROBING_CALL_DLOPEN(%rbx)
  mov %rax, PROBING_CALL_HANDLE(%rbx)
  test %rax, %rax
  jz 2f
  mov 8(%rax), %rdi                  /* link_map.l_name, on the heap: a copy of our path */
  test %rdi, %rdi
  jz 4f
  xor %ecx, %ecx
1:
  movb PROBING_CALL_PATH(%rbx,%rcx), %dl
  cmpb (%rdi,%rcx), %dl              /* never beyond the end of what we know */
  jne 4f
  test %dl, %dl
  jz 4f
  movb PROBING_CALL_NAME(%rbx,%rcx), %dl
  movb %dl, (%rdi,%rcx)
  inc %ecx
  test %dl, %dl
  jnz 1b
  jmp 4f
2:
  mov PROBING_CALL_DLERROR(%rbx), %rax
  test %rax, %rax
  jz 4f
  call *%rax
  test %rax, %rax
  jz 4f
  xor %ecx, %ecx
3:
  movb (%rax,%rcx), %dl
  movb %dl, PROBING_CALL_ERROR(%rbx,%rcx)
  test %dl, %dl
  jz 4f
  inc %ecx
  cmp $511, %ecx
  jb 3b
4:
  movq $1, PROBING_CALL_DONE(%rbx)
  mov $3, %eax                       /* close(fd) */
  mov PROBING_CALL_FD(%rbx), %rdi
  syscall
  mov PROBING_CALL_STUB_ADDRESS(%rbx), %rdi
  mov $8192, %esi
  mov PROBING_CALL_MUNMAP(%rbx), %rax
  pop %rbx
  jmp *%rax
probing_loader_stub_end:
  .section .note.GNU-stack,"",@progbits
