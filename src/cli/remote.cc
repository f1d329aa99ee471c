#include "cli/remote.h"

#include "cli/daemon_client.h"
#include "wire/contract.h"

namespace probing::cli {

Result<void> ChooseRemote(const Command& command, Invocation& invocation) {
  const std::string place = invocation.endpoint->ToText();
  UseDaemonAt(*invocation.endpoint);
  if (!invocation.target && !command.all_is_fine) {
    ASSIGN_OR_RETURN(const Json answer, GetFromDaemon(std::string(wire::kTargetsRoute)));
    std::string names;
    std::size_t count = 0;
    for (const Json& target : answer.value("targets", Json::array())) {
      if (target.value("state", "") == "ended") continue;
      invocation.target = target.value("pid", 0);
      names += (++count > 1 ? ", " : "") + place + "/" + std::to_string(*invocation.target);
    }
    if (count != 1) invocation.target.reset();
    if (count != 1 && command.target == TargetUse::kRequired) {
      return Error{count == 0 ? Code::kNotFound : Code::kUsage,
                   place + (count == 0 ? " serves no process" : " serves several processes"),
                   count == 0 ? "probe one there: `probing -t PID inject`" : "name one of " + names};
    }
  }
  invocation.remote_name = place + (invocation.target ? "/" + std::to_string(*invocation.target) : "");
  return {};
}

}  // namespace probing::cli
