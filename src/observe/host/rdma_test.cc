#include "observe/host/rdma.h"

#include <gtest/gtest.h>

#include "observe/host/fake_proc.h"

namespace probing::observe {
namespace {

TEST(Rdma, APortOfMlx5) {
  FakeProc sys;
  const std::string port = "class/infiniband/mlx5_0/ports/1/";
  sys.Write(port + "link_layer", "InfiniBand\n");
  sys.Write(port + "state", "4: ACTIVE\n");
  sys.Write(port + "phys_state", "5: LinkUp\n");
  sys.Write(port + "rate", "400 Gb/sec (4X NDR)\n");
  const auto write = [&](int times) {
    for (const auto& [name, value] :
         std::initializer_list<std::pair<const char*, int>>{{"counters/port_rcv_data", 1000},
                                                            {"counters/port_xmit_data", 2000},
                                                            {"counters/port_rcv_packets", 10},
                                                            {"counters/port_xmit_packets", 20},
                                                            {"counters/symbol_error", 1},
                                                            {"counters/port_rcv_errors", 2},
                                                            {"counters/link_downed", 1},
                                                            {"counters/port_xmit_wait", 700},
                                                            {"hw_counters/packet_seq_err", 3},
                                                            {"hw_counters/local_ack_timeout_err", 4},
                                                            {"hw_counters/np_ecn_marked_roce_packets", 5},
                                                            {"hw_counters/lifespan", 10}})
      sys.Write(port + name, std::to_string(value * times) + "\n");
  };
  write(1);
  RdmaWatch watch(sys.root());
  ASSERT_TRUE(watch.available());
  const auto first = watch.Look();
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].device, "mlx5_0");
  EXPECT_EQ(first[0].port, 1);
  EXPECT_EQ(first[0].link_layer, "InfiniBand");
  EXPECT_EQ(first[0].state, "active");
  EXPECT_EQ(first[0].physical_state, "linkup");
  EXPECT_EQ(first[0].speed_gbps, 400);
  EXPECT_EQ(first[0].received_bytes, std::nullopt) << "an interval needs two looks";
  write(3);
  const auto second = watch.Look();
  EXPECT_EQ(second[0].received_bytes, 8000) << "the counter has words of four bytes";
  EXPECT_EQ(second[0].sent_bytes, 16000);
  EXPECT_EQ(second[0].received_packets, 20);
  EXPECT_EQ(second[0].sent_packets, 40);
  EXPECT_EQ(second[0].errors, 6);
  EXPECT_EQ(second[0].link_downs, 2);
  EXPECT_EQ(second[0].wait_ticks, 1400);
  EXPECT_EQ(second[0].retransmissions, 14);
  EXPECT_EQ(second[0].congestion_marks, 10);
}

TEST(Rdma, APortThatIsDownAndHasFewCounters) {
  FakeProc sys;
  sys.Write("class/infiniband/efa_0/ports/1/state", "1: DOWN\n");
  sys.Write("class/infiniband/efa_0/ports/1/rate", "nonsense\n");
  sys.Write("class/infiniband/efa_0/ports/1/hw_counters/rx_bytes", "5\n");
  sys.Write("class/infiniband/efa_0/ports/1/hw_counters/retrans_pkts", "1\n");
  sys.Write("class/infiniband/efa_0/ports/x/state", "4: ACTIVE\n");
  RdmaWatch watch(sys.root());
  (void)watch.Look();
  sys.Write("class/infiniband/efa_0/ports/1/hw_counters/rx_bytes", "25\n");
  sys.Write("class/infiniband/efa_0/ports/1/hw_counters/retrans_pkts", "4\n");
  const auto looks = watch.Look();
  ASSERT_EQ(looks.size(), 1U);
  EXPECT_EQ(looks[0].state, "down");
  EXPECT_EQ(looks[0].link_layer, "");
  EXPECT_EQ(looks[0].speed_gbps, std::nullopt);
  EXPECT_EQ(looks[0].received_bytes, 20);
  EXPECT_EQ(looks[0].sent_bytes, std::nullopt);
  EXPECT_EQ(looks[0].retransmissions, 3);
  EXPECT_EQ(looks[0].errors, std::nullopt);
}

TEST(Rdma, AMachineWithoutOneHasNoPorts) {
  FakeProc sys;
  RdmaWatch watch(sys.root());
  EXPECT_FALSE(watch.available());
  EXPECT_TRUE(watch.Look().empty());
}

}  // namespace
}  // namespace probing::observe
