// A process with one thread that must not be borrowed, although it looks as if it could be:
//   seccomp       it has a seccomp filter of its own that kills the process for starting a thread
//   handler       its signal handler interrupted malloc and has 64 KiB of local variables
//   restorer      the same with small variables, but the handler returns through code of the program's own
//   altstack      its signal handler runs on 8 KiB from the heap, between data
//   local         its signal handler runs on a local variable of main, above the frames it interrupted
//   coroutine     it is on a 16 KiB stack from the heap, between data, most of the time
//   coroutine_only  the same, always
//   sigterm       it sleeps most of the time and ends when SIGTERM comes
// Each of them comes to a place now and then where it may be borrowed, except coroutine_only and seccomp's
// thread. Counts its rounds and the times when data around its stack had changed.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>

#include "report.h"

enum { kLoops, kOverwritten, kOverLibc };
enum {
  kDwellMs = 20,
  kAround = 64 * 1024,
  kAltStack = 8 * 1024,
  kCoroutineStack = 16 * 1024,
  kNeeded = 1024,
  kCanary = 0x5a
};

extern char __executable_start, etext;

static volatile uint64_t* slots;
static size_t alt_stack_bytes;
static int always_dwells;
static size_t handler_room, coroutine_room;  // bytes of local variables

static void PauseForEver(void) {
  for (;;) pause();
}

static void* Park(void* unused) {
  (void)unused;
  PauseForEver();
  return NULL;
}

static uint64_t NowNs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// Own code, no libc: a good place.
static void Compute(unsigned turns) {
  for (volatile unsigned i = 0; i < turns; ++i) {
  }
}

// ── seccomp ─────────────────────────────────────────────────────────────────

#define KILL(number) \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

static int never[2];

static void* FilterAndRead(void* ready) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      KILL(SYS_clone),
      KILL(SYS_clone3),
      KILL(SYS_mmap),
      KILL(SYS_restart_syscall),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) exit(70);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) exit(70);
  *(volatile int*)ready = 1;
  char byte;
  for (;;) (void)!read(never[0], &byte, 1);
}

static void RunSeccomp(void) {
  volatile int ready = 0;
  pthread_t thread;
  if (pipe(never) != 0 || pthread_create(&thread, NULL, FilterAndRead, (void*)&ready) != 0) exit(70);
  while (!ready) Compute(1000);
  ReportReady("loops overwritten over_libc");
  for (;;) {
    Compute(100000);
    ++slots[kLoops];
  }
}

// ── handlers ────────────────────────────────────────────────────────────────

static __attribute__((noinline)) void Dwell(size_t local_bytes) {
  volatile char* room = __builtin_alloca(local_bytes + 1);
  room[0] = room[local_bytes] = 1;
  poll(NULL, 0, kDwellMs);
  room[0] = room[local_bytes];
}

// Stays long only when it interrupted the C library, which here means malloc.
static void OnSignal(int number, siginfo_t* info, void* context) {
  (void)number, (void)info;
  const char* at = (const char*)((ucontext_t*)context)->uc_mcontext.gregs[REG_RIP];
  const int over_libc = at < &__executable_start || at >= &etext;
  slots[kOverLibc] += (uint64_t)over_libc;
  if (!over_libc && !always_dwells) return;
  Dwell(handler_room);
}

void OwnRestorer(void);
__asm__(".text\n.globl OwnRestorer\nOwnRestorer:\n  nop\n  mov $15, %eax\n  syscall\n");

static void SetHandler(int flags) {
  struct {  // the kernel's struct sigaction
    void (*handler)(int, siginfo_t*, void*);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
  } own = {OnSignal, SA_SIGINFO | SA_RESTART | 0x04000000 /* SA_RESTORER */, OwnRestorer, 0};
  struct sigaction action = {.sa_sigaction = OnSignal, .sa_flags = SA_SIGINFO | SA_RESTART | flags};
  if (flags < 0) {
    syscall(SYS_rt_sigaction, SIGALRM, &own, NULL, 8);
  } else {
    sigaction(SIGALRM, &action, NULL);
  }
}

static timer_t timer;

static void OnTerminate(int number) {
  (void)number;
  _exit(0);
}

static void StartTimer(void) {
  // One shot each: the next signal comes only after the last handler returned.
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) exit(70);
}

static void SignalSoon(long us) {
  const struct itimerspec soon = {{0, 0}, {0, us * 1000}};
  timer_settime(timer, 0, &soon, NULL);
}

static void RunHandler(int flags) {
  SetHandler(flags);
  StartTimer();
  ReportReady("loops overwritten over_libc");
  for (;;) {
    // Only malloc when the signal comes, so that it is malloc that it interrupts…
    SignalSoon(500);
    const uint64_t before = slots[kOverLibc];
    for (uint64_t end_ns = NowNs() + 5000000; slots[kOverLibc] == before && NowNs() < end_ns;) {
      for (int i = 0; i < 1000; ++i) {
        void* volatile block = malloc(2000 + (size_t)(i * 37 % 3000));
        void* volatile other = malloc(100);
        free(block);
        free(other);
      }
    }
    // …and then a while where it may be borrowed.
    Compute(2000000);
    ++slots[kLoops];
  }
}

