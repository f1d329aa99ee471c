#include "unwind/prologue.h"

#include <gtest/gtest.h>

#include "arch/native.h"
#include "cpython/fake_memory.h"

namespace probing::unwind {
namespace {

TEST(Prologue, AtItsFirstInstructionAFunctionHasOnlyAReturnAddress) {
  const auto row = RowFromPrologue({});
  ASSERT_TRUE(row.ok());
  EXPECT_TRUE(row->is_guessed);
  EXPECT_EQ(row->cfa_register, kStackPointer);
  EXPECT_EQ(row->cfa_offset, static_cast<std::int32_t>(arch::kReturnPopsBytes));
  EXPECT_EQ(row->registers[kFramePointer].kind, Rule::Kind::kUnspecified);
  EXPECT_EQ(row->registers[kReturnColumn].kind,
            arch::kCallsKeepStackPointer ? Rule::Kind::kUnspecified : Rule::Kind::kAtOffset);
}

TEST(Prologue, WhatCannotBeReadFollowsNoCall) {
  const cpython::FakeMemory memory(64);
  EXPECT_FALSE(IsAfterCall(memory, cpython::FakeMemory::kBase + 50));
  EXPECT_FALSE(IsAfterCall(memory, 3));
}

}  // namespace
}  // namespace probing::unwind
