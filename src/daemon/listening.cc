#include "daemon/listening.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/clock.h"
#include "base/text.h"
#include "daemon/host_name.h"
#include "daemon/log.h"
#include "daemon/tokens.h"
#include "process/status.h"
#include "server/encryption.h"
#include "tls/identity.h"
#include "wire/config_directory.h"
#include "wire/rendezvous.h"

namespace probing::daemon {
namespace asio = boost::asio;

namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(100);
constexpr std::string_view kAddresses = "probing.server.addr";

std::vector<std::string> HostNames() {
  const std::string name = HostName();
  return name.empty() ? std::vector<std::string>() : std::vector{name};
}

// Kept where the user's other settings are: clients know it again after a restart.
Result<tls::Identity> SelfMadeIdentity() {
  constexpr const char* kName = "/server.pem";
  if (const Result<std::string> directory = wire::PrepareConfigDirectory(); directory.ok()) {
    Result<tls::Identity> identity = tls::OwnIdentity(*directory + kName, HostName());
    if (identity.ok() || identity.error().code == Code::kPermission) return identity;
  }
  ASSIGN_OR_RETURN(const std::string directory, wire::PrepareRuntimeDirectory());
  return tls::OwnIdentity(directory + kName, HostName());
}

}  // namespace

std::vector<wire::Address> Listening::Wanted(const wire::Settings& settings) {
  std::vector<wire::Address> list;
  std::string_view text = settings.Get(kAddresses);
  if (text == "none") return list;
  while (!text.empty()) {
    const std::string_view one = TakePart(text, ',');
    if (Result<wire::Address> address = wire::ParseAddress(one); address.ok())
      list.push_back(std::move(*address));
  }
  return list;
}

// The one that is in use stays when another one cannot be read.
Result<void> Listening::PrepareEncryption(const wire::Settings& settings) {
  const std::string given(settings.Get("probing.server.certificate"));
  const std::string key(settings.Get("probing.server.key"));
  std::string source = given + "|" + key;
  if (!fingerprint_.empty() && source == certificate_) return {};
  Result<tls::Identity> identity = !given.empty() ? tls::LoadIdentity(given, key) : SelfMadeIdentity();
  if (!identity.ok()) return identity.error();
  ASSIGN_OR_RETURN(std::shared_ptr<server::Encryption> encryption, server::Encryption::Create(*identity));
  server_.SetEncryption(std::move(encryption));
  fingerprint_ = std::move(identity->fingerprint);
  certificate_ = std::move(source);
  Log(LogLevel::kInfo, "other machines see the certificate " + fingerprint_);
  return {};
}

bool Listening::IsWantedByTarget(const wire::Address& address) const {
  return std::any_of(wishes_.begin(), wishes_.end(),
                     [&](const auto& wish) { return wish.second == address; });
}

Result<void> Listening::Open(const wire::Address& address, const wire::Settings& settings) {
  if (!wire::IsLoopback(address.host)) RETURN_IF_ERROR(PrepareEncryption(settings));
  const std::size_t before = server_.addresses().size();
  RETURN_IF_ERROR(server_.Listen(address));
  if (server_.addresses().size() > before) Log(LogLevel::kInfo, "listens on " + address.ToText());
  return {};
}

Result<void> Listening::Apply(const wire::Settings& settings) {
  if (!settings.Get("probing.server.certificate").empty() || !fingerprint_.empty())
    RETURN_IF_ERROR(PrepareEncryption(settings));
  const std::vector<wire::Address> before = server_.addresses();
  const std::vector<wire::Address> wanted = Wanted(settings);
  Result<void> opened;
  for (const wire::Address& address : wanted) {
    if (opened.ok()) opened = Open(address, settings);
  }
  for (const wire::Address& address : server_.addresses()) {
    const bool was_there = std::find(before.begin(), before.end(), address) != before.end();
    const bool is_wanted = std::find(wanted.begin(), wanted.end(), address) != wanted.end();
    if (opened.ok() ? !is_wanted && !IsWantedByTarget(address) : !was_there) server_.Close(address);
  }
  if (!opened.ok()) return opened;
  const auto right = server::RightFromName(settings.Get("probing.server.rights"));
  access_.Configure(
      {right.value_or(server::Right::kRead), HostNames(), settings.GetFlag("probing.server.plain")});
  return {};
}

