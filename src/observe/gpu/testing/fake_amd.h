// For tests: files that amdgpu has below /sys for an MI300X that is used by process 4711, and one that says
// little.
#pragma once

#include <string>

#include "observe/host/fake_proc.h"

namespace probing::observe {

inline void WriteFakeAmd(FakeProc& sys) {
  const std::string card = "class/drm/card0/device/";
  sys.Write(card + "vendor", "0x1002\n");
  sys.Write(card + "device", "0x74a1\n");
  sys.Write(card + "uevent", "DRIVER=amdgpu\nPCI_CLASS=38000\nPCI_SLOT_NAME=0000:c1:00.0\nMODALIAS=pci:v\n");
  sys.Write(card + "product_name", "AMD Instinct MI300X\n");
  sys.Write(card + "unique_id", "a1b2c3d4e5f60718\n");
  sys.Write(card + "gpu_busy_percent", "88\n");
  sys.Write(card + "mem_busy_percent", "33\n");
  sys.Write(card + "mem_info_vram_used", "5000000000\n");
  sys.Write(card + "mem_info_vram_total", "206141652992\n");
  sys.Write(card + "current_link_width", "8\n");
  sys.Write(card + "max_link_width", "16\n");
  sys.Write(card + "current_link_speed", "16.0 GT/s PCIe\n");
  sys.Write(card + "max_link_speed", "32.0 GT/s PCIe\n");
  sys.Write(card + "pcie_replay_count", "9\n");
  sys.Write(card + "ras/umc_err_count", "ue: 1\nce: 3\n");
  sys.Write(card + "ras/gfx_err_count", "ue: 0\nce: 4\n");
  sys.Write(card + "ras/features", "feature mask: 0x1\n");
  sys.Write(card + "ras/gpu_vram_bad_pages",
            "0x00000001 : 0x00001000 : R\n0x00000002 : 0x00001000 : R\n0x00000003 : 0x00001000 : P\n");
  const std::string hwmon = card + "hwmon/hwmon7/";
  sys.Write(hwmon + "temp1_label", "edge\n");
  sys.Write(hwmon + "temp1_input", "50000\n");
  sys.Write(hwmon + "temp2_label", "junction\n");
  sys.Write(hwmon + "temp2_input", "71000\n");
  sys.Write(hwmon + "temp2_crit", "100000\n");
  sys.Write(hwmon + "temp3_label", "mem\n");
  sys.Write(hwmon + "temp3_input", "62000\n");
  sys.Write(hwmon + "power1_average", "512500000\n");
  sys.Write(hwmon + "power1_cap", "750000000\n");
  sys.Write(hwmon + "freq1_label", "sclk\n");
  sys.Write(hwmon + "freq1_input", "2100000000\n");
  sys.Write(hwmon + "freq2_label", "mclk\n");
  sys.Write(hwmon + "freq2_input", "1300000000\n");
  sys.Write("class/drm/card0-DP-1/status", "disconnected\n");
  sys.Write("class/drm/card1/device/vendor", "0x1a03\n");
  sys.Write("class/drm/card2/device/vendor", "0x1002\n");
  sys.Write("class/drm/card2/device/device", "0x74a1\n");
  sys.Write("class/drm/card2/device/uevent", "PCI_SLOT_NAME=0000:c5:00.0\n");
  sys.Write("class/drm/card2/device/mem_info_vram_total", "206141652992\n");
  // The compute driver's view: node 0 is a processor.
  const std::string nodes = "class/kfd/kfd/topology/nodes/";
  sys.Write(nodes + "0/properties", "cpu_cores_count 64\nlocation_id 0\n");
  sys.Write(nodes + "0/gpu_id", "0\n");
  sys.Write(nodes + "1/properties", "simd_count 1216\nlocation_id 49408\ndomain 0\n");  // 0xc100
  sys.Write(nodes + "1/gpu_id", "51140\n");
  sys.Write("class/kfd/kfd/proc/4711/vram_51140", "1073741824\n");
  sys.Write("class/kfd/kfd/proc/4712/vram_51140", "0\n");
}

}  // namespace probing::observe
