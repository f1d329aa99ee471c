#include "flame/formats.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "flame/escape.h"
#include "flame/palette.h"

namespace probing::flame {
namespace {

constexpr std::int64_t kMs = 1'000'000;

Frame Python(std::string function, std::string file, int line, int first_line) {
  return {FrameKind::kPython, std::move(function), std::move(file), line, first_line};
}

// main runs for 50 ms: 30 in work, 20 in rest; another thread sleeps all the time.
Profile Small() {
  Profile profile(10 * kMs, {});
  const ThreadId main = profile.AddThread({100, 100, "python", "train"});
  const ThreadId other = profile.AddThread({100, 101, "waiter", "train"});
  const Frame module = Python("<module>", "/job/train.py", 9, 1);
  for (int i = 0; i < 5; ++i) {
    const Frame inner =
        i < 3 ? Python("work", "/job/train.py", 20 + i, 20) : Python("rest", "/job/train.py", 30, 30);
    profile.AddSample({i * 10 * kMs, 1, main, 0, true, true}, {inner, module});
    profile.AddSample({i * 10 * kMs, 1, other, 0, false, false},
                      {Python("wait", "/usr/lib/python3.11/threading.py", 320, 300)});
  }
  return profile;
}

// Everything that has a meaning in some format, and bytes that are no text at all.
Profile Hostile() {
  Profile profile(kMs, {});
  const std::string name = "</title></script>]]><b a=\"'&\\;\n\x01\xff\xed\xa0\x80 名前 PROBING_DATA 7";
  const ThreadId thread = profile.AddThread({1, 1, name, name});
  profile.AddSample({0, 1, thread, 0, true, true}, {Python(name, "/x/" + name, 1, 1)});
  return profile;
}

View All() {
  View view;
  view.shown = Shown::kAll;
  return view;
}

// Enough of a check that tags match and nothing is unescaped: there is no XML parser here. The
// integration tests have one.
void ExpectBalanced(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t at = 0; (at = xml.find('<', at)) != std::string::npos; ++at) {
    if (xml.compare(at, 9, "<![CDATA[") == 0) {
      at = xml.find("]]>", at);
      ASSERT_NE(at, std::string::npos);
      continue;
    }
    const std::size_t end = xml.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = xml.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find(' '));
    if (tag.front() == '?' || tag.back() == '/') continue;
    if (tag.front() != '/') {
      open.push_back(name);
    } else {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ("/" + open.back(), name);
      open.pop_back();
    }
  }
  EXPECT_TRUE(open.empty());
}

TEST(Collapsed, OneLinePerStackAndIdleThreadsAreLeftOut) {
  EXPECT_EQ(ToCollapsed(Small(), {}),
            "<module> (train.py:1);rest (train.py:30) 2\n"
            "<module> (train.py:1);work (train.py:20) 3\n");
}

TEST(Collapsed, IdleThreadsAndGroupsWhenAskedFor) {
  View view = All();
  view.by_thread = true;
  view.by_process = true;
  view.by_line = true;
  EXPECT_EQ(ToCollapsed(Small(), view),
            "process 100 train;thread 100 python;<module> (train.py:9);rest (train.py:30) 2\n"
            "process 100 train;thread 100 python;<module> (train.py:9);work (train.py:20) 1\n"
            "process 100 train;thread 100 python;<module> (train.py:9);work (train.py:21) 1\n"
            "process 100 train;thread 100 python;<module> (train.py:9);work (train.py:22) 1\n"
            "process 100 train;thread 101 waiter;wait (threading.py:320) 5\n");
}

TEST(Collapsed, AHostileNameIsOneFrameOfOneLine) {
  const std::string text = ToCollapsed(Hostile(), {});
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_EQ(std::count(text.begin(), text.end(), ';'), 0);
  EXPECT_TRUE(text.ends_with(" 1\n"));
}

TEST(Svg, NamesSharesAndFilesAreInIt) {
  View view;
  view.title = "train <1>";
  const std::string svg = ToSvg(Small(), view);
  EXPECT_NE(svg.find("work (train.py:20): 3 samples, 60.00%\n/job/train.py"), std::string::npos);
  EXPECT_NE(svg.find("train &lt;1&gt;"), std::string::npos);
  EXPECT_EQ(svg.find("wait ("), std::string::npos);
  EXPECT_EQ(svg, ToSvg(Small(), view));
  ExpectBalanced(svg);
}

