#include "observe/host/rdma.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "base/file.h"
#include "base/text.h"

namespace probing::observe {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::string ReadText(const std::string& path) {
  const Result<std::string> text = ReadFile(path);
  return text.ok() ? std::string(Trim(*text, kSpace)) : "";
}

// The sum of the files that are there; nullopt when none is.
Number Sum(const std::string& folder, std::initializer_list<std::string_view> names) {
  Number sum;
  for (const std::string_view name : names) {
    const Number value = ParseNumber(ReadText(folder + std::string(name)));
    if (value) sum = Plus(sum.value_or(0), value);
  }
  return sum;
}

// The first that is there.
Number First(const std::string& folder, std::initializer_list<std::pair<std::string_view, int>> names) {
  for (const auto& [name, unit] : names) {
    const Number value = ParseNumber(ReadText(folder + std::string(name)));
    if (value) return Times(value, unit);
  }
  return std::nullopt;
}

// "4: ACTIVE", "5: LinkUp" as "active", "linkup".
std::string Word(const std::string& text) {
  std::string_view rest = text;
  TakePart(rest, ':');
  return LowerCase(Trim(rest, kSpace));
}

}  // namespace

RdmaWatch::RdmaWatch(std::string sys_root) : folder_(std::move(sys_root) + "/class/infiniband") {}

bool RdmaWatch::available() const {
  const Result<std::vector<std::string>> devices = ListDirectory(folder_);
  return devices.ok() && std::ranges::any_of(*devices, [&](const std::string& device) {
           return ListDirectory(folder_ + "/" + device + "/ports").ok();
         });
}

std::vector<RdmaLook> RdmaWatch::Look() {
  std::vector<RdmaLook> looks;
  Result<std::vector<std::string>> devices = ListDirectory(folder_);
  if (!devices.ok()) return looks;
  std::ranges::sort(*devices);
  for (const std::string& device : *devices) {
    const std::string ports = folder_ + "/" + device + "/ports";
    Result<std::vector<std::string>> numbers = ListDirectory(ports);
    if (!numbers.ok()) continue;
    std::ranges::sort(*numbers);
    for (const std::string& number : *numbers) {
      RdmaLook look;
      if (!probing::ParseNumber(std::string_view(number), look.port)) continue;
      const std::string folder = ports + "/" + number + "/";
      look.device = device;
      look.link_layer = ReadText(folder + "link_layer");
      look.state = Word(ReadText(folder + "state"));
      look.physical_state = Word(ReadText(folder + "phys_state"));
      double gbps = 0;  // "400 Gb/sec (4X NDR)"
      const std::string rate = ReadText(folder + "rate");
      if (probing::ParseNumber(std::string_view(rate).substr(0, rate.find(' ')), gbps))
        look.speed_gbps = gbps;

      Port& port = ports_[folder];
      // In words of four bytes, says InfiniBand; efa counts bytes.
      look.received_bytes = port.received_bytes.Step(
          First(folder, {{"counters/port_rcv_data", 4}, {"hw_counters/rx_bytes", 1}}));
      look.sent_bytes =
          port.sent_bytes.Step(First(folder, {{"counters/port_xmit_data", 4}, {"hw_counters/tx_bytes", 1}}));
      look.received_packets = port.received_packets.Step(
          First(folder, {{"counters/port_rcv_packets", 1}, {"hw_counters/rx_pkts", 1}}));
      look.sent_packets = port.sent_packets.Step(
          First(folder, {{"counters/port_xmit_packets", 1}, {"hw_counters/tx_pkts", 1}}));
      look.errors = port.errors.Step(
          Sum(folder, {"counters/symbol_error", "counters/link_error_recovery", "counters/port_rcv_errors",
                       "counters/port_rcv_remote_physical_errors", "counters/port_rcv_switch_relay_errors",
                       "counters/port_xmit_discards", "counters/port_rcv_constraint_errors",
                       "counters/port_xmit_constraint_errors", "counters/local_link_integrity_errors",
                       "counters/excessive_buffer_overrun_errors", "hw_counters/rx_drops",
                       "hw_counters/rx_icrc_encapsulated", "hw_counters/req_cqe_error",
                       "hw_counters/resp_cqe_error", "hw_counters/rx_roce_error_pkts"}));
      look.link_downs = port.link_downs.Step(Sum(folder, {"counters/link_downed"}));
      look.retransmissions = port.retransmissions.Step(Sum(
          folder,
          {"hw_counters/packet_seq_err", "hw_counters/out_of_sequence", "hw_counters/local_ack_timeout_err",
           "hw_counters/rnr_nak_retry_err", "hw_counters/implied_nak_seq_err", "hw_counters/roce_adp_retrans",
           "hw_counters/to_retransmits", "hw_counters/seq_err_naks_rcvd", "hw_counters/rnr_naks_rcvd",
           "hw_counters/RetransSegs", "hw_counters/retrans_pkts", "hw_counters/retrans_timeout_events"}));
      look.congestion_marks = port.congestion_marks.Step(
          Sum(folder, {"hw_counters/np_ecn_marked_roce_packets", "hw_counters/rp_cnp_handled",
                       "hw_counters/rx_ecn_marked_pkts", "hw_counters/rx_cnp_pkts", "hw_counters/cnpHandled",
                       "hw_counters/RxECNMrkd"}));
      look.wait_ticks = port.wait_ticks.Step(Sum(folder, {"counters/port_xmit_wait"}));
      looks.push_back(std::move(look));
    }
  }
  return looks;
}

}  // namespace probing::observe
