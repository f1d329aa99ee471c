// Plays libamd_smi.so in the tests, with the signatures and structs of amdsmi 7.0: two sockets with a GPU
// each.
#include <stdint.h>
#include <string.h>

enum { kOk = 0, kNotSupported = 2 };

struct Version {
  uint32_t major, minor, release;
  const char* build;
};
struct Violations {
  uint64_t reference_timestamp, violation_timestamp, acc[7], per[6];
  uint8_t prochot, ppt, socket, vr, hbm, below_host_limit;
  uint8_t padding[2];
  uint64_t arrays[8 * 64];
  uint8_t active[4 * 64];
  uint64_t reserved[3 * 64];
};

int stand_in_open = 0;

int amdsmi_init(uint64_t flags) {
  if (flags != 2) return kNotSupported;
  ++stand_in_open;
  return kOk;
}
int amdsmi_shut_down(void) {
  --stand_in_open;
  return kOk;
}
int amdsmi_get_lib_version(struct Version* version) {
  *version = (struct Version){26, 0, 2, "stand-in"};
  return kOk;
}
int amdsmi_get_socket_handles(uint32_t* count, void** handles) {
  if (handles != NULL && *count >= 2) {
    handles[0] = (void*)1L;
    handles[1] = (void*)2L;
  }
  *count = 2;
  return kOk;
}
int amdsmi_get_processor_handles(void* socket, uint32_t* count, void** handles) {
  if (handles != NULL && *count >= 1) handles[0] = (void*)((long)socket + 10);
  *count = 1;
  return kOk;
}
int amdsmi_get_gpu_device_bdf(void* device, uint64_t* bdf) {
  *bdf = (uint64_t)((long)device == 11 ? 0xc1 : 0xc5) << 8;
  return kOk;
}
int amdsmi_get_violation_status(void* device, struct Violations* violations) {
  memset(violations, 0, sizeof(*violations));
  if ((long)device != 11) return kNotSupported;
  violations->ppt = 1;
  violations->hbm = 1;
  violations->vr = 255;
  return kOk;
}