TEST(Svg, HostileNamesStayText) {
  const std::string svg = ToSvg(Hostile(), {});
  ExpectBalanced(svg);
  EXPECT_EQ(svg.find("<b "), std::string::npos);
  EXPECT_EQ(svg.find('\x01'), std::string::npos);
  EXPECT_TRUE(IsValidUtf8(svg));
}

TEST(Svg, NothingSeenIsStillAPicture) { ExpectBalanced(ToSvg(Profile(kMs, {}), {})); }

TEST(Html, HostileNamesStayInTheirScript) {
  const std::string html = ToHtml(Hostile(), {});
  const std::size_t start = html.find("id=\"data\">") + 10;
  const std::size_t end = html.find("</script>", start);
  const nlohmann::json data = nlohmann::json::parse(html.substr(start, end - start), nullptr, false);
  ASSERT_TRUE(data.is_object());
  EXPECT_EQ(data["frames"].size(), 1U);
  EXPECT_EQ(data["samples"]["weight"], nlohmann::json::array({1}));
  EXPECT_TRUE(html.ends_with("</html>\n"));
}

TEST(Palette, FramesAreClassedByWhoseCodeTheyAre) {
  const auto class_of = [](std::string file) { return ClassOf({.function = "f", .file = std::move(file)}); };
  EXPECT_EQ(class_of("/job/train.py"), "own");
  EXPECT_EQ(class_of("/v/lib/python3.11/site-packages/torch/nn/modules/module.py"), "torch");
  EXPECT_EQ(class_of("/v/lib/python3.11/site-packages/torchvision/x.py"), "packages");
  EXPECT_EQ(class_of("/usr/lib/python3.11/threading.py"), "stdlib");
  EXPECT_EQ(class_of("<frozen importlib._bootstrap>"), "stdlib");
  EXPECT_EQ(ClassOf({.kind = FrameKind::kNative, .function = "f", .file = "/x/torch/lib/libtorch.so"}),
            "native");
  EXPECT_EQ(ClassTitle("own0"), "your code");
  const std::string svg = ToSvg(Small(), All());
  EXPECT_NE(svg.find("data-class=\"own\""), std::string::npos);
  EXPECT_NE(svg.find("data-class=\"idle\""), std::string::npos);
  EXPECT_EQ(svg.find("data-class=\"torch\""), std::string::npos);  // only those that occur
}

TEST(Speedscope, OneTimelinePerThread) {
  const nlohmann::json json = nlohmann::json::parse(ToSpeedscope(Small(), All()), nullptr, false);
  ASSERT_TRUE(json.is_object());
  ASSERT_EQ(json["profiles"].size(), 2U);
  const nlohmann::json& main = json["profiles"][0];
  EXPECT_EQ(main["name"], "thread 100 python (process 100 train)");
  EXPECT_EQ(main["samples"].size(), main["weights"].size());
  EXPECT_DOUBLE_EQ(main["endValue"], 0.05);
  EXPECT_EQ(json["profiles"][1]["weights"], nlohmann::json::array({0.05}));
  EXPECT_EQ(json["shared"]["frames"][0]["name"], "<module>");
}

TEST(Speedscope, HostileNamesAreValidJson) {
  EXPECT_TRUE(nlohmann::json::parse(ToSpeedscope(Hostile(), {}), nullptr, false).is_object());
}

TEST(ChromeTrace, FramesThatStayAreOneSlice) {
  const nlohmann::json json = nlohmann::json::parse(ToChromeTrace(Small(), {}), nullptr, false);
  ASSERT_TRUE(json.is_object());
  std::map<std::string, std::pair<double, double>> slices;
  for (const nlohmann::json& event : json["traceEvents"]) {
    if (event["ph"] == "X") slices[event["name"]] = {event["ts"], event["dur"]};
  }
  EXPECT_EQ(slices.size(), 3U);
  EXPECT_EQ(slices["<module>"], std::pair(0.0, 50000.0));
  EXPECT_EQ(slices["work"], std::pair(0.0, 30000.0));
  EXPECT_EQ(slices["rest"], std::pair(30000.0, 20000.0));
}

