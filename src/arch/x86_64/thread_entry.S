// probing_thread_entry, see arch/routines.h.

  .text
  .globl probing_thread_entry
  .hidden probing_thread_entry
  .type probing_thread_entry, @function
probing_thread_entry:
  .cfi_startproc
  sub $8, %rsp
  .cfi_adjust_cfa_offset 8
  call probing_control_main
  add $8, %rsp
  .cfi_adjust_cfa_offset -8
  test %rax, %rax
  jz 1f
  mov %rax, %rdi
  jmp *dlclose@GOTPCREL(%rip)
1:
  ret
  .cfi_endproc
  .size probing_thread_entry, . - probing_thread_entry

  .section .note.GNU-stack,"",@progbits
