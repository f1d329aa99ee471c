// What a JIT says about its code: perf's map, and an object as LLVM registers it, whose table is in the same
// bytes.
#include "process/byte_memory.h"
#include "unwind/jit_code.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace probing;
  const auto bytes = std::as_bytes(std::span(data, size));
  unwind::JitCode code;
  code.ParsePerfMap({reinterpret_cast<const char*>(data), size});
  const auto object = unwind::ElfFile::Load(std::make_shared<process::ByteMemory>(0, bytes));
  if (object.ok()) code.AddObject(*object);
  const process::ByteMemory memory(0, bytes);
  for (std::uint64_t pc = 0; pc < 0x2000; pc += 0x11) {
    (void)code.FindSymbol(pc);
    (void)code.FindRow(pc, memory);
  }
  return 0;
}
