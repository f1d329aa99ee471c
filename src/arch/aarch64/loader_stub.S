// In: x0 = LoaderCall*. Entered like a function; ends by jumping to munmap with its own pages as
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
  hint #34                           /* bti c */
  stp x29, x30, [sp, #-32]!
  mov x29, sp
  str x19, [sp, #16]
  mov x19, x0
  ldr x8, [x19, #PROBING_CALL_DLOPEN]
  ldr x1, [x19, #PROBING_CALL_FLAGS]
  add x0, x19, #PROBING_CALL_PATH
  blr x8
  str x0, [x19, #PROBING_CALL_HANDLE]
  cbz x0, 2f
  ldr x0, [x0, #8]                   /* link_map.l_name, on the heap: a copy of our path */
  cbz x0, 4f
  add x1, x19, #PROBING_CALL_PATH
  add x2, x19, #PROBING_CALL_NAME
1:
  ldrb w3, [x1], #1
  ldrb w4, [x0]
  cmp w3, w4                         /* never beyond the end of what we know */
  b.ne 4f
  cbz w3, 4f
  ldrb w3, [x2], #1
  strb w3, [x0], #1
  cbnz w3, 1b
  b 4f
2:
  ldr x8, [x19, #PROBING_CALL_DLERROR]
  cbz x8, 4f
  blr x8
  cbz x0, 4f
  add x1, x19, #PROBING_CALL_ERROR
  mov x2, #511
3:
  ldrb w3, [x0], #1
  strb w3, [x1], #1
  cbz w3, 4f
  subs x2, x2, #1
  b.ne 3b
4:
  mov x3, #1
  add x4, x19, #PROBING_CALL_DONE
  stlr x3, [x4]                      /* after all of the answer */
  mov x8, #57                        /* close(fd) */
  ldr x0, [x19, #PROBING_CALL_FD]
  svc #0
  ldr x0, [x19, #PROBING_CALL_STUB_ADDRESS]
  mov x1, #0x20000                   /* both pages */
  ldr x16, [x19, #PROBING_CALL_MUNMAP]
  ldr x19, [sp, #16]
  ldp x29, x30, [sp], #32
  br x16
probing_loader_stub_end:
  .section .note.GNU-stack,"",@progbits
