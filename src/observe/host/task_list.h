// The numbers in an open directory of /proc, ascending: threads of /proc/PID/task.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace probing::observe {

// Empty when it cannot be read. `scratch` is for reading.
std::vector<pid_t> ListTasks(int folder_fd, std::string& scratch);

}  // namespace probing::observe
