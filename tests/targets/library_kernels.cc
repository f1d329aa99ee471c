// A library in C++ as torch has them: namespaces, templates, static functions, and functions that the
// compiler inlines. Each call chain is known; the innermost function waits for ever.
//
// Compiled by test_native_lines.py, with lines that it compares with gdb's.
#include <unistd.h>

#include <vector>

namespace shop {
namespace {

volatile int g_zero = 0;

inline __attribute__((always_inline)) int wait_inlined(int value) {
  while (g_zero == 0) pause();
  return value + g_zero;
}

inline __attribute__((always_inline)) int middle_inlined(int value) {
  const int doubled = 2 * value;
  return wait_inlined(doubled) + g_zero;
}

template <typename Value, int kSize>
struct VectorizedKernelOfTheInnermostLoop {
  static __attribute__((noinline)) Value run_the_innermost_kernel(const std::vector<Value>& values) {
    Value sum = 0;
    for (const Value value : values) sum += static_cast<Value>(middle_inlined(static_cast<int>(value)));
    return sum + kSize + g_zero;
  }
};

__attribute__((noinline)) int static_caller(int count) {
  const std::vector<double> values(static_cast<std::size_t>(count), 1.0);
  return static_cast<int>(VectorizedKernelOfTheInnermostLoop<double, 16>::run_the_innermost_kernel(values)) +
         g_zero;
}

}  // namespace

class Dispatcher {
 public:
  explicit Dispatcher(int count) : count_(count) {}
  __attribute__((noinline)) int dispatch();

 private:
  inline int call_unboxed() { return static_caller(count_) + g_zero; }
  int count_;
};

int Dispatcher::dispatch() {
  const auto boxed = [this](int extra) { return call_unboxed() + extra; };
  return boxed(1) + g_zero;
}

}  // namespace shop

extern "C" int enter_kernels(int count) {
  shop::Dispatcher dispatcher(count);
  return dispatcher.dispatch() + shop::g_zero;
}
