// Call frame information: what .eh_frame says about finding a function's caller.
//
// The bytes come from the target and may be anything: every read is checked, loops are bounded, and
// what makes no sense is an error.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "unwind/registers.h"

namespace probing {
class ByteReader;
}

namespace probing::unwind {

// How to get one register of the caller.
struct Rule {
  enum class Kind : std::uint8_t {
    kUnspecified,   // the ABI decides: callee-saved registers are the same
    kUndefined,     // lost
    kSame,          // unchanged
    kAtOffset,      // in memory, at the CFA plus `value`
    kOffset,        // the CFA plus `value` itself
    kRegister,      // in the register `value`
    kAtExpression,  // in memory, where the expression says
    kExpression,    // what the expression says
  };
  Kind kind = Kind::kUnspecified;
  std::int32_t value = 0;  // of expressions: where it starts in Row::expressions, a length (uleb) first
};

// The rules at one instruction. The CFA, the "canonical frame address", is the caller's stack pointer.
struct Row {
  std::uint8_t cfa_register = kStackPointer;
  bool cfa_is_expression = false;
  bool is_signal_frame = false;  // the caller did not call: it was interrupted
  bool is_guessed = false;       // no table said so: what comes of it has to be checked
  std::int32_t cfa_offset = 0;   // or where the expression starts
  std::array<Rule, kRegisterCount> registers{};
  std::vector<std::byte> expressions;
};

// A pointer as .eh_frame and .eh_frame_hdr write them, `encoding` being one of DW_EH_PE_….
// `address` is where the bytes are in the target, `data_base` what "datarel" is relative to.
Result<std::uint64_t> TakePointer(ByteReader& reader, std::uint8_t encoding, std::uint64_t address,
                                  std::uint64_t data_base);

// A common information entry: what many functions share.
struct Cie {
  std::uint64_t code_alignment = 1;
  std::int64_t data_alignment = 1;
  std::uint8_t pointer_encoding = 0;
  bool is_signal_frame = false;
  bool has_augmentation_data = false;
  std::vector<std::byte> instructions;
};

// A frame description entry: one function, or a part of one.
struct Fde {
  std::uint64_t start = 0;
  std::uint64_t size = 0;
  std::vector<std::byte> instructions;
};

// Both take the entry without its length, from the CIE id on; `address` is where that is in the target.
Result<Cie> ParseCie(std::span<const std::byte> entry, std::uint64_t address);
Result<Fde> ParseFde(std::span<const std::byte> entry, std::uint64_t address, const Cie& cie);

// Runs the instructions of both up to `pc`.
Result<Row> FindRow(const Cie& cie, const Fde& fde, std::uint64_t pc);

}  // namespace probing::unwind
