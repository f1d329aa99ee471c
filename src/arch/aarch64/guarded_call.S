// probing_call_guarded and probing_after_a_throw, see arch/routines.h.

  .text
  .hidden probing_call_guarded
  .globl probing_call_guarded
  .type probing_call_guarded, @function
probing_call_guarded:
  .cfi_startproc
  .cfi_personality 0x1b, probing_stop_unwinding
  hint #34
  stp x29, x30, [sp, #-16]!
  .cfi_def_cfa_offset 16
  .cfi_offset x29, -16
  .cfi_offset x30, -8
  mov x29, sp
  mov x8, x0
  mov x0, x1
  blr x8
  mov w0, #1
  ldp x29, x30, [sp], #16
  .cfi_remember_state
  .cfi_restore x30
  .cfi_restore x29
  .cfi_def_cfa_offset 0
  ret
  .cfi_restore_state
  .hidden probing_after_a_throw
  .globl probing_after_a_throw
probing_after_a_throw:
  hint #36                           /* bti j: unwinders jump here */
  mov w0, #0
  ldp x29, x30, [sp], #16
  .cfi_restore x30
  .cfi_restore x29
  .cfi_def_cfa_offset 0
  ret
  .cfi_endproc
  .size probing_call_guarded, .-probing_call_guarded

  .section .note.GNU-stack,"",@progbits