// ── data around a stack ─────────────────────────────────────────────────────

static char* MakeGuarded(size_t size) {
  char* block = malloc(kAround + size + kAround);
  if (block == NULL) exit(70);
  memset(block, kCanary, kAround + size + kAround);
  return block;
}

static void CheckGuarded(const char* block, size_t size) {
  size_t wrong = 0;
  for (size_t i = 0; i < kAround; ++i)
    wrong += (block[i] != kCanary) + (block[kAround + size + i] != kCanary);
  slots[kOverwritten] += wrong != 0;
}

static void RunAltStack(void) {
  always_dwells = 1;
  char* block = MakeGuarded(alt_stack_bytes);
  const stack_t stack = {.ss_sp = block + kAround, .ss_size = alt_stack_bytes};
  if (sigaltstack(&stack, NULL) != 0) exit(70);
  SetHandler(SA_ONSTACK);
  StartTimer();
  ReportReady("loops overwritten over_libc");
  for (;;) {
    SignalSoon(300);
    Compute(2000000);
    CheckGuarded(block, alt_stack_bytes);
    ++slots[kLoops];
  }
}

// Its local variables lie below the alternate stack of its caller.
static __attribute__((noinline)) void WorkBelow(void) {
  volatile char data[kAround];
  for (int i = 0; i < kAround; ++i) data[i] = kCanary;
  for (int round = 0; round < 10; ++round) {
    SignalSoon(300);
    Compute(2000000);
    int wrong = 0;
    for (int i = 0; i < kAround; ++i) wrong += data[i] != kCanary;
    slots[kOverwritten] += wrong != 0;
  }
  ++slots[kLoops];
}

static void RunLocalAltStack(void) {
  always_dwells = 1;
  char* room = __builtin_alloca(alt_stack_bytes);
  const stack_t stack = {.ss_sp = room, .ss_size = alt_stack_bytes};
  if (sigaltstack(&stack, NULL) != 0) exit(70);
  SetHandler(SA_ONSTACK);
  StartTimer();
  ReportReady("loops overwritten over_libc");
  for (;;) WorkBelow();
}

static ucontext_t main_context, coroutine_context;
static int stays;

static void Coroutine(void) {
  for (;;) {
    Dwell(coroutine_room);
    if (stays) {
      ++slots[kLoops];
    } else {
      swapcontext(&coroutine_context, &main_context);
    }
  }
}

static void RunCoroutine(void) {
  char* block = MakeGuarded(kCoroutineStack);
  getcontext(&coroutine_context);
  coroutine_context.uc_stack.ss_sp = block + kAround;
  coroutine_context.uc_stack.ss_size = kCoroutineStack;
  makecontext(&coroutine_context, Coroutine, 0);
  ReportReady("loops overwritten over_libc");
  for (;;) {
    swapcontext(&main_context, &coroutine_context);
    Compute(2000000);
    CheckGuarded(block, kCoroutineStack);
    ++slots[kLoops];
  }
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "";
  slots = ReportOpen();
  if (strcmp(how, "seccomp") == 0) RunSeccomp();
  pthread_t thread;  // with two threads the C library's malloc takes its lock
  pthread_create(&thread, NULL, Park, NULL);
  poll(NULL, 0, 0);  // resolved by the loader now: that takes more stack than there will be
  stays = strcmp(how, "coroutine_only") == 0;
  // What a handler or a coroutine leaves of its stack is too little for a call of somebody else's.
  const size_t frame_bytes = getauxval(AT_MINSIGSTKSZ) != 0 ? getauxval(AT_MINSIGSTKSZ) : 3 * 1024;
  handler_room = strcmp(how, "handler") == 0 ? 64 * 1024 : 0;
  coroutine_room = kCoroutineStack - kNeeded;
  alt_stack_bytes = frame_bytes + kNeeded > kAltStack ? frame_bytes + kNeeded : kAltStack;
  if (strcmp(how, "handler") == 0) RunHandler(0);
  if (strcmp(how, "restorer") == 0) RunHandler(-1);
  if (strstr("altstack local", how) != NULL) handler_room = alt_stack_bytes - frame_bytes - kNeeded;
  if (strcmp(how, "altstack") == 0) RunAltStack();
  if (strcmp(how, "local") == 0) RunLocalAltStack();
  if (strncmp(how, "coroutine", strlen("coroutine")) == 0) RunCoroutine();
  if (strcmp(how, "sigterm") == 0) {
    signal(SIGTERM, OnTerminate);
    ReportReady("loops overwritten over_libc");
    for (;;) {
      Dwell(0);
      ++slots[kLoops];
    }
  }
  return 64;
}
