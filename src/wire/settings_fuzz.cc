// Settings as people and environments write them: "name=value". A value that was accepted is
// accepted again as it is shown.
#include <cstdlib>

#include "wire/settings.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace probing::wire;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t equals = std::min(text.find('='), text.size());
  const std::string_view name = text.substr(0, equals);
  const std::string_view value = text.substr(std::min(equals + 1, text.size()));
  (void)FindSetting(name);
  for (const Setting& setting : AllSettings()) {
    const auto canonical = CanonicalValue(setting, value);
    if (!canonical.ok()) continue;
    const auto again = CanonicalValue(setting, *canonical);
    if (!again.ok() || *again != *canonical) std::abort();
  }
  for (const Holder holder : {Holder::kProbe, Holder::kDaemon, Holder::kDaemonPerTarget}) {
    Settings settings(holder);
    if (settings.Set(name, value).ok()) (void)settings.GetNumber(name);
  }
  return 0;
}
