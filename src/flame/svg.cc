#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <vector>

#include "flame/escape.h"
#include "flame/formats.h"
#include "flame/palette.h"
#include "flame/palette_colours.h"
#include "flame/script_source.h"
#include "flame/tree.h"

namespace probing::flame {
namespace {

constexpr double kWidth = 1200;
constexpr double kMargin = 10;
constexpr double kRowHeight = 17;
constexpr double kHeader = 66;
constexpr double kFooter = 34;
constexpr double kCharWidth = 6.65;  // of the font below, 11px; all common ones are narrower
constexpr double kMinWidth = 0.1;    // narrower boxes cannot be seen: they would only make the file big

constexpr double kTitleWidth = 740;  // in columns of the small font; the buttons are beside it

// Readable with and without a script, on light and dark pages.
constexpr char kStyle[] =
    "text{font:11px ui-monospace,DejaVu Sans Mono,Menlo,Consolas,monospace;fill:#111}"
    "svg{background:#fff}.page{fill:#fff}.quiet{fill:#666}.f{cursor:pointer}.f:hover "
    "rect{stroke:#111;stroke-width:1}"
    ".f text{pointer-events:none}.caller{opacity:.45}.legend{cursor:pointer}.legend text.quiet{fill:#666}"
    ".legend.off{opacity:.4}.off-class{opacity:.18}.f.hit rect{fill:#c026d3}"
    ".button{cursor:pointer;fill:#0b5fd0;text-decoration:underline}"
    "@media(prefers-color-scheme:dark){.legend "
    "text.quiet{fill:#aaa}svg{background:#17181a}.page{fill:#17181a}.quiet{fill:#"
    "aaa}"
    ".f:hover rect{stroke:#eee}.f.hit rect{fill:#a21caf}.button{fill:#7db4ff}}";

std::string Number(double value) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.2f", value);
  return text.data();
}

// Columns of the character that starts with this byte; 0 within one. Those of Asia take two.
std::size_t Columns(char byte) {
  const auto first = static_cast<unsigned char>(byte);
  if ((first & 0xC0U) == 0x80) return 0;
  return first >= 0xE1 ? 2 : 1;
}

// Cut to what fits, never in the middle of a character.
std::string Fitting(const std::string& label, double width) {
  const auto room = static_cast<std::size_t>(std::max(0.0, (width - 6) / kCharWidth));
  if (room < 5) return "";
  std::size_t used = 0;
  std::size_t cut = 0;
  for (std::size_t i = 0; i < label.size(); ++i) {
    const std::size_t columns = Columns(label[i]);
    if (columns == 0) continue;
    if (used + 2 <= room) cut = i;
    used += columns;
    if (used > room) return label.substr(0, cut) + "..";
  }
  return label;
}

std::string Tooltip(const Tree& tree, const Box& box) {
  const Entry& entry = tree.entries[box.entry];
  const double percent = 100.0 * static_cast<double>(box.ticks) /
                         static_cast<double>(std::max<std::uint64_t>(tree.total_ticks, 1));
  const std::string ranks = box.ranks.empty() ? "" : " [" + box.ranks + "]";
  const std::string change = !tree.is_compared ? ""
                                               : ", " + std::string(box.change < 0 ? "" : "+") +
                                                     Number(100 * box.change) + " points";
  return entry.label + ranks + ": " + std::to_string(box.ticks) + " samples, " + Number(percent) + "%" +
         change + (entry.file.empty() ? "" : "\n" + entry.file);
}

// A comparison has colours of its own: red for more than the others, blue for less, in kSteps shades.
constexpr int kSteps = 5;
constexpr double kFullColour = 0.2;  // of the whole; beyond it all are the same
constexpr double kNoChange = 0.005;

std::string ColourOf(const Tree& tree, const Box& box) {
  if (!tree.is_compared || box.depth == 0)
    return box.idle && box.depth > 0 ? kIdleColour : tree.entries[box.entry].colour;
  const double change = std::abs(box.change);
  if (change < kNoChange) return "same0";
  const int step = std::min(kSteps, 1 + static_cast<int>(change / kFullColour * kSteps));
  return (box.change > 0 ? "more" : "less") + std::to_string(step);
}

std::string ChangeCss(bool dark) {
  const std::string ink = dark ? "#eee" : "#111";
  std::string css = ".same0 rect{fill:" + std::string(dark ? "#3a3b3e" : "#e4e4e4") + "}";
  for (int step = 0; step <= kSteps; ++step) {
    const int light = dark ? 26 + 14 * step / kSteps : 94 - 26 * step / kSteps;
    const std::string tone =
        "," + std::to_string(20 + 60 * step / kSteps) + "%," + std::to_string(light) + "%)}";
    css += ".more" + std::to_string(step) + " rect{fill:hsl(8" + tone + ".less" + std::to_string(step) +
           " rect{fill:hsl(214" + tone;
  }
  return css + ".same0 text" +
         [&] {
           std::string all;
           for (int step = 1; step <= kSteps; ++step)
             all += ",.more" + std::to_string(step) + " text,.less" + std::to_string(step) + " text";
           return all;
         }() +
         "{fill:" + ink + "}";
}

std::string BoxSvg(const Tree& tree, const Box& box, double height) {
  const Entry& entry = tree.entries[box.entry];
  const double scale =
      (kWidth - 2 * kMargin) / static_cast<double>(std::max<std::uint64_t>(tree.total_ticks, 1));
  const double x = kMargin + static_cast<double>(box.start) * scale;
  const double width = box.depth == 0 ? kWidth - 2 * kMargin : static_cast<double>(box.ticks) * scale;
  if (width < kMinWidth) return "";
  const double y = height - kFooter - static_cast<double>(box.depth + 1) * kRowHeight;
  return "<g class=\"f " + ColourOf(tree, box) + "\" data-x=\"" + std::to_string(box.start) + "\" data-w=\"" +
         std::to_string(box.ticks) + "\" data-d=\"" + std::to_string(box.depth) + "\" data-l=\"" +
         XmlText(entry.label) + "\"><title>" + XmlText(Tooltip(tree, box)) + "</title><rect x=\"" +
         Number(x) + "\" y=\"" + Number(y) + "\" width=\"" + Number(width) +
         "\" height=\"16\" rx=\"1.5\"/><text x=\"" + Number(x + 3) + "\" y=\"" + Number(y + 12) + "\">" +
         XmlText(Fitting(entry.label, width)) + "</text></g>\n";
}

struct LegendEntry {
  std::string colour;
  std::string_view title;
};

std::vector<LegendEntry> MeaningsOf(const Tree& tree) {
  if (tree.is_compared) {
    return {{"more5", "more than the others"}, {"less5", "less than the others"}, {"same0", "as much"}};
  }
  std::vector<LegendEntry> meanings;  // the first of each class, in the order of the palette
  for (const ClassColours& each : kClasses) {
    const auto is_shown = [&](const Box& box) {
      if (box.depth == 0) return false;
      return box.idle ? each.id == "idle" : tree.entries[box.entry].colour.starts_with(each.id);
    };
    if (each.id != "group" && std::ranges::any_of(tree.boxes, is_shown))
      meanings.push_back({std::string(each.id) + "0", ClassTitle(std::string(each.id) + "0")});
  }
  return meanings;
}

// What the colours mean, of those that occur; a click shows and hides.
std::string Legend(const Tree& tree) {
  std::string svg;
  double x = kMargin;
  for (const auto& [colour, title] : MeaningsOf(tree)) {
    svg += "<g class=\"legend " + colour + "\" data-class=\"" + colour.substr(0, colour.size() - 1) +
           "\"><rect x=\"" + Number(x) +
           "\" y=\"39\" width=\"11\" height=\"11\" rx=\"2\"/><text class=\"quiet\" x=\"" + Number(x + 16) +
           "\" y=\"48\">" + std::string(title) + "</text></g>\n";
    x += 16 + static_cast<double>(title.size() + 3) * kCharWidth;
  }
  return svg;
}

}  // namespace

