// NetworkWatch: traffic of the network interfaces that a process sees, between two looks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "observe/host/counter.h"
#include "observe/host/kept_file.h"

namespace probing::observe {

struct InterfaceLook {
  std::string name;
  bool is_quiet = false;  // nothing came or went since the last look
  Number received_bytes, sent_bytes, received_packets, sent_packets;
  Number errors;  // and drops, both ways
};

class NetworkWatch {
 public:
  // `folder_fd` is the open /proc/PID; it and the budget outlive this.
  NetworkWatch(int folder_fd, FileBudget* budget) : file_(folder_fd, "net/dev", budget) {}

  // Interfaces that never carried anything are left out.
  std::vector<InterfaceLook> Look(std::string& scratch);

 private:
  struct Counters {
    Counter received_bytes, sent_bytes, received_packets, sent_packets, errors;
    bool seen = true;
  };
  KeptFile file_;
  std::map<std::string, Counters, std::less<>> interfaces_;
};

}  // namespace probing::observe