TEST(ChromeTrace, CallersComeBeforeWhatTheyCall) {
  const nlohmann::json json = nlohmann::json::parse(ToChromeTrace(Small(), {}), nullptr, false);
  std::vector<std::string> names;
  for (const nlohmann::json& event : json["traceEvents"]) {
    if (event["ph"] == "X") names.push_back(event["name"]);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"<module>", "work", "rest"}));
}

TEST(ChromeTrace, HostileNamesAreValidJson) {
  EXPECT_TRUE(nlohmann::json::parse(ToChromeTrace(Hostile(), {}), nullptr, false).is_object());
}

// The functions of a thread's rows, outermost first, with their weights.
std::vector<std::pair<std::string, int>> StacksOfGecko(const nlohmann::json& thread) {
  std::vector<std::pair<std::string, int>> stacks;
  const nlohmann::json& samples = thread["samples"];
  for (std::size_t i = 0; i < samples["length"]; ++i) {
    std::string path;
    for (nlohmann::json at = samples["stack"][i]; !at.is_null();
         at = thread["stackTable"]["prefix"][at.get<int>()]) {
      const int frame = thread["stackTable"]["frame"][at.get<int>()];
      const int function = thread["frameTable"]["func"][frame];
      const int name = thread["funcTable"]["name"][function];
      path = thread["stringArray"][name].get<std::string>() + (path.empty() ? "" : ";") + path;
    }
    stacks.emplace_back(path, samples["weight"][i]);
  }
  return stacks;
}

TEST(Gecko, EachThreadHasItsSamplesAndWhatTheyReferTo) {
  const nlohmann::json json = nlohmann::json::parse(ToGecko(Small(), All()), nullptr, false);
  ASSERT_TRUE(json.is_object());
  ASSERT_EQ(json["threads"].size(), 2U);
  const nlohmann::json& main = json["threads"][0];
  EXPECT_EQ(StacksOfGecko(main), (std::vector<std::pair<std::string, int>>{{"<module>;work", 1},
                                                                           {"<module>;work", 1},
                                                                           {"<module>;work", 1},
                                                                           {"<module>;rest", 1},
                                                                           {"<module>;rest", 1}}));
  EXPECT_EQ(main["samples"]["time"], (nlohmann::json::array({0.0, 10.0, 20.0, 30.0, 40.0})));
  EXPECT_EQ(main["funcTable"]["length"], 3);
  EXPECT_EQ(main["frameTable"]["line"], nlohmann::json::array({9, 20, 21, 22, 30}));
  // One that sleeps: the first and the last period, so that it is drawn as long as it was.
  const nlohmann::json& waiter = json["threads"][1];
  EXPECT_EQ(StacksOfGecko(waiter), (std::vector<std::pair<std::string, int>>{{"wait", 1}, {"wait", 4}}));
  EXPECT_EQ(waiter["samples"]["time"], nlohmann::json::array({0.0, 40.0}));
  EXPECT_EQ(json["meta"]["categories"][waiter["stackTable"]["category"][0].get<int>()]["name"], "Idle");
}

TEST(Gecko, AllColumnsOfATableAreAsLongAsItSays) {
  const nlohmann::json json = nlohmann::json::parse(ToGecko(Hostile(), All()), nullptr, false);
  ASSERT_TRUE(json.is_object());
  for (const nlohmann::json& thread : json["threads"]) {
    for (const char* name :
         {"samples", "markers", "stackTable", "frameTable", "funcTable", "resourceTable"}) {
      for (const auto& [column, values] : thread[name].items()) {
        if (!values.is_array()) continue;
        EXPECT_EQ(values.size(), thread[name]["length"]) << name << "." << column;
      }
    }
  }
}