std::string ToSvg(const Profile& profile, const View& view) {
  const Tree tree = BuildTree(profile, view);
  const double height = kHeader + kFooter + static_cast<double>(tree.depth + 1) * kRowHeight;
  const std::string size = "width=\"" + Number(kWidth) + "\" height=\"" + Number(height) + "\"";
  const std::string bottom = Number(height - 12);
  std::string svg =
      "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"no\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" ";
  svg += size + " viewBox=\"0 0 " + Number(kWidth) + " " + Number(height) + "\" data-left=\"" +
         Number(kMargin) + "\" data-width=\"" + Number(kWidth - 2 * kMargin) + "\" data-total=\"" +
         std::to_string(tree.total_ticks) + "\" data-char=\"" + Number(kCharWidth) + "\">\n<title>" +
         XmlText(view.title) + "</title>\n<style>" + PaletteCss() + kStyle +
         (tree.is_compared ? ChangeCss(false) + "@media(prefers-color-scheme:dark){" + ChangeCss(true) + "}"
                           : "") +
         "</style>\n<rect class=\"page\" " + size + "/>\n";
  svg += "<text x=\"10\" y=\"24\" style=\"font-size:15px;font-weight:bold\">" +
         XmlText(Fitting(view.title, kTitleWidth)) + "</text>\n" + Legend(tree);
  svg +=
      "<text id=\"search\" class=\"button\" x=\"1190\" y=\"24\" text-anchor=\"end\">search</text>\n"
      "<text id=\"reset\" class=\"button\" x=\"1130\" y=\"24\" text-anchor=\"end\" "
      "style=\"display:none\">reset zoom</text>\n";
  svg += "<text id=\"details\" class=\"quiet\" x=\"10\" y=\"" + bottom +
         "\"></text>\n<text id=\"matched\" x=\"1190\" y=\"48\" text-anchor=\"end\"></text>\n";
  for (const Box& box : tree.boxes) svg += BoxSvg(tree, box, height);
  return svg + "<script type=\"text/ecmascript\"><![CDATA[\n" + kSvgScript + "]]></script>\n</svg>\n";
}

}  // namespace probing::flame
