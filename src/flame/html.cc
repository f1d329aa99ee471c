#include <string_view>

#include "flame/escape.h"
#include "flame/formats.h"
#include "flame/page.h"
#include "flame/palette.h"
#include "flame/script_source.h"
#include "flame/tree.h"

namespace probing::flame {
namespace {

std::string TreeJson(const Tree& tree) {
  std::string json = "{\"total\":" + std::to_string(tree.total_ticks) +
                     ",\"depth\":" + std::to_string(tree.depth) + ",\"entries\":[";
  for (std::size_t i = 0; i < tree.entries.size(); ++i) {
    const Entry& entry = tree.entries[i];
    json += (i == 0 ? "\n[" : ",\n[") + ScriptText(entry.label) + "," + ScriptText(entry.file) + ",\"" +
            entry.colour + "\"]";
  }
  json += "],\"palette\":" + PaletteJson() + ",\"boxes\":[";
  for (std::size_t i = 0; i < tree.boxes.size(); ++i) {
    const Box& box = tree.boxes[i];
    json += (i == 0 ? "\n[" : ",\n[") + std::to_string(box.entry) + "," + std::to_string(box.depth) + "," +
            std::to_string(box.start) + "," + std::to_string(box.ticks) + (box.idle ? ",1]" : "]");
  }
  return json + "]}";
}

}  // namespace

std::string FillPage(std::string_view page, const std::string& title, const std::string& data) {
  constexpr std::string_view kTitle = "PROBING_TITLE";
  constexpr std::string_view kData = "PROBING_DATA";
  const std::string shown_title = XmlText(title);
  std::string html;
  for (std::string_view rest = page; !rest.empty();) {
    const std::size_t next = rest.find("PROBING_");
    html += rest.substr(0, next);
    if (next == std::string_view::npos) break;
    rest.remove_prefix(next);
    html += rest.starts_with(kTitle) ? shown_title : data;
    rest.remove_prefix(rest.starts_with(kTitle) ? kTitle.size() : kData.size());
  }
  return html;
}

std::string ToHtml(const Profile& profile, const View& view) {
  return FillPage(kHtmlPage, view.title, TreeJson(BuildTree(profile, view)));
}

}  // namespace probing::flame
