// Plays libdcmi.so in the tests, with the signatures and structs of dcmi_interface_api.h: card 2 has an NPU
// and a controller, card 5 an NPU that is ill.
#include <stdio.h>
#include <string.h>

enum { kOk = 0, kInvalid = -8001 };

struct Chip {
  unsigned char type[32], name[32], version[32];
  unsigned cores;
};
struct Hbm {
  unsigned long long size_mb;
  unsigned clock;
  unsigned long long used_mb;
  int temperature;
  unsigned bandwidth;
};
struct Ecc {
  int enabled;
  unsigned single, twice, total_single, total_twice, isolated_single, isolated_twice;
};
struct Pcie {
  unsigned vendor, subvendor, device, subdevice;
  int domain;
  unsigned bus, slot, function;
  unsigned char reserved[32];
};
struct Process {
  int pid;
  unsigned long bytes;
};

int dcmi_init(void) { return kOk; }
int dcmi_get_card_list(int* count, int* cards, int length) {
  if (length < 2) return kInvalid;
  *count = 2;
  cards[0] = 2;
  cards[1] = 5;
  return kOk;
}
int dcmi_get_device_num_in_card(int card, int* count) {
  *count = card == 2 ? 2 : 1;
  return kOk;
}
int dcmi_get_driver_version(char* version, unsigned length) {
  snprintf(version, length, "24.1.rc2");
  return kOk;
}
int dcmi_get_device_chip_info(int card, int device, struct Chip* chip) {
  (void)card;
  memset(chip, 0, sizeof(*chip));
  strcpy((char*)chip->name, device == 0 ? "910B3" : "mcu");
  return kOk;
}
int dcmi_get_device_pcie_info_v2(int card, int device, struct Pcie* pcie) {
  (void)device;
  memset(pcie, 0, sizeof(*pcie));
  pcie->bus = card == 2 ? 0xc1 : 0xc2;
  return kOk;
}
int dcmi_get_device_utilization_rate(int card, int device, int kind, unsigned* percent) {
  if (device != 0 || card != 2) return kInvalid;
  *percent = kind == 2 ? 83 : kind == 10 ? 21 : 0;
  return kOk;
}
int dcmi_get_device_temperature(int card, int device, int* temperature) {
  (void)card, (void)device;
  *temperature = 44;
  return kOk;
}
int dcmi_get_device_power_info(int card, int device, int* tenths) {
  (void)card, (void)device;
  *tenths = 1624;
  return kOk;
}
int dcmi_get_device_frequency(int card, int device, int kind, unsigned* megahertz) {
  (void)card, (void)device;
  *megahertz = kind == 7 ? 1650 : kind == 9 ? 1800 : kind == 6 ? 1600 : 0;
  return *megahertz == 0 ? kInvalid : kOk;
}
int dcmi_get_device_hbm_info(int card, int device, struct Hbm* hbm) {
  (void)card;
  if (device != 0) return kInvalid;
  *hbm = (struct Hbm){65536, 1600, 3300, 51, 21};
  return kOk;
}
int dcmi_get_device_ecc_info(int card, int device, int type, struct Ecc* ecc) {
  (void)card, (void)device;
  if (type != 2) return kInvalid;
  *ecc = (struct Ecc){1, 3, 1, 30, 10, 2, 1};
  return kOk;
}
int dcmi_get_device_health(int card, int device, unsigned* health) {
  (void)device;
  *health = card == 5 ? 3 : 0;
  return kOk;
}
int dcmi_get_device_errorcode_v2(int card, int device, int* count, unsigned* codes, unsigned length) {
  (void)card, (void)device;
  if (length != 128) return kInvalid;
  *count = 2;
  codes[0] = 0x80E01801;
  codes[1] = 0x80CD8008;
  return kOk;
}
int dcmi_get_device_resource_info(int card, int device, struct Process* processes, int* count) {
  (void)device;
  *count = card == 2 ? 1 : 0;
  if (card == 2) processes[0] = (struct Process){4711, 1UL << 30};
  return kOk;
}
