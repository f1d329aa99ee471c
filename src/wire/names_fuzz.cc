// Texts that name something: addresses, lists of hosts (Slurm's short forms), where peers are found, stores,
// what to trace. They come from variables of the job, other hosts and URLs.
#include <cstdint>
#include <cstdlib>

#include "wire/address.h"
#include "wire/node_list.h"
#include "wire/outlet_url.h"
#include "wire/peers.h"
#include "wire/store_url.h"
#include "wire/torch_spec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace probing;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const Result<wire::Address> address = wire::ParseAddress(text); address.ok()) {
    const Result<wire::Address> again = wire::ParseAddress(address->ToText());
    if (!again.ok() || *again != *address) std::abort();
  }
  (void)wire::IsIpLiteral(std::string(text));
  (void)wire::IsLoopback(std::string(text));
  const Result<std::vector<wire::Address>> addresses = wire::ParseAddresses(text);
  if (addresses.ok() && addresses->size() > wire::kMaxAddresses) std::abort();
  const Result<std::vector<std::string>> hosts = wire::ParseHosts(text);
  if (hosts.ok() && hosts->size() > wire::kMaxAddresses) std::abort();
  (void)wire::ParsePeers(text);
  if (const Result<wire::StoreUrl> store = wire::ParseStoreUrl(text); store.ok()) {
    if (!wire::LooksLikeStore(text)) std::abort();
  }
  (void)wire::WithoutPassword(text);
  if (const Result<wire::OutletUrl> outlet = wire::ParseOutletUrl(text); outlet.ok()) {
    // What goes into a request stays in its line.
    if ((outlet->path + outlet->query).find_first_of("\r\n ") != std::string::npos) std::abort();
    if (!outlet->query.empty() && !outlet->ToText().ends_with("?***")) std::abort();
  }
  (void)wire::ShownUrl(text);
  if (const Result<wire::HeaderList> headers = wire::ParseHeaders(text); headers.ok()) {
    for (const auto& [name, value] : *headers) {
      if ((name + value).find_first_of("\r\n") != std::string::npos) std::abort();
    }
  }
  (void)wire::ShownHeaders(text);
  if (const Result<std::string> spec = wire::CanonicalTorchSpec(text); spec.ok()) {
    const Result<std::string> again = wire::CanonicalTorchSpec(*spec);
    if (!again.ok() || *again != *spec) std::abort();
  }
  return 0;
}
