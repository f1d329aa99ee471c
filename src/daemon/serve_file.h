// `probingd --file PATH ADDRESS`: a daemon of its own whose world is one recording, for `probing serve FILE`.
// It knows no process, has no unix socket, writes nothing, and ends with ^C or with the one that started it.
#pragma once

#include <string>

namespace probing::daemon {

// Prints where the page is on stdout, and serves. The exit code.
int ServeFile(const std::string& path, const std::string& address);

}  // namespace probing::daemon
