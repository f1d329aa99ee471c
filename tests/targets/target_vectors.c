// Keeps known values in every vector and general register, in the red zone and in the control
// registers across a long spin, then looks whether they are still there.
// On x86-64 built with -mavx2 -mno-red-zone, so that the red zone is ours to fill. On arm64 with SVE, vectors
// and predicates are as long as the kernel has set; there is no red zone.
#include <stddef.h>
#include <string.h>

#include "report.h"

#if defined(__x86_64__)
typedef struct {
  uint8_t ymm[16][32];
  uint64_t general[8];    // r8…r15
  uint64_t red_zone[16];  // 128 bytes below the stack pointer
  uint32_t mxcsr;
} State;

static void Spin(const State* in, State* out, uint64_t rounds) {
  // Registers by hand: rdi in, rsi out, rcx rounds; r8…r15 and ymm0…15 hold the values.
  __asm__ volatile(
      "vmovdqu 0(%%rdi), %%ymm0\n vmovdqu 32(%%rdi), %%ymm1\n vmovdqu 64(%%rdi), %%ymm2\n"
      "vmovdqu 96(%%rdi), %%ymm3\n vmovdqu 128(%%rdi), %%ymm4\n vmovdqu 160(%%rdi), %%ymm5\n"
      "vmovdqu 192(%%rdi), %%ymm6\n vmovdqu 224(%%rdi), %%ymm7\n vmovdqu 256(%%rdi), %%ymm8\n"
      "vmovdqu 288(%%rdi), %%ymm9\n vmovdqu 320(%%rdi), %%ymm10\n vmovdqu 352(%%rdi), %%ymm11\n"
      "vmovdqu 384(%%rdi), %%ymm12\n vmovdqu 416(%%rdi), %%ymm13\n vmovdqu 448(%%rdi), %%ymm14\n"
      "vmovdqu 480(%%rdi), %%ymm15\n"
      "mov 512(%%rdi), %%r8\n mov 520(%%rdi), %%r9\n mov 528(%%rdi), %%r10\n mov 536(%%rdi), %%r11\n"
      "mov 544(%%rdi), %%r12\n mov 552(%%rdi), %%r13\n mov 560(%%rdi), %%r14\n mov 568(%%rdi), %%r15\n"
      "mov $-16, %%rax\n"
      "1: mov 704(%%rdi,%%rax,8), %%rdx\n mov %%rdx, (%%rsp,%%rax,8)\n inc %%rax\n jnz 1b\n"
      "2: pause\n dec %%rcx\n jnz 2b\n"
      "mov $-16, %%rax\n"
      "3: mov (%%rsp,%%rax,8), %%rdx\n mov %%rdx, 704(%%rsi,%%rax,8)\n inc %%rax\n jnz 3b\n"
      "mov %%r8, 512(%%rsi)\n mov %%r9, 520(%%rsi)\n mov %%r10, 528(%%rsi)\n mov %%r11, 536(%%rsi)\n"
      "mov %%r12, 544(%%rsi)\n mov %%r13, 552(%%rsi)\n mov %%r14, 560(%%rsi)\n mov %%r15, 568(%%rsi)\n"
      "vmovdqu %%ymm0, 0(%%rsi)\n vmovdqu %%ymm1, 32(%%rsi)\n vmovdqu %%ymm2, 64(%%rsi)\n"
      "vmovdqu %%ymm3, 96(%%rsi)\n vmovdqu %%ymm4, 128(%%rsi)\n vmovdqu %%ymm5, 160(%%rsi)\n"
      "vmovdqu %%ymm6, 192(%%rsi)\n vmovdqu %%ymm7, 224(%%rsi)\n vmovdqu %%ymm8, 256(%%rsi)\n"
      "vmovdqu %%ymm9, 288(%%rsi)\n vmovdqu %%ymm10, 320(%%rsi)\n vmovdqu %%ymm11, 352(%%rsi)\n"
      "vmovdqu %%ymm12, 384(%%rsi)\n vmovdqu %%ymm13, 416(%%rsi)\n vmovdqu %%ymm14, 448(%%rsi)\n"
      "vmovdqu %%ymm15, 480(%%rsi)\n"
      "stmxcsr 704(%%rsi)\n"
      : "+c"(rounds)
      : "D"(in), "S"(out)
      : "rax", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1", "xmm2", "xmm3",
        "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15",
        "cc", "memory");
}

static void SetControl(State* in) {
  in->mxcsr = 0x7f80;  // rounds towards zero: not the default, so that a reset would show
  __asm__ volatile("ldmxcsr %0" : : "m"(in->mxcsr));
}

static int Differ(const State* in, const State* out) {
  return memcmp(in, out, offsetof(State, mxcsr) + 4) != 0;
}

#elif defined(__aarch64__)
#include <sys/auxv.h>

enum { kMaxVectorBytes = 256, kGeneral = 19, kSve = 1 << 22 };  // HWCAP_SVE

typedef struct {
  uint8_t vectors[32 * kMaxVectorBytes];
  uint8_t predicates[16 * kMaxVectorBytes / 8];
  uint64_t general[kGeneral];  // x9…x17, x19…x28
  uint64_t control;            // FPCR
} State;

