#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace probing {
namespace {

Result<int> Half(int number) {
  if (number % 2 != 0) return Error{Code::kUsage, "odd", "give an even number"};
  return number / 2;
}

Result<int> Quarter(int number) {
  ASSIGN_OR_RETURN(const int half, Half(number));
  ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

Result<void> CheckEven(int number) {
  RETURN_IF_ERROR(Half(number));
  return {};
}

TEST(Result, CarriesAValueOrAnError) {
  EXPECT_EQ(*Half(8), 4);
  const auto odd = Half(7);
  ASSERT_FALSE(odd.ok());
  EXPECT_EQ(odd.error().code, Code::kUsage);
  EXPECT_EQ(odd.error().message, "odd");
  EXPECT_EQ(odd.error().hint, "give an even number");
}

TEST(Result, MacrosLeaveTheFunctionWithTheFirstError) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).error().message, "odd");
  EXPECT_TRUE(CheckEven(2).ok());
  EXPECT_FALSE(CheckEven(3).ok());
}

TEST(Result, MovesWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> made(std::make_unique<int>(5));
  const std::unique_ptr<int> taken = *std::move(made);
  EXPECT_EQ(*taken, 5);
}

TEST(Result, AResultOfErrorsOwnTypeIsStillTold) {
  EXPECT_TRUE(Result<bool>(false).ok()) << "a false value is a value";
  EXPECT_TRUE(static_cast<bool>(Result<void>()));
}

TEST(ErrnoError, NamesTheErrnoAndChoosesTheExitCode) {
  const Error denied = ErrnoError("open /x", EACCES);
  EXPECT_EQ(denied.message, "open /x: EACCES (Permission denied)");
  EXPECT_EQ(denied.code, Code::kPermission);
  EXPECT_EQ(ErrnoError("kill", EPERM).code, Code::kPermission);
  EXPECT_EQ(ErrnoError("kill", ESRCH).code, Code::kNotFound);
  EXPECT_EQ(ErrnoError("write", ENOSPC).code, Code::kFailed);
}

TEST(ErrnoError, SurvivesNumbersNobodyKnows) {
  EXPECT_STREQ(ErrnoName(99999), "errno");
  EXPECT_NE(ErrnoError("x", 99999).message.find("99999"), std::string::npos);
}

}  // namespace
}  // namespace probing
