#include "wire/store_url.h"

#include <gtest/gtest.h>

namespace probing::wire {
namespace {

std::string Parsed(std::string_view text) {
  const Result<StoreUrl> url = ParseStoreUrl(text);
  return url.ok() ? url->ToText() : "refused";
}

TEST(StoreUrl, AsPeopleWriteThem) {
  EXPECT_EQ(Parsed("clickhouse://db7:8123/probing"), "clickhouse://db7:8123/probing");
  EXPECT_EQ(Parsed("clickhouse://db7/probing"), "clickhouse://db7:8123/probing");
  EXPECT_EQ(Parsed("clickhouse+https://db7/probing"), "clickhouse+https://db7:8443/probing");
  EXPECT_EQ(Parsed("clickhouse://[::1]/p"), "clickhouse://[::1]:8123/p");
  EXPECT_EQ(Parsed("clickhouse://[::1]:9/p"), "clickhouse://[::1]:9/p");
}

TEST(StoreUrl, SaysWhoAskesAndWithWhichSettings) {
  const Result<StoreUrl> url = ParseStoreUrl("clickhouse://me:p%40ss:w@db7:1/p?async_insert=1&x=a%20b");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url->user, "me");
  EXPECT_EQ(url->password, "p@ss:w");
  ASSERT_EQ(url->settings.size(), 2U);
  EXPECT_EQ(url->settings[0], std::make_pair(std::string("async_insert"), std::string("1")));
  EXPECT_EQ(url->settings[1].second, "a b");
  EXPECT_EQ(url->ToText(), "clickhouse://db7:1/p");
}

TEST(StoreUrl, WhatCannotBeOneIsRefused) {
  for (const char* text :
       {"", "http://db7/p", "clickhouse://", "clickhouse://db7", "clickhouse://db7/", "clickhouse://db7:0/p",
        "clickhouse://db7:x/p", "clickhouse://db7/a-b", "clickhouse://db7/p`", "clickhouse://db7/p/q",
        "clickhouse://:8123/p", "clickhouse://u%0A:p@db7/p", "clickhouse://db7/p?a b=1"})
    EXPECT_EQ(Parsed(text), "refused") << text;
}

TEST(StoreUrl, PasswordsAreNotShown) {
  EXPECT_EQ(WithoutPassword("clickhouse://me:secret@db7/p"), "clickhouse://me:***@db7/p");
  EXPECT_EQ(WithoutPassword("clickhouse://me@db7:8123/p"), "clickhouse://me@db7:8123/p");
  EXPECT_EQ(WithoutPassword("clickhouse://db7:8123/p"), "clickhouse://db7:8123/p");
  EXPECT_EQ(WithoutPassword("none"), "none");
  const Result<StoreUrl> url = ParseStoreUrl("clickhouse://me:secret@db7/p q");
  ASSERT_FALSE(url.ok());
  EXPECT_EQ(url.error().message.find("secret"), std::string::npos);
}

}  // namespace
}  // namespace probing::wire
