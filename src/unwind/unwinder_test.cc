// Unwinds children of this very program, whose call chains are known.

#include "unwind/unwinder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>

#include "arch/for_tests.h"
#include "base/file.h"
#include "unwind/demangle.h"

namespace probing::unwind {
namespace {

volatile int g_zero = 0;
volatile std::uint64_t g_counter = 0;

// Each does something after its call, so that none is turned into a jump.
extern "C" {
__attribute__((noinline)) int UnwindTestSleep() {
  pause();
  return g_zero + 1;
}
__attribute__((noinline)) int UnwindTestSpin() {
  while (g_zero == 0) g_counter = g_counter + 1;
  return g_zero + 1;
}
__attribute__((noinline)) int UnwindTestMiddle(int (*leaf)()) { return leaf() + g_zero + 2; }
__attribute__((noinline)) int UnwindTestOuter(int (*leaf)()) { return UnwindTestMiddle(leaf) + g_zero + 3; }
void UnwindTestHandler(int) { UnwindTestOuter(&UnwindTestSleep); }
}

// A forked copy that runs `body`; killed at the end of the scope.
class Child {
 public:
  explicit Child(const std::function<void()>& body) : pid_(fork()) {
    if (pid_ == 0) {
      body();
      _exit(0);
    }
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  pid_t pid() const { return pid_; }

  // Waits until the thread is in that state ('S', 'R', 'T').
  void AwaitState(char state) const {
    for (int i = 0; i < 5000; ++i) {
      const auto stat = ReadFile("/proc/" + std::to_string(pid_) + "/stat");
      if (stat.ok() && stat->size() > stat->rfind(')') + 2 && (*stat)[stat->rfind(')') + 2] == state) return;
      SleepUs(1000);
    }
    FAIL() << "state " << state << " never came";
  }

 private:
  pid_t pid_;
};

std::vector<std::string> Names(const NativeStack& stack) {
  std::vector<std::string> names;
  for (const NativeFrame& frame : stack.frames) names.push_back(frame.function->name);
  return names;
}

bool HasInOrder(const NativeStack& stack, const std::vector<std::string>& wanted) {
  const auto names = Names(stack);
  return std::search(names.begin(), names.end(), wanted.begin(), wanted.end()) != names.end();
}

NativeStack ReadStack(pid_t pid) {
  SymbolStore symbols;
  auto unwinder = Unwinder::Attach(pid, symbols);
  EXPECT_TRUE(unwinder.ok()) << unwinder.error().message;
  auto stack = unwinder->Read(pid, {});
  EXPECT_TRUE(stack.ok()) << stack.error().message;
  return stack.ok() ? std::move(*stack) : NativeStack{};
}

TEST(Unwinder, AThreadThatSleepsIsReadWithoutHoldingIt) {
  const Child child([] { UnwindTestOuter(&UnwindTestSleep); });
  child.AwaitState('S');
  const NativeStack stack = ReadStack(child.pid());
  EXPECT_EQ(stack.end, StackEnd::kComplete) << Describe(stack.end);
  EXPECT_TRUE(HasInOrder(stack, {"UnwindTestSleep", "UnwindTestMiddle", "UnwindTestOuter"}));
  EXPECT_EQ(Names(stack).back(), "_start");
}

TEST(Unwinder, AThreadThatRunsIsHeldForAMoment) {
  const Child child([] { UnwindTestOuter(&UnwindTestSpin); });
  child.AwaitState('R');
  SleepUs(20'000);  // it may not have got there yet, and nothing tells
  const NativeStack stack = ReadStack(child.pid());
  EXPECT_TRUE(HasInOrder(stack, {"UnwindTestSpin", "UnwindTestMiddle", "UnwindTestOuter"}));
  EXPECT_GT(stack.held_ns, 0);
  child.AwaitState('R');
}

TEST(Unwinder, AStoppedThreadIsReadAndStaysStopped) {
  const Child child([] { UnwindTestOuter(&UnwindTestSpin); });
  child.AwaitState('R');
  SleepUs(20'000);
  kill(child.pid(), SIGSTOP);
  child.AwaitState('T');
  const NativeStack stack = ReadStack(child.pid());
  EXPECT_TRUE(HasInOrder(stack, {"UnwindTestSpin", "UnwindTestMiddle", "UnwindTestOuter"}));
  child.AwaitState('T');
  kill(child.pid(), SIGCONT);
  child.AwaitState('R');
}

TEST(Unwinder, ASignalHandlerIsFollowedToWhatItInterrupted) {
  const Child child([] {
    signal(SIGUSR1, &UnwindTestHandler);
    raise(SIGUSR1);
  });
  child.AwaitState('S');
  const NativeStack stack = ReadStack(child.pid());
  EXPECT_EQ(stack.end, StackEnd::kComplete) << Describe(stack.end);
  EXPECT_TRUE(
      HasInOrder(stack, {"UnwindTestSleep", "UnwindTestMiddle", "UnwindTestOuter", "UnwindTestHandler"}));
  EXPECT_TRUE(HasInOrder(stack, {"raise"})) << testing::PrintToString(Names(stack));
}

TEST(Unwinder, ASignalHandlerWithAStackOfItsOwnToo) {
  const Child child([] {
    static char space[64 << 10];
    const stack_t other{space, 0, sizeof(space)};
    sigaltstack(&other, nullptr);
    struct sigaction action{};
    action.sa_handler = &UnwindTestHandler;
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR1, &action, nullptr);
    raise(SIGUSR1);
  });
  child.AwaitState('S');
  const NativeStack stack = ReadStack(child.pid());
  EXPECT_EQ(stack.end, StackEnd::kComplete) << Describe(stack.end);
  EXPECT_EQ(Names(stack).back(), "_start");
}

TEST(Unwinder, CodeThatNobodyDescribesEndsTheStackWithAMark) {
  const Child child([] {
    // No table, no frame pointer, and no return address on top of the stack.
    void* code = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memcpy(code, arch::kPushAndSpin.data(), arch::kPushAndSpin.size());
    arch::CallWithoutFramePointer(code);
  });
  child.AwaitState('R');
  SleepUs(20'000);
  const NativeStack stack = ReadStack(child.pid());
  EXPECT_EQ(stack.end, StackEnd::kNoUnwindInfo);
  ASSERT_EQ(stack.frames.size(), 1U);
  EXPECT_EQ(stack.frames[0].function->module, "");
}

TEST(Unwinder, ACallToNowhereIsAttributedToTheCaller) {
  const Child child([] {
    struct sigaction action{};
    action.sa_handler = &UnwindTestHandler;
    sigaction(SIGSEGV, &action, nullptr);
    UnwindTestOuter(reinterpret_cast<int (*)()>(g_zero));
  });
  child.AwaitState('S');
  const NativeStack stack = ReadStack(child.pid());
  EXPECT_EQ(stack.end, StackEnd::kComplete) << Describe(stack.end);
  EXPECT_TRUE(HasInOrder(stack, {"", "UnwindTestMiddle", "UnwindTestOuter"}))
      << testing::PrintToString(Names(stack));
}

TEST(Unwinder, ReadingDoesNotEndASystemCallEarly) {
  int results[2];
  ASSERT_EQ(pipe(results), 0);
  const Child child([&] {
    const int epoll = epoll_create1(0);
    epoll_event event{};
    const int n = epoll_wait(epoll, &event, 1, -1);
    const int outcome = n < 0 ? errno : 0;
    (void)!write(results[1], &outcome, sizeof(outcome));
  });
  child.AwaitState('S');
  const process::ProcessMemory memory(child.pid());
  for (int i = 0; i < 20; ++i) {
    const auto maps = process::Maps::Read(child.pid());
    ASSERT_TRUE(maps.ok());
    const auto held = CaptureHeld(child.pid(), memory, *maps, [] {}, Deadline::AfterMs(1000));
    ASSERT_TRUE(held.ok()) << held.error().message;
  }
  child.AwaitState('S');
}

TEST(Unwinder, AProcessThatIsNotThereIsAnError) {
  SymbolStore symbols;
  pid_t gone = 0;
  {
    const Child child([] { pause(); });
    gone = child.pid();
  }
  EXPECT_FALSE(Unwinder::Attach(gone, symbols).ok());
}

TEST(Demangle, CppNamesOnly) {
  EXPECT_EQ(Demangle("_ZN2at6Tensor4sizeEl"), "at::Tensor::size(long)");
  EXPECT_EQ(Demangle("pthread_cond_wait"), "pthread_cond_wait");
  EXPECT_EQ(Demangle("_Znonsense!"), "_Znonsense!");
}

}  // namespace
}  // namespace probing::unwind
