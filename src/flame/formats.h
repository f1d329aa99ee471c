// A profile as files other programs read. Pure functions; every name in them is escaped.
//
// `view` selects the samples in all of them; `view.title` is shown where the format has a place
// for it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "flame/view.h"

namespace probing::flame {

// A flame graph that needs nothing else: tooltips, zoom by click, search. Opens in any browser.
std::string ToSvg(const Profile& profile, const View& view);

// The same as a page with a toolbar (search, reset, upside down), for big profiles.
std::string ToHtml(const Profile& profile, const View& view);

// "main (a.py:1);work (a.py:5) 42", a line per stack, sorted; what flamegraph.pl and inferno take.
std::string ToCollapsed(const Profile& profile, const View& view);

// https://www.speedscope.app: one timeline per thread.
std::string ToSpeedscope(const Profile& profile, const View& view);

// profile.proto, not compressed (`go tool pprof` takes both): samples, wall and CPU time.
std::string ToPprof(const Profile& profile, const View& view);

// The JSON of chrome://tracing and Perfetto: a slice for as long as a frame stays in a stack.
std::string ToChromeTrace(const Profile& profile, const View& view);

// The JSON of the Firefox Profiler (profiler.firefox.com): a track for each thread.
std::string ToGecko(const Profile& profile, const View& view);

// A page: source lines by the time they took, with their callers and callees (View::source_of).
std::string ToHeatmap(const Profile& profile, const View& view);

// All of them, for those who choose one by its name.
struct Format {
  std::string_view name;
  std::string_view suffix;  // of a file name
  const char* media_type;
  std::string (*write)(const Profile&, const View&);
};
std::span<const Format> Formats();
// Null: there is none of that name. FormatNames() has them all, for people.
const Format* FindFormat(std::string_view name);
std::string FormatNames();

}  // namespace probing::flame
