#include "cluster/tcp_store.h"

#include <netdb.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <string_view>

#include "base/base64.h"
#include "cluster/plain_socket.h"
#include "wire/node_list.h"

namespace probing::cluster {
namespace {

// As in torch/csrc/distributed/c10d/TCPStoreBackend.hpp. Numbers travel as this machine has them.
enum Query : char { kValidate = 0, kGet = 3, kCheck = 5 };
constexpr std::uint32_t kMagic = 0x3C85F7CE;
constexpr char kReady = 0;
constexpr std::size_t kMaxValueBytes = 4 << 20;

template <typename T>
std::string Bytes(T number) {
  std::string bytes(sizeof(number), '\0');
  std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}

std::string Text(const std::string& text) { return Bytes<std::uint64_t>(text.size()) + text; }

constexpr std::size_t kMaxMemo = 100'000;  // a rendezvous of 10,000 agents has fewer

// Reads a pickle's words. Of all it could say only texts and where they stand matter. Texts are views of the
// pickle, which anybody may have written: one that is remembered a million times takes no more memory.
class PickleWords {
 public:
  explicit PickleWords(std::string_view pickle) : rest_(pickle) {}

  // The next text, of this place or remembered from an earlier one; nothing at the end, or when a word comes
  // that no state has.
  std::optional<std::string_view> NextText() {
    while (!rest_.empty()) {
      const auto word = static_cast<unsigned char>(rest_[0]);
      rest_.remove_prefix(1);
      std::optional<std::string_view> text;
      if (!Take(word, text)) return std::nullopt;
      if (text) return text;
    }
    return std::nullopt;
  }

 private:
  // False when it cannot go on.
  bool Take(unsigned char word, std::optional<std::string_view>& text) {
    switch (word) {
      case 0x8c:  // SHORT_BINUNICODE
        return TakeText(1, text);
      case 'X':  // BINUNICODE
        return TakeText(4, text);
      case 0x94:  // MEMOIZE: what came last, a text or something else
        memo_.push_back(last_);
        return memo_.size() <= kMaxMemo;
      case 'h':  // BINGET
      case 'j':  // LONG_BINGET
        return TakeRemembered(word == 'h' ? 1 : 4, text);
      case 'C':  // SHORT_BINBYTES: of a date
        return Forget() && Skip(Number(1));
      case 0x80:  // PROTO
      case 'K':   // BININT1
        return Forget() && Skip(1);
      case 'M':  // BININT2
        return Forget() && Skip(2);
      case 'J':  // BININT
        return Forget() && Skip(4);
      case 0x8a:  // LONG1
        return Forget() && Skip(Number(1));
      case 'G':   // BINFLOAT
      case 0x95:  // FRAME
        return Forget() && Skip(8);
      default:
        return IsBare(word) && Forget();
    }
  }

  // Words without anything behind them.
  static bool IsBare(unsigned char word) {
    constexpr std::string_view kBare = "()]}NRbues.a\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x93";
    return kBare.find(static_cast<char>(word)) != std::string_view::npos;
  }

  bool Forget() {
    last_.reset();
    return true;
  }

  bool Skip(std::uint64_t size) {
    if (size > rest_.size()) return false;
    rest_.remove_prefix(size);
    return true;
  }

  std::uint64_t Number(std::size_t size) {
    if (size > rest_.size()) {
      rest_ = {};
      return UINT64_MAX;
    }
    std::uint64_t number = 0;
    std::memcpy(&number, rest_.data(), size);
    rest_.remove_prefix(size);
    return number;
  }

  bool TakeText(std::size_t size_bytes, std::optional<std::string_view>& text) {
    const std::uint64_t size = Number(size_bytes);
    if (size > rest_.size()) return false;
    text = last_ = rest_.substr(0, size);
    return Skip(size);
  }

  bool TakeRemembered(std::size_t size_bytes, std::optional<std::string_view>& text) {
    const std::uint64_t index = Number(size_bytes);
    if (index >= memo_.size()) return false;
    text = last_ = memo_[index];
    return true;
  }

  std::string_view rest_;
  std::optional<std::string_view> last_;
  std::vector<std::optional<std::string_view>> memo_;
};

}  // namespace

Result<std::optional<std::string>> ReadStore(const wire::Address& store, const std::string& key,
                                             const Deadline& deadline) {
  ASSIGN_OR_RETURN(const PlainSocket socket, PlainSocket::Dial(store, deadline));
  const std::string name = Text("/" + key);  // TCPStore puts the slash before all of its keys
  RETURN_IF_ERROR(socket.Write(std::string(1, kValidate) + Bytes(kMagic) + std::string(1, kCheck) +
                               Bytes<std::uint64_t>(1) + name));
  ASSIGN_OR_RETURN(const std::string answer, socket.Read(1));
  if (answer[0] != kReady) return std::optional<std::string>();
  RETURN_IF_ERROR(socket.Write(std::string(1, kGet) + name));
  ASSIGN_OR_RETURN(const std::string size_text, socket.Read(sizeof(std::uint64_t)));
  std::uint64_t size = 0;
  std::memcpy(&size, size_text.data(), sizeof(size));
  if (size > kMaxValueBytes)
    return Error{Code::kFailed, store.ToText() + " is no store of torch's, or of a version we do not know",
                 ""};
  ASSIGN_OR_RETURN(std::string value, socket.Read(size));
  return std::optional<std::string>(std::move(value));
}

std::string RendezvousKey(const std::string& run_id) { return "torch.rendezvous." + run_id; }

std::vector<std::string> AgentHosts(const std::string& value) {
  std::vector<std::string> hosts;
  const std::optional<std::string> pickle = FromBase64(value);
  if (!pickle) return hosts;
  PickleWords words(*pickle);
  std::set<std::string_view> known;
  std::optional<std::string_view> before;
  while (known.size() < wire::kMaxAddresses) {
    const std::optional<std::string_view> text = words.NextText();
    if (!text) break;
    const bool is_host = before == "addr" && text->size() <= NI_MAXHOST && known.insert(*text).second;
    if (is_host) hosts.emplace_back(*text);
    before = text;
  }
  return hosts;
}

}  // namespace probing::cluster
