#include "wire/outlet_url.h"

#include <gtest/gtest.h>

#include "wire/settings.h"

namespace probing::wire {
namespace {

TEST(OutletUrl, IsTakenApart) {
  const Result<OutletUrl> url = ParseOutletUrl("https://me:p%40ss@hooks.example.com/services/T0/B1?key=abc");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url->address.ToText(), "hooks.example.com:443");
  EXPECT_TRUE(url->is_encrypted);
  EXPECT_EQ(url->path + url->query, "/services/T0/B1?key=abc");
  EXPECT_EQ(url->user + " " + url->password, "me p@ss");
  EXPECT_EQ(ParseOutletUrl("http://[::1]:9093")->path, "/");
}

TEST(OutletUrl, WhatMayLetOneInIsNotShown) {
  EXPECT_EQ(ShownUrl("https://me:p@h/services/T0/B1?key=abc"), "https://***@h:443/services/***/***?***");
  EXPECT_EQ(ShownUrl("https://token@h:9093/api/v2/alerts"), "https://***@h:9093/api/v2/alerts");
  EXPECT_EQ(ShownUrl("http://h:9093/alertmanager/"), "http://h:9093/alertmanager/");
  EXPECT_EQ(ShownUrl("htps://me:p@h/secret"), "***");
  EXPECT_EQ(ShownUrl("none"), "none");
  EXPECT_EQ(ShownHeaders("Authorization=Bearer%20abc,X-Scope=7"), "Authorization=***,X-Scope=***");
  EXPECT_EQ(ShownHeaders("Bearer abc"), "***");
}

TEST(OutletUrl, WhatCannotBeOneIsRefused) {
  for (const char* text : {"", "h:1", "ftp://h", "http://", "http://:80/", "http://h:0/", "http://h/a b",
                           "http://h/#a", "http://*:80/", "http://u%0d%0a@h/", "http://h/\r\nX: y"})
    EXPECT_FALSE(ParseOutletUrl(text).ok()) << text;
  for (const char* text : {"a", "a=", "=b", "a=%0d%0aX: y", "Host=b", "content-length=3", "a b=c"})
    EXPECT_FALSE(ParseHeaders(text).ok()) << text;
}

TEST(OutletUrl, NoErrorOfASettingHasIt) {
  for (const char* name : {"probing.outlets.webhook", "probing.outlets.otlp_headers"}) {
    const Result<const Setting*> setting = FindSetting(name);
    ASSERT_TRUE(setting.ok());
    const Result<std::string> value = CanonicalValue(**setting, "htps://me:s3cret@h/hunter2");
    ASSERT_FALSE(value.ok());
    EXPECT_EQ((value.error().message + value.error().hint).find("s3cret"), std::string::npos);
    EXPECT_EQ((value.error().message + value.error().hint).find("hunter2"), std::string::npos);
  }
}

}  // namespace
}  // namespace probing::wire
