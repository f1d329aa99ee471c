#include "cpython/array_numbers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

namespace probing::cpython {
namespace {

template <typename T>
std::string Text(std::string_view type, const std::vector<T>& parts) {
  const NumberType* found = FindNumberType(type);
  if (found == nullptr) return "no such type";
  if (found->size_bytes != sizeof(T) * parts.size()) return "another size";
  std::vector<std::byte> bytes(kMaxNumberBytes);
  std::memcpy(bytes.data(), parts.data(), sizeof(T) * parts.size());
  return found->format(bytes.data());
}

TEST(ArrayNumbers, AreReadInTheirSize) {
  EXPECT_EQ(Text<std::int8_t>("int8", {-3}), "-3");
  EXPECT_EQ(Text<std::uint8_t>("uint8", {253}), "253");
  EXPECT_EQ(Text<std::uint64_t>("ulonglong", {UINT64_MAX}), "18446744073709551615");
  EXPECT_EQ(Text<std::uint8_t>("bool_", {7}), "True");
  EXPECT_EQ(Text<std::uint16_t>("float16", {0x34cd}), "0.3");
  EXPECT_EQ(Text<std::uint16_t>("bfloat16", {0x3dcd}), "0.1");
  EXPECT_EQ(Text<float>("float32", {0.1F}), "0.1");
  EXPECT_EQ(Text<long double>("float128", {0.1L}), "0.1");
  EXPECT_EQ(Text<float>("complex64", {0.3F, 5}), "0.3+5j");
  EXPECT_EQ(Text<double>("complex128", {0, -2}), "-2j");
  EXPECT_EQ(Text<char>("qint8", {1}), "no such type");
}

TEST(ArrayNumbers, NoTypeIsLongerThanTheBufferForIt) {
  for (const char* name : {"bool", "int64", "float64", "longdouble", "complex128", "clongdouble"})
    EXPECT_LE(FindNumberType(name)->size_bytes, kMaxNumberBytes) << name;
}

TEST(ArrayNumbers, DatesHaveTheirUnit) {
  constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(FormatDatetime64(50, 0, 1), "np.datetime64('2020')");
  EXPECT_EQ(FormatDatetime64(-1, 1, 1), "np.datetime64('1969-12')");
  EXPECT_EQ(FormatDatetime64(18'321, 4, 1), "np.datetime64('2020-02-29')");
  EXPECT_EQ(FormatDatetime64(-1, 4, 1), "np.datetime64('1969-12-31')");
  EXPECT_EQ(FormatDatetime64(-1, 6, 1), "np.datetime64('1969-12-31T23:59')");
  EXPECT_EQ(FormatDatetime64(1, 10, 1), "np.datetime64('1970-01-01T00:00:00.000000001')");
  EXPECT_EQ(FormatDatetime64(3, 4, 2), "np.datetime64('1970-01-07','2D')");
  EXPECT_EQ(FormatDatetime64(kNever, 4, 1), "np.datetime64('NaT','D')");
  EXPECT_EQ(FormatTimedelta64(3, 7, 25), "np.timedelta64(3,'25s')");
  EXPECT_EQ(FormatTimedelta64(7, 14, 1), "np.timedelta64(7)");
}

TEST(ArrayNumbers, DatesThatMakeNoSenseAreNoText) {
  EXPECT_EQ(FormatDatetime64(1, 3, 1), "") << "there is no such unit";
  EXPECT_EQ(FormatDatetime64(1, 15, 1), "");
  EXPECT_EQ(FormatDatetime64(1, -1, 1), "");
  EXPECT_EQ(FormatDatetime64(1, 4, 0), "");
  EXPECT_EQ(FormatDatetime64(INT64_MAX, 4, 2), "");
  EXPECT_EQ(FormatDatetime64(INT64_MAX, 0, 1), "");
  EXPECT_EQ(FormatDatetime64(INT64_MAX, 2, 1), "");
  EXPECT_EQ(FormatTimedelta64(1, 15, 1), "");
}

}  // namespace
}  // namespace probing::cpython