Result<void> Listening::Add(const wire::Address& address) {
  const std::vector<wire::Address> wanted = Wanted(settings_);
  if (std::find(wanted.begin(), wanted.end(), address) != wanted.end()) return Open(address, settings_);
  wire::Settings changed = settings_;
  const std::string before(settings_.Get(kAddresses));
  RETURN_IF_ERROR(changed.Set(kAddresses, (before == "none" ? "" : before + ",") + address.ToText()));
  RETURN_IF_ERROR(Apply(changed));
  settings_ = std::move(changed);
  return {};
}

Result<void> Listening::Remove(const wire::Address& address) {
  std::string rest;
  for (const wire::Address& each : Wanted(settings_)) {
    if (each != address) rest += (rest.empty() ? "" : ",") + each.ToText();
  }
  wire::Settings changed = settings_;
  RETURN_IF_ERROR(changed.Set(kAddresses, rest));
  RETURN_IF_ERROR(Apply(changed));
  settings_ = std::move(changed);
  return {};
}

void Listening::Watch() { asio::co_spawn(io_, LookAtTargets(), asio::detached); }

void Listening::TakeWish(const Target& target) {
  const auto variable = [&](const char* name) {
    Result<std::string> value = process::StartupEnvironment(target.pid, name);
    return value.ok() ? std::move(*value) : std::string();
  };
  std::optional<wire::Address>& wish = wishes_[{target.pid, target.start_ticks}];
  const std::optional<Result<wire::Address>> address = wire::AddressFromVariables(variable);
  const std::string token = variable("PROBING_TOKEN");
  // The number may be another process's by now, of another user.
  const Result<process::Status> now = process::ReadStatus(target.pid);
  if (!now.ok() || now->start_ticks != target.start_ticks || now->effective_uid != target.uid) return;
  if (!address) return;
  if (!target.may_request) return NotServed(target, "its environment may not ask for an address here");
  Result<void> opened;
  if (!token.empty()) opened = AdoptTokens(access_, token);
  if (opened.ok()) opened = address->ok() ? Open(**address, settings_) : Result<void>(address->error());
  if (!opened.ok()) return NotServed(target, opened.error().message + "; " + opened.error().hint);
  wish = **address;
}

void Listening::NotServed(const Target& target, const std::string& reason) {
  Log(LogLevel::kWarn,
      "target " + std::to_string(target.pid) + " is not served where it wants to be: " + reason);
  asio::co_spawn(io_, targets_.OnNotServed(target.pid, reason), asio::detached);
}

std::vector<pid_t> Listening::ServedAt(const wire::Address& address) const {
  std::vector<pid_t> pids;
  for (const auto& [target, wish] : wishes_) {
    if (!wish || wish->port != address.port) continue;
    const bool is_any = wish->host == "0.0.0.0" || wish->host == "::";
    const bool is_name = wish->host == "localhost" && address.host == "127.0.0.1";
    if (is_any || is_name || wish->host == address.host) pids.push_back(target.first);
  }
  return pids;
}

asio::awaitable<void> Listening::LookAtTargets() {
  while (true) {
    const std::vector<const Target*> known = targets_.Known();
    std::erase_if(wishes_, [&](const auto& wish) {
      return std::none_of(known.begin(), known.end(), [&](const Target* target) {
        return wish.first == std::pair(target->pid, target->start_ticks);
      });
    });
    for (const Target* target : known) {
      const bool is_new = !wishes_.contains({target->pid, target->start_ticks});
      if (is_new && target->state == TargetState::kLive) TakeWish(*target);
    }
    const std::vector<wire::Address> wanted = Wanted(settings_);
    for (const wire::Address& address : server_.addresses()) {
      const bool is_wanted = std::find(wanted.begin(), wanted.end(), address) != wanted.end();
      if (!is_wanted && !IsWantedByTarget(address)) server_.Close(address);
    }
    asio::steady_timer timer(io_, kLookEvery);
    (void)co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  }
}

std::string Listening::Link(const wire::Address& address, server::Right right) {
  wire::Address shown = address;
  if (shown.host == "0.0.0.0" || shown.host == "::") {
    const std::vector<std::string> names = HostNames();
    shown.host = names.empty() ? "localhost" : names[0];
  }
  const bool is_plain = wire::IsLoopback(shown.host) || access_.options().allow_plain;
  return (is_plain ? "http://" : "https://") + shown.ToText() +
         "/?ticket=" + access_.IssueTicket(right, MonotonicNs());
}

}  // namespace probing::daemon
