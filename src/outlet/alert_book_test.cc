#include "outlet/alert_book.h"

#include <gtest/gtest.h>

namespace probing::outlet {
namespace {

constexpr std::int64_t kRepeat = 1000;

Alert Named(const char* name, std::int64_t begun_ns = 0) {
  return {.labels = {{"alertname", name}}, .annotations = {}, .severity = "error", .begun_ns = begun_ns};
}

TEST(AlertBook, AFindingIsToldOnceAndAgainWhenItLasts) {
  AlertBook book;
  book.See(Named("hang"), 100);
  book.EndUnseen();
  ASSERT_EQ(book.Due(100, kRepeat).size(), 1U);
  for (std::int64_t now = 110; now < 1100; now += 10) {
    book.See(Named("hang"), now);
    book.EndUnseen();
    EXPECT_TRUE(book.Due(now, kRepeat).empty()) << now;
  }
  const std::vector<Alert> again = book.Due(1100, kRepeat);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].begun_ns, 100);
  EXPECT_EQ(again[0].ended_ns, 0);
}

TEST(AlertBook, OneThatIsMissedOnceHasNotEnded) {
  AlertBook book;
  book.See(Named("hang"), 100);
  book.EndUnseen();
  (void)book.Due(100, kRepeat);
  book.EndUnseen();
  EXPECT_TRUE(book.Due(200, kRepeat).empty());
  book.EndUnseen();
  const std::vector<Alert> ended = book.Due(300, kRepeat);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].ended_ns, 300);
  EXPECT_EQ(book.size(), 0U);
  EXPECT_TRUE(book.Due(400, kRepeat).empty());
}

TEST(AlertBook, StallsAtOnePlaceAreOneAlert) {
  AlertBook book;
  for (std::int64_t now = 100; now < 200; now += 10) book.SeeUntil(Named("stall", now), now, now + 500);
  book.EndUnseen();
  book.EndUnseen();
  const std::vector<Alert> begun = book.Due(200, kRepeat);
  ASSERT_EQ(begun.size(), 1U);
  EXPECT_EQ(begun[0].begun_ns, 100);
  EXPECT_TRUE(book.Due(689, kRepeat).empty());
  const std::vector<Alert> ended = book.Due(690, kRepeat);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].ended_ns, 690);
}

TEST(AlertBook, HasAnEnd) {
  AlertBook book;
  for (std::size_t i = 0; i < AlertBook::kMostOpen; ++i)
    EXPECT_TRUE(book.See(Named(std::to_string(i).c_str()), 1));
  EXPECT_FALSE(book.See(Named("one more"), 1));
  EXPECT_TRUE(book.See(Named("7"), 2));
}

}  // namespace
}  // namespace probing::outlet
