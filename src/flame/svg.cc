#include <array>
#include <cstdio>

#include "flame/escape.h"
#include "flame/formats.h"
#include "flame/script_source.h"
#include "flame/tree.h"

namespace probing::flame {
namespace {

constexpr double kWidth = 1200;
constexpr double kMargin = 10;
constexpr double kRowHeight = 16;
constexpr double kHeader = 56;
constexpr double kFooter = 34;
constexpr double kCharWidth = 7;   // roughly, of the font below
constexpr double kMinWidth = 0.1;  // narrower boxes cannot be seen: they would only make the file big

std::string Number(double value) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.2f", value);
  return text.data();
}

// Cut to the characters that fit, never in the middle of one.
std::string Fitting(const std::string& label, double width) {
  const auto room = static_cast<std::size_t>(std::max(0.0, (width - 6) / kCharWidth));
  if (room < 3) return "";
  std::size_t characters = 0;
  std::size_t cut = label.size();
  for (std::size_t i = 0; i < label.size(); ++i) {
    if ((static_cast<unsigned char>(label[i]) & 0xC0U) == 0x80) continue;
    if (characters == room - 2) cut = i;
    if (++characters > room) return label.substr(0, cut) + "..";
  }
  return label;
}

std::string Tooltip(const Tree& tree, const Box& box) {
  const Entry& entry = tree.entries[box.entry];
  const double percent = 100.0 * static_cast<double>(box.ticks) /
                         static_cast<double>(std::max<std::uint64_t>(tree.total_ticks, 1));
  return entry.label + ": " + std::to_string(box.ticks) + " samples, " + Number(percent) + "%" +
         (entry.file.empty() ? "" : "\n" + entry.file);
}

std::string BoxSvg(const Tree& tree, const Box& box, double height) {
  const Entry& entry = tree.entries[box.entry];
  const double scale =
      (kWidth - 2 * kMargin) / static_cast<double>(std::max<std::uint64_t>(tree.total_ticks, 1));
  const double x = kMargin + static_cast<double>(box.start) * scale;
  const double width = box.depth == 0 ? kWidth - 2 * kMargin : static_cast<double>(box.ticks) * scale;
  if (width < kMinWidth) return "";
  const double y = height - kFooter - static_cast<double>(box.depth + 1) * kRowHeight;
  return "<g class=\"f\" data-x=\"" + std::to_string(box.start) + "\" data-w=\"" + std::to_string(box.ticks) +
         "\" data-d=\"" + std::to_string(box.depth) + "\" data-l=\"" + XmlText(entry.label) + "\"><title>" +
         XmlText(Tooltip(tree, box)) + "</title><rect x=\"" + Number(x) + "\" y=\"" + Number(y) +
         "\" width=\"" + Number(width) + "\" height=\"15\" fill=\"" + entry.colour +
         "\" rx=\"1\"/><text x=\"" + Number(x + 3) + "\" y=\"" + Number(y + 11.5) + "\">" +
         XmlText(Fitting(entry.label, width)) + "</text></g>\n";
}

}  // namespace

std::string ToSvg(const Profile& profile, const View& view) {
  const Tree tree = BuildTree(profile, view);
  const double height = kHeader + kFooter + static_cast<double>(tree.depth + 1) * kRowHeight;
  const std::string size = "width=\"" + Number(kWidth) + "\" height=\"" + Number(height) + "\"";
  const std::string bottom = Number(height - 12);
  std::string svg =
      "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"no\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" " +
      size + " viewBox=\"0 0 " + Number(kWidth) + " " + Number(height) + "\" data-left=\"" + Number(kMargin) +
      "\" data-width=\"" + Number(kWidth - 2 * kMargin) + "\" data-total=\"" +
      std::to_string(tree.total_ticks) +
      "\">\n<style>text{font:12px Verdana,DejaVu Sans,sans-serif;fill:#000}.f{cursor:pointer}"
      ".f:hover rect{stroke:#000;stroke-width:.5}.button{cursor:pointer;fill:#00f}</style>\n"
      "<rect " +
      size +
      " fill=\"#f8f8f8\"/>\n<text x=\"600\" y=\"24\" text-anchor=\"middle\" style=\"font-size:17px\">" +
      XmlText(view.title) +
      "</text>\n<text id=\"reset\" class=\"button\" x=\"10\" y=\"24\" style=\"display:none\">Reset "
      "zoom</text>\n"
      "<text id=\"search\" class=\"button\" x=\"1190\" y=\"24\" text-anchor=\"end\">Search</text>\n"
      "<text id=\"details\" x=\"10\" y=\"" +
      bottom + "\"></text>\n<text id=\"matched\" x=\"1190\" y=\"" + bottom +
      "\" text-anchor=\"end\"></text>\n";
  for (const Box& box : tree.boxes) svg += BoxSvg(tree, box, height);
  return svg + "<script type=\"text/ecmascript\"><![CDATA[\n" + kSvgScript + "]]></script>\n</svg>\n";
}

}  // namespace probing::flame
