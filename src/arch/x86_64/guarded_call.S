// probing_call_guarded and probing_after_a_throw, see arch/routines.h.

  .text
  .hidden probing_call_guarded
  .globl probing_call_guarded
  .type probing_call_guarded, @function
probing_call_guarded:
  .cfi_startproc
  .cfi_personality 0x1b, probing_stop_unwinding
  pushq %rbx
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rbx, 0
  movq %rdi, %rax
  movq %rsi, %rdi
  callq *%rax
  movl $1, %eax
  popq %rbx
  .cfi_adjust_cfa_offset -8
  .cfi_restore %rbx
  retq
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rbx, 0
  .hidden probing_after_a_throw
  .globl probing_after_a_throw
probing_after_a_throw:
  xorl %eax, %eax
  popq %rbx
  .cfi_adjust_cfa_offset -8
  .cfi_restore %rbx
  retq
  .cfi_endproc
  .size probing_call_guarded, .-probing_call_guarded

  .section .note.GNU-stack,"",@progbits
