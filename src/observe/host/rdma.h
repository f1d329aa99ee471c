// RdmaWatch: InfiniBand and RoCE ports of this host between two looks, from /sys/class/infiniband.
//
// Names of counters differ from driver to driver (mlx5, bnxt_re, irdma, efa): each column is the sum of those
// that mean the same. A counter that a driver does not have is left out.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "observe/host/counter.h"

namespace probing::observe {

struct RdmaLook {
  std::string device, link_layer, state, physical_state;  // mlx5_0; InfiniBand or Ethernet; active; linkup
  int port = 0;
  std::optional<double> speed_gbps;
  // In the interval since the look before.
  Number received_bytes, sent_bytes, received_packets, sent_packets;
  Number errors;            // packets damaged, refused or thrown away; links that were lost for a moment
  Number link_downs;        // times the link went down
  Number retransmissions;   // sent again, or asked to send again
  Number congestion_marks;  // packets marked by switches on the way (RoCE), and notices of it
  Number wait_ticks;        // ticks of the port in which data was ready and the other side had no room
};

// Not thread-safe. A look reads some thirty small files for each port, which the device may answer slowly.
class RdmaWatch {
 public:
  explicit RdmaWatch(std::string sys_root);
  bool available() const;  // there is a port
  std::vector<RdmaLook> Look();

 private:
  struct Port {
    Counter received_bytes, sent_bytes, received_packets, sent_packets, errors, link_downs, retransmissions,
        congestion_marks, wait_ticks;
  };
  const std::string folder_;
  std::map<std::string, Port> ports_;  // by folder
};

}  // namespace probing::observe
