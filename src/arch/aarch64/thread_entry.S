// probing_thread_entry, see arch/routines.h.

  .text
  .globl probing_thread_entry
  .hidden probing_thread_entry
  .type probing_thread_entry, @function
probing_thread_entry:
  .cfi_startproc
  hint #34
  stp x29, x30, [sp, #-16]!
  .cfi_def_cfa_offset 16
  .cfi_offset x29, -16
  .cfi_offset x30, -8
  mov x29, sp
  bl probing_control_main
  ldp x29, x30, [sp], #16
  .cfi_restore x30
  .cfi_restore x29
  .cfi_def_cfa_offset 0
  cbz x0, 1f
  adrp x16, :got:dlclose
  ldr x16, [x16, :got_lo12:dlclose]
  br x16
1:
  ret
  .cfi_endproc
  .size probing_thread_entry, . - probing_thread_entry

  .section .note.GNU-stack,"",@progbits
