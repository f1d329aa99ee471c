#include <gtest/gtest.h>

#include "server/connection.h"
#include "server/http_session.h"
#include "server/http_translate.h"
#include "server/router.h"
#include "server/static_files.h"
#include "server/url.h"

namespace probing::server {
namespace {

TEST(Sniff, TellsHttpFromText) {
  for (const char* http :
       {"GET / HTTP/1.1", "POST /api", "OPTIONS * HTTP/1.1", "DELETE /x", "CONNECT a:1", "GET http://evil/"})
    EXPECT_EQ(Sniff(http), Protocol::kHttp) << http;
  for (const char* text :
       {"bt\n", "SELECT 1", "select 1", "help", "DELETE FROM t", "GET x", "G\n", "\n", "\x80"})
    EXPECT_EQ(Sniff(text), Protocol::kText) << text;
  for (const char* part : {"", "G", "GET", "GET ", "DELE", "GET h", "P"})
    EXPECT_EQ(Sniff(part), Protocol::kUnknown) << part;
  EXPECT_EQ(Sniff("\x16\x03\x01"), Protocol::kTls);
}

TEST(Json, DepthIsCountedOutsideOfStrings) {
  EXPECT_FALSE(IsTooDeep(R"({"a": "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"[["})"));
  EXPECT_FALSE(IsTooDeep("[[[[]]]]"));
  EXPECT_TRUE(IsTooDeep(std::string(33, '[')));
}

TEST(Url, IsDecoded) {
  Result<Url> url = ParseUrl("/a/b-1.js?x=1%202&y=a+b&z&w=%25zz&%26=%3d%2B");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url->path, "/a/b-1.js");
  EXPECT_EQ(url->query["x"], "1 2");
  EXPECT_EQ(url->query["y"], "a b");
  EXPECT_EQ(url->query["z"], "");
  EXPECT_EQ(url->query["w"], "%zz");
  EXPECT_EQ(url->query["&"], "=+");
  EXPECT_EQ(ParseUrl("/")->path, "/");
  EXPECT_EQ(ParseUrl("/?")->path, "/");
}

TEST(Url, APathIsWrittenInOneWayOnly) {
  for (const char* target : {"/%61pi/v1/events", "/api%2fv1/health", "/api/v1/..", "/./api", "/api//v1",
                             "/api/v1/health/", "//evil/x", "/api\\v1", "/api/v1/health%00", "/a b", "/a+b",
                             "/api;x/v1", "/api#x", "/\x80", "http://127.0.0.1/", "*", "", "evil:80", "?x=1"})
    EXPECT_FALSE(ParseUrl(target).ok()) << target;
}

TEST(Url, WhatOthersMightReadDifferentlyIsRefused) {
  for (const char* target :
       {"/a?x=%", "/a?x=%4", "/a?x=%zz", "/a?%g0=1", "/a?x=% 1", "/a?x=%+1", "/a?x=1&x=2", "/a?x=1&%78=2"})
    EXPECT_FALSE(ParseUrl(target).ok()) << target;
}

TEST(Response, AFieldMayComeSeveralTimesAndTakesThePlaceOfOurs) {
  Content content{"text/plain", "", 200, {}};
  content.headers = {{"Probing-Warning", "one"}, {"Probing-Warning", "two"}, {"Cache-Control", "max-age=1"}};
  const RawResponse response = ToResponse(std::move(content), 11, true);
  EXPECT_EQ(response.count("Probing-Warning"), 2U);
  EXPECT_EQ(response.count("Cache-Control"), 1U);
  EXPECT_EQ(response["Cache-Control"], "max-age=1");
}

const std::vector<StaticFile> kFiles{{"/index.html", "<html>", "packed"}, {"/a.js", "1", ""}};

TEST(StaticFiles, AreServedAsTheyAre) {
  Request request;
  request.path = "/";
  Result<Content> page = ServeFile(kFiles, request);
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->body, "<html>");
  EXPECT_EQ(page->type, "text/html; charset=utf-8");
  request.accept_encoding = "br, gzip";
  page = ServeFile(kFiles, request);
  EXPECT_EQ(page->body, "packed");
  request.path = "/a.js";
  EXPECT_EQ(ServeFile(kFiles, request)->body, "1");
}

TEST(StaticFiles, AreNotSentTwice) {
  Request request;
  request.path = "/a.js";
  const Result<Content> first = ServeFile(kFiles, request);
  ASSERT_TRUE(first.ok());
  for (const auto& [name, value] : first->headers) {
    if (name == "ETag") request.if_none_match = value;
  }
  ASSERT_FALSE(request.if_none_match.empty());
  EXPECT_EQ(ServeFile(kFiles, request)->http_status, 304);
}

TEST(StaticFiles, AreKeptWhenTheirNameChangesWithThem) {
  const std::vector<StaticFile> files{{"/index.html", "<html>", ""}, {"/assets/a-1.js", "1", ""}};
  const auto caching = [&](const char* path) {
    Request request;
    request.path = path;
    const Result<Content> content = ServeFile(files, request);
    for (const auto& [name, value] : content->headers) {
      if (name == "Cache-Control") return value;
    }
    return std::string();
  };
  EXPECT_EQ(caching("/"), "no-cache");
  EXPECT_EQ(caching("/assets/a-1.js"), "max-age=31536000, immutable");
}

TEST(StaticFiles, ThereAreNoOthers) {
  Request request;
  for (const char* path : {"/b.js", "/../etc/passwd", "/index.html/", "", "//index.html"}) {
    request.path = path;
    EXPECT_FALSE(ServeFile(kFiles, request).ok()) << path;
  }
}

}  // namespace
}  // namespace probing::server