nlohmann::json HeatOf(const Profile& profile, const View& view) {
  const std::string html = ToHeatmap(profile, view);
  EXPECT_TRUE(html.ends_with("</html>\n"));
  const std::size_t start = html.find("id=\"data\">") + 10;
  return nlohmann::json::parse(html.substr(start, html.find("</script>", start) - start), nullptr, false);
}

TEST(Heatmap, LinesHaveTheirTimeTheirTextAndWhoCalledThem) {
  View view;
  view.source_of = [](const std::string& file) {
    std::string text;
    for (int i = 1; i < 50; ++i) text += "line " + std::to_string(i) + "\n";
    return file == "/job/train.py" ? text : "";
  };
  const nlohmann::json heat = HeatOf(Small(), view);
  ASSERT_TRUE(heat.is_object());
  EXPECT_EQ(heat["total"], 5);
  ASSERT_EQ(heat["files"].size(), 1U);
  const nlohmann::json& file = heat["files"][0];
  EXPECT_EQ(file["own"], 5);
  // [line, own, total, function, callers, callees]; a neighbour is [file, line, ticks].
  EXPECT_EQ(file["lines"][0],
            nlohmann::json::parse("[9,0,5,\"<module>\",[],[[0,30,2],[0,22,1],[0,21,1],[0,20,1]]]"));
  EXPECT_EQ(file["lines"][4], nlohmann::json::parse("[30,2,2,\"rest\",[[0,9,2]],[]]"));
  EXPECT_EQ(file["source"].front(), nlohmann::json::parse("[6,\"line 6\"]"));
  EXPECT_EQ(file["source"].back(), nlohmann::json::parse("[33,\"line 33\"]"));
}

TEST(Heatmap, ARecursiveLineCountsOncePerStack) {
  Profile profile(kMs, {});
  const ThreadId thread = profile.AddThread({1, 1, "", ""});
  const Frame frame = Python("again", "/x.py", 7, 5);
  profile.AddSample({0, 3, thread, 0, true, true}, {frame, frame, frame});
  const nlohmann::json heat = HeatOf(profile, {});
  EXPECT_EQ(heat["files"][0]["lines"], nlohmann::json::parse("[[7,3,3,\"again\",[[0,7,3]],[[0,7,3]]]]"));
}

TEST(Heatmap, HostileNamesAndSourcesStayInTheirScript) {
  View view;
  view.source_of = [](const std::string&) { return std::string("</script>\xff<!--\n"); };
  EXPECT_TRUE(HeatOf(Hostile(), view).is_object());
  EXPECT_TRUE(HeatOf(Profile(kMs, {}), view).is_object());
}

TEST(Formats, EachIsFoundByItsNameAndWritesSomething) {
  for (const Format& format : Formats()) {
    ASSERT_EQ(FindFormat(format.name), &format);
    EXPECT_FALSE(format.write(Small(), All()).empty()) << format.name;
  }
  EXPECT_EQ(FindFormat("xml"), nullptr);
}

TEST(Pprof, TheFirstFieldsAreWhatTheFormatSays) {
  const std::string bytes = ToPprof(Small(), {});
  // sample_type {type: 1, unit: 2}, {3, 4}, {5, 4}: indices into the string table.
  EXPECT_EQ(bytes.substr(0, 18),
            std::string("\x0a\x04\x08\x01\x10\x02\x0a\x04\x08\x03\x10\x04\x0a\x04\x08\x05\x10\x04"));
  // The string table is the last field; its entries have the tag 6 << 3 | 2.
  EXPECT_NE(bytes.find("2\x07"
                       "samples2\x05"
                       "count2\x04"
                       "wall2\x0b"
                       "nanoseconds2\x03"
                       "cpu"),
            std::string::npos);
}

TEST(Escape, WhatIsNoUtf8BecomesTheReplacementCharacter) {
  EXPECT_EQ(ValidUtf8("a\xff"
                      "b"),
            "a\xef\xbf\xbd"
            "b");
  EXPECT_EQ(ValidUtf8("\xc0\xaf"), "\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(ValidUtf8("名前"), "名前");
  EXPECT_EQ(ValidUtf8("\xe5\x90"), "\xef\xbf\xbd\xef\xbf\xbd");
}

}  // namespace
}  // namespace probing::flame
