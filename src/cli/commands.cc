#include "cli/commands.h"

namespace probing::cli {

const std::vector<Command>& AllCommands() {
  static const std::vector<Command> commands{
      InjectCommand(),     EjectCommand(),      RunCommand(),    PsCommand(),     ListCommand(),
      BacktraceCommand(),  WhyCommand(),        QueryCommand(),  SqlCommand(),    TablesCommand(),
      MemoryCommand(),     FlamegraphCommand(), RecordCommand(), TopCommand(),    ProfileCommand(),
      IncidentCommand(),   EvalCommand(),       ReplCommand(),   DebugCommand(),  ScriptCommand(),
      ClusterCommand(),    DiagnoseCommand(),   StoreCommand(),  ConfigCommand(), StatusCommand(),
      ServeCommand(),      TokenCommand(),      McpCommand(),    SkillsCommand(), DoctorCommand(),
      CompletionCommand(), VersionCommand(),
  };
  return commands;
}

}  // namespace probing::cli