static uint64_t VectorBytes(void) {
  if ((getauxval(AT_HWCAP) & kSve) == 0) return 16;
  uint64_t bytes = 0;
  __asm__(".arch_extension sve\n rdvl %0, #1" : "=r"(bytes));
  return bytes;
}

// clang-format off
#define PREDICATES(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11) f(12) f(13) f(14) f(15)
#define VECTORS(f) PREDICATES(f) f(16) f(17) f(18) f(19) f(20) f(21) f(22) f(23) f(24) f(25) f(26) f(27) \
  f(28) f(29) f(30) f(31)
// clang-format on
#define LOAD_VECTOR(n) "ldr q" #n ", [x0, #(16 * " #n ")]\n"
#define STORE_VECTOR(n) "str q" #n ", [x1, #(16 * " #n ")]\n"
#define LOAD_LONG_VECTOR(n) "ldr z" #n ", [x0, #" #n ", mul vl]\n"
#define STORE_LONG_VECTOR(n) "str z" #n ", [x1, #" #n ", mul vl]\n"
#define LOAD_PREDICATE(n) "ldr p" #n ", [x5, #" #n ", mul vl]\n"
#define STORE_PREDICATE(n) "str p" #n ", [x6, #" #n ", mul vl]\n"
#define SPIN "1: yield\n subs x2, x2, #1\n b.ne 1b\n"
#define GENERAL(move, at)                                                                                    \
  move " x9, x10, [" at ", #0]\n" move " x11, x12, [" at ", #16]\n" move " x13, x14, [" at ", #32]\n" move   \
       " x15, x16, [" at ", #48]\n" move " x17, x19, [" at ", #64]\n" move " x20, x21, [" at ", #80]\n" move \
       " x22, x23, [" at ", #96]\n" move " x24, x25, [" at ", #112]\n" move " x26, x27, [" at ", #128]\n"
// x0 in, x1 out, x2 rounds, x3 and x4 the general registers there, x5 and x6 the predicates.
#define SPIN_WITH(load, store) \
  __asm__ volatile(load GENERAL("ldp", "x3") "ldr x28, [x3, #144]\n" SPIN store GENERAL("stp", "x4")         \
                   "str x28, [x4, #144]\n"                                                                   \
                   "mrs x9, fpcr\n str x9, [x4, #152]\n"                                                     \
                   : "+r"(x2)                                                                                \
                   : "r"(x0), "r"(x1), "r"(x3), "r"(x4), "r"(x5), "r"(x6)                                    \
                   : "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x19", "x20", "x21",      \
                     "x22", "x23", "x24", "x25", "x26", "x27", "x28", "v0", "v1", "v2", "v3", "v4", "v5",    \
                     "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18",  \
                     "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30",     \
                     "v31", "cc", "memory")

static void Spin(const State* in, State* out, uint64_t rounds) {
  register const void* x0 __asm__("x0") = in->vectors;
  register void* x1 __asm__("x1") = out->vectors;
  register uint64_t x2 __asm__("x2") = rounds;
  register const void* x3 __asm__("x3") = in->general;
  register void* x4 __asm__("x4") = out->general;
  register const void* x5 __asm__("x5") = in->predicates;
  register void* x6 __asm__("x6") = out->predicates;
  _Static_assert(offsetof(State, control) - offsetof(State, general) == 152, "");
  if (VectorBytes() > 16) {
    SPIN_WITH(".arch_extension sve\n" VECTORS(LOAD_LONG_VECTOR) PREDICATES(LOAD_PREDICATE),
              VECTORS(STORE_LONG_VECTOR) PREDICATES(STORE_PREDICATE));
  } else {
    SPIN_WITH(VECTORS(LOAD_VECTOR), VECTORS(STORE_VECTOR));
  }
}

static void SetControl(State* in) {
  in->control = 3UL << 22;  // rounds towards zero
  __asm__ volatile("msr fpcr, %0" : : "r"(in->control));
}

static int Differ(const State* in, const State* out) {
  const uint64_t bytes = VectorBytes();
  return memcmp(in->vectors, out->vectors, 32 * bytes) != 0 ||
         (bytes > 16 && memcmp(in->predicates, out->predicates, 16 * bytes / 8) != 0) ||
         memcmp(in->general, out->general, sizeof(in->general)) != 0 || in->control != out->control;
}
#endif

int main(void) {
  enum { kLoops, kWrong };
  volatile uint64_t* slots = ReportOpen();
  State in, out;
  memset(&in, 0, sizeof(in));
  uint8_t* bytes = (uint8_t*)&in;
  for (size_t i = 0; i < sizeof(in); ++i) bytes[i] = (uint8_t)(i * 37 + 11);
  SetControl(&in);
  ReportReady("loops wrong");
  for (;;) {
    memset(&out, 0, sizeof(out));
    Spin(&in, &out, 50000);
    if (Differ(&in, &out)) ++slots[kWrong];
    ++slots[kLoops];
  }
}
