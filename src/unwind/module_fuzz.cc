// A loaded object and its file as the unwinder uses them: index of .eh_frame, symbols, names.
#include "process/byte_memory.h"
#include "process/elf_image.h"
#include "unwind/debug_files.h"
#include "unwind/demangle.h"
#include "unwind/symbol_table.h"
#include "unwind/unwind_table.h"

namespace {

using namespace probing;

constexpr std::uint64_t kBase = 0x10000;

void LookUp(const Result<unwind::SymbolTable>& symbols) {
  if (!symbols.ok()) return;
  for (std::uint64_t address = 0; address < 0x4000; address += 0x101) {
    if (const auto symbol = symbols->Find(address)) (void)unwind::Demangle(symbol->name);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file = unwind::ElfFile::Load(std::make_shared<process::ByteMemory>(0, bytes));
  if (file.ok()) {
    LookUp(unwind::SymbolTable::FromFile(*file));
    (void)file->BuildId();
    (void)unwind::FindDebugFile(*file, "/nowhere/object");
    if (const auto inner = unwind::OpenDebugData(*file)) LookUp(unwind::SymbolTable::FromFile(*inner));
  }
  const process::ByteMemory memory(kBase, bytes);
  const auto image = process::ElfImage::Load(memory, {kBase});
  if (!image.ok()) return 0;
  LookUp(unwind::SymbolTable::FromImage(std::make_shared<process::ByteMemory>(kBase, bytes), *image));
  auto table = unwind::UnwindTable::Load(memory, *image);
  if (!table.ok()) return 0;
  for (std::uint64_t offset = 0; offset < 0x4000; offset += 0x21) (void)table->Find(kBase + offset);
  return 0;
}
