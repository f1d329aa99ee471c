// The commands of `probing`, one file each.
#pragma once

#include <vector>

#include "cli/command.h"

namespace probing::cli {

Command InjectCommand();
Command EjectCommand();
Command RunCommand();
Command PsCommand();
Command ListCommand();
Command BacktraceCommand();
Command WhyCommand();
Command IncidentCommand();
Command QueryCommand();
Command SqlCommand();
Command TablesCommand();
Command MemoryCommand();
Command FlamegraphCommand();
Command RecordCommand();
Command TopCommand();
Command ProfileCommand();
Command EvalCommand();
Command ReplCommand();
Command DebugCommand();
Command ScriptCommand();
Command ConfigCommand();
Command StatusCommand();
Command ServeCommand();
Command TokenCommand();
Command ClusterCommand();
Command DiagnoseCommand();
Command StoreCommand();
Command McpCommand();
Command SkillsCommand();
Command DoctorCommand();
Command CompletionCommand();
Command VersionCommand();

// In the order in which --help shows them.
const std::vector<Command>& AllCommands();

}  // namespace probing::cli
